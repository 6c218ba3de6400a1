"""Initializer that fills a table of learned positions with sinusoids."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.positions import sinusoids
from keras_attn.ops.precision import wide_dtype


@keras.saving.register_keras_serializable(package="keras_attn")
class SinusoidalInitializer(keras.initializers.Initializer):
    """Initializes a table of learned positions with sinusoids.

        table[p] = sqrt(2) stddev PE[p]          PE: sinusoids, see `PositionalEncoding`

    The product of two rows depends only on their distance, so that a network learns to attend to
    neighbouring tokens at all positions at once. With random rows, it has to learn this for each
    position separately.
    """

    def __init__(self, stddev: float = 0.02):
        if not stddev > 0:
            raise ValueError(
                f"`stddev` of SinusoidalInitializer must be above 0. Received: {stddev!r}."
            )
        self.stddev = stddev

    def __call__(self, shape: tuple[int, int], dtype: str | None = None) -> Tensor:
        """Computes the table `(positions, D)`."""
        length, dim = shape
        dtype = dtype or keras.config.floatx()
        positions = ops.arange(length, dtype="float32")
        table = sinusoids(positions, dim, dtype=wide_dtype(dtype))
        return ops.cast(math.sqrt(2) * self.stddev * table, dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as a dict, for saving and loading with Keras."""
        return {"stddev": self.stddev}
