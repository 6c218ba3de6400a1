"""Masks and positions of rows packed with several sequences."""

from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.positions import token_positions


def segment_mask(segments: Tensor, key_segments: Tensor | None = None) -> Tensor:
    """Returns the attention mask of packed rows, in which a token sees only its own sequence.

        visible[b, t, s] = segments[b, t] == key_segments[b, s] and key_segments[b, s] != 0

    The mask is block-diagonal if each sequence is contiguous (Krell et al., 2021,
    https://arxiv.org/abs/2107.02027). It does not include a causal mask.

    Args:
        segments: Integers `(B, T)`: the number, from 1, of the sequence of each query; 0 for
            padding.
        key_segments: Integers `(B, S)`, the same for the keys of cross-attention; `segments` if
            None.

    Returns:
        A boolean tensor `(B, T, S)`.

    Example:

    >>> ops.convert_to_numpy(segment_mask(ops.array([[1, 1, 2, 0]])))[0].astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    """
    segments = ops.convert_to_tensor(segments)
    keys = segments if key_segments is None else ops.convert_to_tensor(key_segments)
    keys = ops.expand_dims(keys, 1)
    same = ops.equal(ops.expand_dims(segments, 2), keys)
    return ops.logical_and(same, ops.not_equal(keys, 0))


def segment_positions(segments: Tensor) -> Tensor:
    """Returns the positions of packed tokens, which restart at 0 with each sequence.

        positions[b, t] = number of s < t with segments[b, s] == segments[b, t]

    Args:
        segments: Integers `(B, T)`: the number of the sequence of each token. Padding, 0, counts as
            one more sequence.

    Returns:
        The positions, int32 `(B, T)`, for `PositionalEncoding` or the `positions` of blocks.

    Example:

    >>> ops.convert_to_numpy(segment_positions(ops.array([[1, 1, 1, 2, 2, 0]]))).tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    segments = ops.convert_to_tensor(segments)
    slots = token_positions(segments)
    same = ops.equal(ops.expand_dims(segments, 2), ops.expand_dims(segments, 1))
    earlier = ops.less(ops.expand_dims(slots, 1), ops.expand_dims(slots, 2))
    return ops.sum(ops.cast(ops.logical_and(same, earlier), "int32"), axis=2)
