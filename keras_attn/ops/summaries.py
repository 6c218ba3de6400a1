"""Summaries of sequences as one vector."""

from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.precision import wide_dtype

SUMMARIES = ("mean", "last", "ends")


def summarize(x: Tensor, mask: Tensor | None = None, kind: str = "mean") -> Tensor:
    """Summarizes each sequence as one vector: by one of three formulas.

        mean: sum_s mask[s] x[s] / sum_s mask[s]
        last: x[l], l the last token
        ends: [x[l, :D/2]; x[f, D/2:]], f the first token: the final states of both directions if x
              is the output of a bidirectional recurrent network

    A row without tokens gives zeros.

    Args:
        x: Floats `(B, S, D)`.
        mask: Booleans `(B, S)`, True for tokens; all positions are tokens if None.
        kind: `"mean"`, `"last"` or `"ends"`.

    Returns:
        The summaries `(B, D)` in the dtype of `x`.

    Raises:
        ValueError: If the kind is unknown.

    Example:

    >>> x = ops.array([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    >>> mask = ops.array([[True, True, False]])
    >>> [ops.convert_to_numpy(summarize(x, mask, kind))[0].tolist() for kind in SUMMARIES]
    [[2.0, 3.0], [3.0, 4.0], [3.0, 2.0]]
    """
    if kind not in SUMMARIES:
        raise ValueError(f"`kind` must be one of {list(SUMMARIES)}. Received: {kind!r}.")
    dtype = wide_dtype(x)
    is_token = ops.ones_like(x[:, :, 0], dtype=dtype)
    if mask is not None:
        is_token = is_token * ops.cast(mask, dtype)
    number = ops.cumsum(is_token, axis=1) * is_token  # 1 for the first token, 0 for padding
    count = ops.sum(is_token, axis=1, keepdims=True)
    if kind == "mean":
        share = is_token / ops.maximum(count, 1.0)
        return _weighted(x, share)
    # Not `==`, which for the symbolic tensors of Keras means the same object.
    last = ops.logical_and(ops.equal(number, count), is_token > 0)
    if kind == "last":
        return _picked(x, last)
    half = x.shape[-1] // 2
    first = ops.equal(number, 1.0)
    return ops.concatenate([_picked(x[..., :half], last), _picked(x[..., half:], first)], -1)


def _picked(x: Tensor, one: Tensor) -> Tensor:
    """The vector at the True entry of each row, without products, where 0 times infinity is NaN."""
    return ops.sum(ops.where(ops.expand_dims(one, 2), x, ops.zeros_like(x)), axis=1)


def _weighted(x: Tensor, weights: Tensor) -> Tensor:
    weights = ops.cast(ops.expand_dims(weights, 1), x.dtype)
    return ops.squeeze(ops.matmul(weights, x), axis=1)


def maximum_over(x: Tensor, axis: int | tuple[int, ...]) -> Tensor:
    """The maximum over axes that are not the batch; Keras refuses it for an empty batch."""
    return (ops.sum if x.shape[0] == 0 else ops.max)(x, axis=axis)
