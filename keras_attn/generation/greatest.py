"""Greatest entries of long rows, such as logits over a vocabulary."""

from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.compilers import compiler


def greatest(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the greatest entry of each row and its int32 index; in a tie, the first such entry.

    For x `(..., V)`, both results are `(...)`. With XLA, argmax is not used: XLA does not vectorize
    it, so it would take longer than all other operations in a step of a small model. (On JAX, zero
    is greater than negative zero.)
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

    # `ops.argmax` looks for negative zeros first, which takes five times as long.
    return tf.argmax(x, axis=-1, output_type=tf.int32)


def greatest_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k greatest entries of each row in descending order, equal entries by their index.

    The rows are cut into blocks. The k greatest entries lie in the k blocks with the greatest
    maxima, so after one pass over the row, only these blocks are searched.
    """
    size = x.shape[-1]
    width = _block_width(size, k)
    if width is None:
        return ordered_top_k(x, k)
    shape = ops.shape(x)[:-1]
    rows = ops.reshape(x, (-1, size))
    if size % width:
        rows = ops.pad(rows, [[0, 0], [0, -size % width]], constant_values=-float("inf"))
    count = rows.shape[1] // width
    blocks = ops.reshape(rows, (-1, count, width))
    _, chosen = ordered_top_k(ops.max(blocks, axis=-1), k)
    chosen = ops.sort(chosen, axis=-1)  # in order, for equal entries
    first = ops.expand_dims(ops.cumsum(ops.ones_like(chosen[:, 0])) - 1, 1) * count
    kept = ops.take(ops.reshape(blocks, (-1, width)), first + chosen, axis=0)  # (rows, k, width)
    values, index = ordered_top_k(ops.reshape(kept, (-1, k * width)), k)
    index = ops.take_along_axis(chosen, index // width, axis=1) * width + index % width
    return ops.reshape(values, (*shape, k)), ops.reshape(index, (*shape, k))


def ordered_top_k(x: Tensor, k: int) -> tuple[Any, Any]:
    """Computes `ops.top_k` with int32 indices; equal entries keep their order, also on PyTorch."""
    if keras.backend.backend() == "torch":
        import torch

        values, index = torch.sort(ops.convert_to_tensor(x), dim=-1, descending=True, stable=True)
        values, index = values[..., :k], index[..., :k]
    else:
        values, index = ops.top_k(x, k)
    return values, ops.cast(index, "int32")


def _block_width(size: int, k: int) -> int | None:
    """Width of the blocks for rows of a size; None if blocks are not worthwhile."""
    if size < 512 or k * 32 > size:
        return None
    # top_k reads size / width + k * width entries, which is least near sqrt(size / k).
    best = max(16, round((size / k) ** 0.5))
    divisors = [w for w in range(max(16, best // 3), best * 3) if size % w == 0]
    return min(divisors, key=lambda w: abs(w - best)) if divisors else best
