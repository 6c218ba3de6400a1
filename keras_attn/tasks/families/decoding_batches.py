"""Batches for decoding, and the choice of XLA compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np

from keras_attn.progress import report

PAYS_AFTER, PAYS_UP_TO = 300, 8
"""On CPUs, compilation pays off from this number of batches of the same shape, and up to this
number of rows; see docs/speed.md."""


class DecodingBatch(NamedTuple):
    """Rows that are decoded together."""

    rows: list[int]
    """Indices of the rows in the list."""
    ids: np.ndarray
    """int32 `(B, S)`: the ids of `rows`, followed by rows that only fill the batch."""
    compiled: bool
    """Whether XLA compiles the function for this shape."""


class DecodingBatches:
    """Batches lists of similar lengths, and counts the shapes of batches across calls.

    A list is sorted by length first, so that batches have little padding and a long row delays only
    its own batch. If XLA compiles the function, `fixed_shape` rounds shapes up to a few. JAX
    compiles every shape. TensorFlow uses XLA for all batches on a GPU. On a CPU, it uses XLA for
    batches of at most `PAYS_UP_TO` rows whose shape has been requested `PAYS_AFTER` times, in this
    call and earlier ones, because compilation then pays off. Rows that only fill a batch have one
    id, `fill_id`.
    """

    def __init__(self, pad_id: int, fill_id: int, recurrent: bool = False):
        self.pad_id = pad_id
        self.fill_id = fill_id
        self.recurrent = recurrent
        self._asked: Counter[tuple[int, int]] = Counter()

    def __call__(
        self, ids: Sequence[Sequence[int]], batch_size: int, jit_compile: bool | None = None
    ) -> Iterator[DecodingBatch]:
        """Yields the batches, from short to long."""
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        parts = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        exact = [(len(rows), len(ids[rows[-1]])) for rows in parts]
        fixed = [fixed_shape(rows, length, batch_size) for rows, length in exact]
        self._asked.update(fixed)
        done = 0
        for rows, own, rounded in zip(parts, exact, fixed, strict=True):
            compiled = self._compiles(rounded, jit_compile)
            padded = np.full(rounded if compiled else own, self.pad_id, "int32")
            padded[len(rows) :, 0] = self.fill_id
            for r, i in enumerate(rows):
                padded[r, : len(ids[i])] = ids[i]
            yield DecodingBatch(rows, padded, compiled)
            done += len(rows)
            report(done, len(ids), "texts")

    def _compiles(self, shape: tuple[int, int], jit_compile: bool | None) -> bool:
        backend = keras.backend.backend()
        if backend != "tensorflow":
            return backend == "jax"
        if jit_compile is not None or self.recurrent:
            return bool(jit_compile)
        import tensorflow as tf

        pays = shape[0] <= PAYS_UP_TO and self._asked[shape] >= PAYS_AFTER
        return pays or bool(tf.config.list_physical_devices("GPU"))


def fixed_shape(rows: int, length: int, most_rows: int) -> tuple[int, int]:
    """Rounds the shape of a batch up, so that there are only a few shapes.

    The number of rows becomes a power of two, or `most_rows`. The length becomes a multiple of 16
    up to 64, and above 64 a power of two or 1.5 times a power of two.
    """
    rows = min(most_rows, 2 ** (rows - 1).bit_length())
    step = max(16, 2 ** ((length - 1).bit_length() - 2))
    return rows, -(-length // step) * step
