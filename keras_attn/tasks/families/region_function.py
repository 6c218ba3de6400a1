"""From pictures to regions, compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.generation import CompiledFunction, Keeper
from keras_attn.models import ImageEncoder
from keras_attn.progress import report

Tensor = Any


class RegionFunction(Keeper):
    """Makes regions of pictures, some at a time, on every backend.

    It has no weights of its own: train, load or change the encoder, and it follows.

    Args:
        encoder: An `ImageEncoder`.

    Call arguments:
        images: Pictures of the size of the encoder, uint8 `(n, H, W, 3)`.
        batch_size: Pictures computed at a time.

    Returns:
        float32 `(n, R, D)`.

    Example:

    >>> function = RegionFunction(small_cnn_encoder(16, filters=(4, 8)))
    >>> function([np.zeros((16, 16, 3), "uint8")], batch_size=2).shape
    (1, 16, 8)
    """

    def __init__(self, encoder: ImageEncoder):
        self.encoder = encoder

    def __call__(self, images: Any, batch_size: int) -> np.ndarray:
        """Computes the regions."""
        run = self.kept(
            lambda: CompiledFunction(
                lambda images, length: self.encode(images), self.encoder, dtype="uint8", rank=4
            ),
            "encode",
        )
        found = []
        for rows in row_batches(images, batch_size):
            found.append(run(padded_rows(rows, batch_size), 1)[: len(rows)])
        if not found:
            return np.zeros((0, self.encoder.num_regions, self.encoder.region_dim), "float32")
        return np.concatenate(found)

    def encode(self, images: Tensor) -> Tensor:
        """Returns the regions of a tensor of pictures, for any backend and for the export.

        Args:
            images: `(B, H, W, 3)`.
        """
        images = ops.reshape(images, (-1, *self.encoder.image_size, 3))
        return ops.cast(self.encoder(images, training=False), "float32")


def row_batches(rows: Any, batch_size: int) -> Iterator[np.ndarray]:
    """Yields arrays of at most so many rows of an array or a list of arrays."""
    for start in range(0, len(rows), batch_size):
        yield np.asarray(rows[start : start + batch_size])
        report(min(start + batch_size, len(rows)), len(rows), "pictures")


def padded_rows(rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Fills rows up to so many on JAX, which compiles for each shape."""
    if keras.backend.backend() != "jax" or len(rows) == batch_size:
        return rows
    return np.concatenate([rows, np.zeros((batch_size - len(rows), *rows.shape[1:]), rows.dtype)])
