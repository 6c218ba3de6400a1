"""Batches for `fit` on TensorFlow without tf.data's autotuning thread."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    import tensorflow as tf


def without_autotuning(batches: object) -> Any:
    """Returns a dataset for `fit`, `evaluate` and `predict` without delays at the end of epochs.

    On TensorFlow, Keras reads a `keras.utils.PyDataset` through `tf.data`, which runs a thread that
    tunes how much is read ahead. The thread wakes up after 10 ms, and then at intervals that double
    up to 60 s. When an epoch ends, the thread is told to stop, but often notices this only when it
    wakes up, so that an epoch of 42 s may take 82 s. A single generator has nothing to tune, so
    this function turns the thread off. The batches and their order are the same.

    Args:
        batches: A `keras.utils.PyDataset`, such as `TokenBatches`.

    Returns:
        On TensorFlow, an object to pass to `fit`, `evaluate` and `predict` of a Keras model any
        number of times; their arguments `shuffle` and `class_weight` then have no effect. On other
        backends, or if `batches` is not a `PyDataset`, `batches` itself.

    Example:

    >>> from keras_attn.batches import TokenBatches
    >>> from keras_attn.models import TransformerEncoderDecoderConfig
    >>> model = TransformerEncoderDecoderConfig(9, num_layers=1, dim=8).build()
    >>> model.compile("adam", MaskedCrossEntropy(), jit_compile=False)
    >>> batches = TokenBatches([[5, 6, 7]], [[8, 3]], start_id=1, end_id=2)
    >>> history = model.fit(without_autotuning(batches), epochs=2, verbose=0)
    >>> len(history.history["loss"])
    2
    """
    if keras.backend.backend() != "tensorflow" or not isinstance(batches, keras.utils.PyDataset):
        return batches
    return _adapter()(batches)


@functools.cache
def _adapter() -> type:
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    class WithoutAutotuning(PyDatasetAdapter):
        """Keras' data adapter, with a dataset that has no such thread."""

        def get_tf_dataset(self) -> Any:
            return untuned(super().get_tf_dataset())

    return WithoutAutotuning


def untuned(dataset: tf.data.Dataset) -> Any:
    """Returns a `tf.data.Dataset` without the autotuning thread."""
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
