"""Smaller steps for embedding rows that occur often in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor


def scale_row_steps(optimizer: keras.optimizers.Optimizer, factors: dict[int, Any]) -> None:
    """Makes an optimizer multiply the gradient of each row of some variables by a factor.

        g[i] <- factor[i] * g[i]

    g[i] is the gradient of row i. On TensorFlow, the gradient of an embedding contains only the
    rows of the batch, and this function keeps it sparse: with plain `keras.optimizers.SGD`, a step
    costs as much for a large table as for a small one.

    Args:
        optimizer: An optimizer that has not been used yet. It is changed in place.
        factors: The factors `(V,)` of each variable `(V, ...)`, keyed by the `id` of the
            `keras.Variable`.

    Raises:
        ValueError: If a factor is not above 0.

    Example:

    >>> table = keras.Variable([[1.0], [1.0]])
    >>> optimizer = keras.optimizers.SGD(0.5)
    >>> scale_row_steps(optimizer, {id(table): [1.0, 0.1]})
    >>> optimizer.apply([ops.ones((2, 1))], [table])
    >>> [round(float(table[i, 0]), 3) for i in (0, 1)]
    [0.5, 0.95]
    """
    tables = {key: np.asarray(value, "float32") for key, value in factors.items()}
    if not all((table > 0).all() for table in tables.values()):
        least = min(float(table.min()) for table in tables.values())
        raise ValueError(f"Expected factors above 0. Received: {least}.")
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # inside a scaled loss
    update = optimizer._backend_update_step

    def scaled(gradient: Any, variable: keras.Variable) -> Any:
        table = tables.get(id(variable))
        if table is None:
            return gradient
        axes = (-1, *[1] * (len(variable.shape) - 1))
        if hasattr(gradient, "dense_shape"):  # TensorFlow's IndexedSlices
            rows = ops.reshape(ops.take(table, gradient.indices), axes)
            parts = (gradient.values * rows, gradient.indices, gradient.dense_shape)
            return type(gradient)(*parts)
        return gradient * ops.reshape(ops.convert_to_tensor(table), axes)

    def scaled_update(grads: Sequence[Any], variables: Sequence[Any], rate: Tensor | float) -> None:
        pairs = zip(grads, variables, strict=True)
        update([scaled(gradient, variable) for gradient, variable in pairs], variables, rate)

    optimizer._backend_update_step = scaled_update
