"""Reshaping around matrix products, for speed."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.compilers import on_cpu


def flat(layer: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
    """Calls a layer that works on the last axis, with a matrix instead of a tensor if it is faster.

    On TensorFlow, and on JAX on a CPU, the layer gets a matrix with one row for each vector. For a
    product of higher rank with unknown lengths, TensorFlow needs a dozen operations, which take as
    much time as the product itself when few tokens are decoded. On a CPU, XLA computes gradients of
    products of higher rank more slowly, because they are sums over several axes.
    """
    if len(x.shape) < 3 or not _matrices_are_faster():
        return layer(x, **kwargs)
    y = layer(ops.reshape(x, (-1, x.shape[-1])), **kwargs)
    return ops.reshape(y, (*lengths(x), y.shape[-1]))


def lengths(x: Tensor, axes: int | None = None) -> tuple:
    """Returns the sizes of the first axes for a reshape, with -1 for an unknown one.

    If -1 would be ambiguous, the sizes are scalar tensors.
    """
    shape = x.shape[: len(x.shape) - 1 if axes is None else axes]
    known = tuple(-1 if length is None else length for length in shape)
    if known.count(-1) == 0 or (known.count(-1) == 1 and 0 not in known):
        return known
    return tuple(ops.shape(x)[: len(known)])


def _matrices_are_faster() -> bool:
    return keras.backend.backend() == "tensorflow" or on_cpu()
