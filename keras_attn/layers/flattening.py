"""Products of vectors of any rank, as the backend has them fastest."""

from typing import Any

import keras
from keras import ops

Tensor = Any


def flat(layer: Any, x: Tensor, **kwargs: Any) -> Tensor:
    """Calls a layer that works on the last axis.

    On JAX's CPU it gets a matrix, one row a vector: XLA takes more time there for the
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
    if len(x.shape) < 3 or not _on_cpu_of_jax():
        return layer(x, **kwargs)
    y = layer(ops.reshape(x, (-1, x.shape[-1])), **kwargs)
    return ops.reshape(y, (*ops.shape(x)[:-1], y.shape[-1]))


def _on_cpu_of_jax() -> bool:
    if keras.backend.backend() != "jax":
        return False
    import jax

    return jax.default_backend() == "cpu"
