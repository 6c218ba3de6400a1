"""The rest of an epoch in which a run was stopped."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attn.batches import TextWindows, TokenBatches
from keras_attn.training.autotuning import untuned


class PartOfRun(keras.callbacks.Callback):
    """Tells all callbacks, including Keras' progress bar, which part of the run this `fit` is.

    Before training begins, Keras passes the same dict of parameters to all callbacks.
    """

    def __init__(self, epochs: int, first_batch: int):
        super().__init__()
        self.epochs = epochs
        self.first_batch = first_batch

    def set_params(self, params: dict[str, Any]) -> None:
        """Changes the parameters for all callbacks; called by Keras."""
        params.update(epochs=self.epochs, first_batch=self.first_batch)
        super().set_params(params)


class _RestOfEpoch(keras.utils.PyDataset):
    """The batches of an epoch from batch `first` on."""

    def __init__(self, batches: TokenBatches | TextWindows, first: int):
        super().__init__(workers=1)
        self.batches = batches
        self.first = first

    def __len__(self) -> int:
        return len(self.batches) - self.first

    def __getitem__(self, index: int) -> Any:
        return self.batches[self.first + index]


def rest_of_epoch(batches: TokenBatches | TextWindows, first: int) -> Any:
    """Returns data for `fit`: the batches of the epoch from batch `first` on."""
    rest = _RestOfEpoch(batches, first)
    if keras.backend.backend() != "tensorflow":
        return rest
    # Keras infers the shapes from the first two batches of an epoch, not from those of its rest.
    import tensorflow as tf

    def spec(one: np.ndarray, other: np.ndarray) -> Any:
        lengths = zip(one.shape[1:], other.shape[1:], strict=True)
        return tf.TensorSpec([None, *(a if a == b else None for a, b in lengths)], one.dtype)

    signature = keras.tree.map_structure(spec, batches[0], batches[1])
    dataset = tf.data.Dataset.from_generator(
        lambda: (rest[i] for i in range(len(rest))), output_signature=signature
    )
    return untuned(dataset.apply(tf.data.experimental.assert_cardinality(len(rest))).prefetch(2))
