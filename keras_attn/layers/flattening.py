"""Products of vectors of any rank, as the backend has them fastest."""

from typing import Any

import keras
from keras import ops

from keras_attn.ops.compilers import on_cpu

Tensor = Any


def flat(layer: Any, x: Tensor, **kwargs: Any) -> Tensor:
    """Calls a layer that works on the last axis.

    On TensorFlow and on JAX's CPU it gets a matrix, one row a vector. TensorFlow makes a dozen
    operations of a product of a higher rank where not all lengths are known, which costs as much
    as the product itself where few tokens are decoded. XLA on a CPU takes more time for the
    gradients of products of higher ranks, which are sums over several axes.

    Args:
        layer: From `(..., D)` to `(..., E)`.
        x: `(..., D)`, of known width.
        **kwargs: Of its call.

    Returns:
        `(..., E)`.

    Example:

    >>> tuple(flat(keras.layers.Dense(3), ops.ones((2, 5, 4))).shape)
    (2, 5, 3)
    """
    if len(x.shape) < 3 or not _matrices_are_faster():
        return layer(x, **kwargs)
    y = layer(ops.reshape(x, (-1, x.shape[-1])), **kwargs)
    return ops.reshape(y, (*_lengths(x), y.shape[-1]))


def _lengths(x: Tensor) -> tuple:
    """All axes but the last; one that is not known needs no look at the tensor."""
    known = tuple(-1 if length is None else length for length in x.shape[:-1])
    return known if known.count(-1) <= 1 else tuple(ops.shape(x)[:-1])


def _matrices_are_faster() -> bool:
    return keras.backend.backend() == "tensorflow" or on_cpu()
