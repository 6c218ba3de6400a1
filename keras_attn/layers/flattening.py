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
    return ops.reshape(y, (*lengths(x), y.shape[-1]))


def lengths(x: Tensor, axes: int | None = None) -> tuple:
    """Returns the sizes of the first axes, to reshape by: -1 for one that is not known.

    Args:
        x: A tensor.
        axes: How many axes; all but the last if None.

    Returns:
        Integers, and for more than one that is not known, or an empty axis, scalar tensors.

    Example:

    >>> lengths(ops.ones((2, 5, 4)))
    (2, 5)
    """
    shape = x.shape[: len(x.shape) - 1 if axes is None else axes]
    known = tuple(-1 if length is None else length for length in shape)
    if known.count(-1) == 0 or (known.count(-1) == 1 and 0 not in known):
        return known
    return tuple(ops.shape(x)[: len(known)])


def _matrices_are_faster() -> bool:
    return keras.backend.backend() == "tensorflow" or on_cpu()
