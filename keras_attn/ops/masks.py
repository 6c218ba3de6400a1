"""Creation, checks and combination of masks. True marks tokens, or visible keys."""

import sys
from types import FrameType
from typing import cast

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor, TensorLike

# Far below any score, but within float32: exp() of it is exactly zero.
MASKED = -1e30

# Methods of `keras.layers.Layer` that build a saved model from its shapes.
_BUILDS_OF_SHAPES = ("_build_by_run_for_single_pos_arg", "_build_by_run_for_kwargs")


def static_shape(x: Tensor) -> tuple[int | None, ...]:
    """Returns the shape of `x`, with None for unknown sizes (for which JAX has symbols)."""
    return tuple(d if isinstance(d, int) else None for d in x.shape)


def not_hidden(bias: Tensor) -> Tensor:
    """Returns True where a bias keeps its key visible: -inf hides it, NaN does not."""
    return ops.logical_not(bias <= MASKED)


def _differ(a: int | None, b: int | None, broadcast: bool = False) -> bool:
    if a is None or b is None or a == b:
        return False
    return not (broadcast and a == 1)


def dtypes_are_guessed() -> bool:
    """Returns whether Keras is building a model from inputs that have lost their dtypes.

    Under `tf.distribute`, Keras builds with the mean of the replicas' batches. It builds a
    subclassed model from a `.keras` file with floats of the saved shapes; if that fails, Keras only
    warns, and the layers keep new random weights.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in _BUILDS_OF_SHAPES:
            return True
        frame = frame.f_back
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.distribute.has_strategy() and tf.distribute.in_cross_replica_context()


def as_boolean_mask(mask: TensorLike, name: str = "mask") -> Tensor:
    """Converts a mask of booleans or 0/1 integers to booleans; a mask of floats raises an error.

    A float mask may be a 0/1 mask or an additive mask (0/-inf), and a wrong guess would be a silent
    error.

    Args:
        mask: Boolean or integer tensor or array of any shape. Arrays and lists must contain only 0
            and 1; in a tensor, which may be symbolic, everything except 0 is True.
        name: Name of the argument, for the error message.

    Returns:
        A boolean tensor of the same shape.

    Raises:
        ValueError: If the dtype is neither boolean nor integer, or an array or list has an integer
            other than 0 and 1.

    Example:

    >>> as_boolean_mask([[1, 1, 0]]).shape == (1, 3)
    True
    """
    if isinstance(mask, list | tuple):
        mask = np.asarray(mask)
    if isinstance(mask, np.ndarray) and mask.dtype.kind in "iu" and not np.isin(mask, (0, 1)).all():
        raise ValueError(
            f"An integer `{name}` must contain only 0 and 1, with 1 where a token may be "
            f"attended. Received: values {np.unique(mask)[:5].tolist()}, shape {mask.shape}."
        )
    given = cast(Tensor, mask if hasattr(mask, "dtype") else ops.convert_to_tensor(mask))
    dtype = keras.backend.standardize_dtype(given.dtype)
    if dtype == "bool":
        # Convert no symbolic mask: it would be a node in the graph of a model.
        return given if keras.backend.is_keras_tensor(given) else ops.convert_to_tensor(given)
    if "int" not in dtype and not dtypes_are_guessed():
        raise ValueError(
            f"`{name}` must be boolean or 0/1 integers, True where a token may be attended. "
            f"Received: dtype {dtype}, shape {static_shape(given)}. Pass `{name} > 0.5` for "
            "a 0/1 float mask. Pass an additive mask as `attention_bias` of a layer, or as "
            "`bias` of `keras_attn.ops.dot_product_attention`."
        )
    return ops.not_equal(ops.convert_to_tensor(given), 0)


def check_padding_mask(
    mask: TensorLike, batch: int | None, length: int | None, name: str = "padding_mask"
) -> Tensor:
    """Checks that `mask` is a `(B, S)` padding mask and returns it as booleans.

    Args:
        mask: Boolean or 0/1 integer tensor, array or nested list `(B, S)`, True for tokens.
        batch: Batch size of the masked sequence; None if unknown.
        length: Length S of the masked sequence; None if unknown.
        name: Name of the argument, for the error message.

    Returns:
        The mask as a boolean tensor `(B, S)`.

    Raises:
        ValueError: If the mask is neither boolean nor 0/1 integers, or has the wrong rank, batch
            size or length.

    Example:

    >>> check_padding_mask([[True, False]], batch=1, length=2).shape == (1, 2)
    True
    """
    mask = as_boolean_mask(mask, name)
    shape = static_shape(mask)
    if len(shape) != 2 or _differ(shape[0], batch) or _differ(shape[1], length):
        raise ValueError(
            f"`{name}` must have one value per token, shape (batch, length) = "
            f"{(batch, length)} here. Received: shape {shape}."
        )
    return mask


def check_not_rank_2(mask: Tensor, name: str, padding_name: str, causal: bool = False) -> None:
    """Raises an error for an attention mask of rank 2, which may be a padding or a causal mask.

    `(B, S)` and `(T, S)` cannot be distinguished if B = T, and a causal mask that is read as a
    padding mask would reveal future tokens.
    """
    if len(mask.shape) == 2:
        raise ValueError(
            f"`{name}` must have rank 3 or 4: (B, T, S) or (B, 1 or N, T, S). "
            f"Received: shape {static_shape(mask)}, which may be a padding mask (B, S) or one mask "
            f"(T, S) for all rows. Pass padding as `{padding_name}`, one mask for all rows as "
            f"`{name}=mask[None]`{', a triangle as `use_causal_mask=True`' if causal else ''}."
        )


def token_mask(prompt: Tensor, prompt_mask: Tensor | None) -> Tensor:
    """Returns the checked mask of a prompt `(B, P)` as booleans; all True if None."""
    if prompt_mask is None:
        return ops.ones_like(prompt, dtype="bool")
    batch, length = prompt.shape
    return check_padding_mask(prompt_mask, batch, length, "prompt_mask")


def combine_masks(
    query_shape: tuple[int | None, ...],
    key_shape: tuple[int | None, ...],
    num_heads: int,
    attention_mask: TensorLike | None = None,
    key_mask: TensorLike | None = None,
    causal_mask: Tensor | None = None,
) -> Tensor | None:
    """Combines all attention masks into one mask over `(B, N, T, S)`.

    `visible[b, n, t, s] = attention_mask AND key_mask AND causal_mask`; masks that are None are
    left out.

    Args:
        query_shape: Shape `(B, T, ...)` of the queries, with None for unknown sizes.
        key_shape: Shape `(B, S, ...)` of the keys.
        num_heads: Number of query heads N.
        attention_mask: Mask of query-key pairs, `(B, T, S)` or `(B, 1|N, T, S)`, boolean or 0/1
            integers. Axes of size 1 are broadcast, except the axis of the keys.
        key_mask: Padding mask `(B, S)` of the keys, boolean or 0/1 integers.
        causal_mask: Result of `causal_mask()`.

    Returns:
        A boolean tensor that broadcasts to `(B, N, T, S)`, or None if nothing is masked.

    Raises:
        ValueError: If `attention_mask` or `key_mask` has floats, or a wrong rank or shape.

    Example:

    >>> visible = combine_masks((1, 3, 8), (1, 2, 8), 4, key_mask=[[True, False]])
    >>> tuple(visible.shape)
    (1, 1, 1, 2)
    """
    B, T, S = query_shape[0], query_shape[1], key_shape[1]
    parts = []
    if key_mask is not None:
        key_mask = check_padding_mask(key_mask, key_shape[0], S, "key padding mask")
        parts.append(ops.expand_dims(ops.expand_dims(key_mask, 1), 1))
    if attention_mask is not None:
        mask = as_boolean_mask(attention_mask, "attention_mask")
        check_not_rank_2(mask, "attention_mask", "key_mask")
        shape = static_shape(mask)
        wanted = {3: (B, T, S), 4: (B, num_heads, T, S)}.get(len(shape))
        if (
            wanted is None
            or any(_differ(a, b, broadcast=True) for a, b in zip(shape, wanted, strict=True))
            or _differ(shape[-1], S)
        ):
            raise ValueError(
                "`attention_mask` must have shape (B, T, S) or (B, 1 or N, T, S), here "
                f"{(B, T, S)} or {(B, f'1 or {num_heads}', T, S)}. "
                f"Received: shape {shape}, with queries of shape {tuple(query_shape)} and keys of "
                f"shape {tuple(key_shape)}."
            )
        if len(shape) == 3:
            mask = ops.expand_dims(mask, 1)
        parts.append(mask)
    if causal_mask is not None:
        parts.append(causal_mask)
    if not parts:
        return None
    combined = parts[0]
    for part in parts[1:]:
        combined = ops.logical_and(combined, part)
    return combined


def causal_mask(query: Tensor, key: Tensor) -> Tensor:
    """Returns the mask in which query t sees key s only if `s <= t + (S - T)`.

    The mask is aligned bottom-right: the last query sees every key. If T = S, the mask is the usual
    lower triangle. If T < S, the queries are the last T positions of a longer sequence, as in
    cached decoding. If T > S, the first `T - S` queries see no key.

    Args:
        query: Tensor `(B, T, ...)`.
        key: Tensor `(B, S, ...)`.

    Returns:
        The mask, a boolean tensor `(1, 1, T, S)`.

    Example:

    >>> x = ops.ones((1, 2, 4)); y = ops.ones((1, 3, 4))
    >>> ops.convert_to_numpy(causal_mask(x, y))[0, 0].tolist()
    [[True, True, False], [True, True, True]]
    """
    T, S = static_shape(query)[1], static_shape(key)[1]
    if T is not None and S is not None:
        mask = np.tril(np.ones((T, S), "bool"), S - T)
        return ops.convert_to_tensor(mask[None, None])
    # Cumulative sums work for any dynamic length, on every backend and in every exporter. One row
    # of the batch is enough.
    query, key = query[:1, :], key[:1, :]  # a tuple, for symbolic tensors of Keras
    after_query = _positions_from_end(query)
    after_key = _positions_from_end(key)
    return ops.expand_dims(ops.expand_dims(after_key, 1) >= ops.expand_dims(after_query, 2), 1)


def sliding_window_mask(
    query: Tensor,
    key: Tensor,
    sliding_window: int,
    use_causal_mask: bool = False,
    sink_tokens: int = 0,
) -> Tensor:
    """Returns the mask in which a query sees keys less than `sliding_window` positions away.

        visible[t, s] = |t + (S - T) - s| < sliding_window  or  s < sink_tokens

    If `use_causal_mask` is True, keys with `s > t + (S - T)` are hidden too. The window is aligned
    bottom-right, like `causal_mask`. With a causal mask, a query sees the last `sliding_window`
    keys, including its own (Beltagy et al., 2020; Jiang et al., 2023); without a causal mask, it
    also sees later keys up to the same distance. The first `sink_tokens` keys stay visible in
    addition to the window (Xiao et al., 2024), unless the causal mask hides them.

    Args:
        query: Tensor `(B, T, ...)`.
        key: Tensor `(B, S, ...)`.
        sliding_window: Positive integer.
        use_causal_mask: Whether later keys are hidden as well.
        sink_tokens: Number of first keys that the window does not hide.

    Returns:
        The mask, a boolean tensor `(1, 1, T, S)`.

    Example:

    >>> x = ops.ones((1, 3, 4))
    >>> ops.convert_to_numpy(sliding_window_mask(x, x, 2, True))[0, 0].tolist()
    [[True, False, False], [True, True, False], [False, True, True]]
    """
    T, S = static_shape(query)[1], static_shape(key)[1]
    if T is not None and S is not None:
        distance = np.arange(T)[:, None] + (S - T) - np.arange(S)
        mask = (np.abs(distance) < sliding_window) | (np.arange(S) < sink_tokens)
        return ops.convert_to_tensor(
            (mask & (distance >= 0) if use_causal_mask else mask)[None, None]
        )
    after_query = ops.expand_dims(_positions_from_end(query[:1, :]), 2)
    after_key = ops.expand_dims(_positions_from_end(key[:1, :]), 1)
    distance = after_key - after_query
    mask = ops.abs(distance) < sliding_window
    if sink_tokens:
        from_start = ops.cumsum(ops.ones_like(after_key), axis=2)
        mask = ops.logical_or(mask, from_start <= sink_tokens)
    if use_causal_mask:
        mask = ops.logical_and(mask, distance >= 0)
    return ops.expand_dims(mask, 1)


def key_length_mask(key: Tensor, key_lengths: Tensor) -> Tensor:
    """Returns the mask that hides the right padding of each row.

        visible[b, s] = s < key_lengths[b]

    Args:
        key: Tensor `(B, S, ...)`; only its length S is used.
        key_lengths: Integers `(B,)`, the number of visible keys of each row.

    Returns:
        The mask, a boolean tensor `(B, 1, 1, S)`.

    Example:

    >>> mask = key_length_mask(ops.ones((2, 3, 4)), ops.array([1, 3]))
    >>> ops.convert_to_numpy(mask)[:, 0, 0].tolist()
    [[True, False, False], [True, True, True]]
    """
    S = static_shape(key)[1]
    if S is not None:
        positions = ops.convert_to_tensor(np.arange(S, dtype="int32")[None])
    else:
        positions = ops.cumsum(ops.ones_like(_first_channel(key[:1, :]), dtype="int32"), axis=1) - 1
    lengths = ops.expand_dims(ops.cast(key_lengths, "int32"), 1)
    return ops.expand_dims(ops.expand_dims(positions < lengths, 1), 1)


def _first_channel(x: Tensor) -> Tensor:
    return x[(slice(None), slice(None), *[0] * (len(x.shape) - 2))]


def _positions_from_end(x: Tensor) -> Tensor:
    ones = ops.ones_like(_first_channel(x), dtype="int32")
    return ops.sum(ones, axis=1, keepdims=True) - ops.cumsum(ones, axis=1)
