"""The greatest entries of long rows: the tokens of a vocabulary that come next."""

from typing import Any

import keras
from keras import ops

from keras_attn.ops.compilers import compiler

Tensor = Any


def greatest(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the greatest entry of each row and its index, the first of equal ones.

    An argmax only where XLA does not compile it, as it does not vectorise it: that takes longer
    than all the rest of a step of a small model. (On JAX zero is greater than negative zero.)

    Args:
        x: Floats `(..., V)`.

    Returns:
        `(...)` of the dtype of `x`, and int32 `(...)`.

    Example:

    >>> value, index = greatest(ops.array([[1.0, 3.0, 3.0]]))
    >>> float(value[0]), int(index[0])
    (3.0, 1)
    """
    if keras.backend.backend() == "torch" or compiler() == "none":
        return ops.max(x, axis=-1), _argmax(x)
    size = x.shape[-1]
    if _block_width(size, 1) is not None:  # one pass over the row
        return tuple(ops.squeeze(found, -1) for found in greatest_k(x, 1))
    value = ops.max(x, axis=-1, keepdims=True)
    index = ops.where(ops.equal(x, value), ops.arange(size, dtype="int32"), size - 1)
    return ops.squeeze(value, -1), ops.min(index, axis=-1)


def _argmax(x: Tensor) -> Tensor:
    if keras.backend.backend() != "tensorflow":
        return ops.cast(ops.argmax(x, axis=-1), "int32")
    import tensorflow as tf

    # Keras' own looks for negative zeros first, which takes five times as long.
    return tf.argmax(x, axis=-1, output_type=tf.int32)


def greatest_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k greatest entries of each row, in order; of equal ones the first come first.

    The rows are cut into blocks. The k greatest entries lie in the k blocks of the greatest maxima,
    so that but for one pass over the row, which finds the maxima, little is looked at.

    Args:
        x: Floats `(..., V)`.
        k: 1 to V.

    Returns:
        `(..., k)` of the dtype of `x`, and int32 `(..., k)`.

    Example:

    >>> values, index = greatest_k(ops.array([[1.0, 3.0, 2.0, 3.0]]), 3)
    >>> values[0].tolist() if hasattr(values, "tolist") else [float(v) for v in values[0]]
    [3.0, 3.0, 2.0]
    >>> [int(i) for i in index[0]]
    [1, 3, 2]
    """
    size = x.shape[-1]
    width = _block_width(size, k)
    if width is None:
        values, index = ops.top_k(x, k)
        return values, ops.cast(index, "int32")
    shape = ops.shape(x)[:-1]
    rows = ops.reshape(x, (-1, size))
    if size % width:
        rows = ops.pad(rows, [[0, 0], [0, -size % width]], constant_values=-float("inf"))
    count = rows.shape[1] // width
    blocks = ops.reshape(rows, (-1, count, width))
    _, chosen = ops.top_k(ops.max(blocks, axis=-1), k)
    chosen = ops.sort(ops.cast(chosen, "int32"), axis=-1)  # (rows, k): equal entries in their order
    first = ops.expand_dims(ops.cumsum(ops.ones_like(chosen[:, 0])) - 1, 1) * count
    kept = ops.take(ops.reshape(blocks, (-1, width)), first + chosen, axis=0)  # (rows, k, width)
    values, index = ops.top_k(ops.reshape(kept, (-1, k * width)), k)
    index = ops.cast(index, "int32")
    index = ops.take_along_axis(chosen, index // width, axis=1) * width + index % width
    return ops.reshape(values, (*shape, k)), ops.reshape(index, (*shape, k))


def _block_width(size: int, k: int) -> int | None:
    """Width of the blocks of rows of a size; None where blocks would not pay."""
    if size < 512 or k * 32 > size:
        return None
    # (size / width + k * width) entries are looked at: least near sqrt(size / k).
    best = max(16, round((size / k) ** 0.5))
    divisors = [w for w in range(max(16, best // 3), best * 3) if size % w == 0]
    return min(divisors, key=lambda w: abs(w - best)) if divisors else best
