"""No thread tunes what a single generator makes, and nothing else is changed."""

import keras
import numpy as np
import pytest

from keras_attn.batches import EncoderBatches, TextWindows, TokenBatches
from keras_attn.tasks import TextClassifier
from keras_attn.training import (
    MaskedCrossEntropy,
    TrainingCheckpoint,
    fit_resumable,
    without_autotuning,
)
from keras_attn.training.parts_of_epochs import rest_of_epoch


def make():
    keras.utils.set_random_seed(0)
    ids = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source_ids", "target_ids")
    }
    source, target = (keras.layers.Embedding(9, 8)(x) for x in ids.values())
    source = keras.layers.Reshape((1, 8))(keras.layers.GlobalAveragePooling1D()(source))
    model = keras.Model(ids, keras.layers.Dense(9)(keras.layers.Add()([target, source])))
    model.compile(keras.optimizers.SGD(0.1), MaskedCrossEntropy(), jit_compile=False)
    sources = [[5, 6, 7], [3, 4], [8], [5, 4, 3, 6]]
    targets = [[8, 3], [4], [7, 7, 5], [6]]
    return model, TokenBatches(sources, targets, start_id=1, end_id=2, tokens_per_batch=8)


@pytest.fixture
def tuned(monkeypatch):
    """Whether datasets that Keras has read were tuned, in their order."""
    from keras.src.backend.tensorflow.trainer import TFEpochIterator

    found, begin = [], TFEpochIterator.__init__

    def note(self, *args, **settings):
        begin(self, *args, **settings)
        found.append(self._distributed_dataset.options().autotune.enabled)

    monkeypatch.setattr(TFEpochIterator, "__init__", note)
    return found


@pytest.mark.slow
def test_the_same_training(tuned):
    weights = []
    for wrap in (lambda x: x, without_autotuning):
        model, batches = make()
        assert len(batches) > 2
        model.fit(wrap(batches), epochs=2, shuffle=False, verbose=0)
        assert batches.epoch == 2  # Keras told it of the ends of its epochs
        weights.append(model.get_weights())
    for plain, untuned in zip(*weights, strict=True):
        np.testing.assert_array_equal(plain, untuned)
    assert tuned == [None, False]  # None is TensorFlow's default: tuned


@pytest.mark.slow
def test_what_our_trainings_read(tuned, tmp_path):
    model, batches = make()
    fit_resumable(model, batches, TrainingCheckpoint(tmp_path / "run.npz"), epochs=1, verbose=0)
    assert tuned == [False]
    assert rest_of_epoch(batches, 1).options().autotune.enabled is False
    sizes = {"model": "bag", "dim": 4, "pair_buckets": 0}
    texts = [("good", "yes"), ("bad", "no"), ("fine", "yes"), ("sad", "no")]
    classifier = TextClassifier.create(texts, data={"vocabulary_size": 30}, model=sizes)
    classifier.fit(texts, epochs=1, verbose=0)
    assert tuned == [False, False]


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rest_of_an_epoch_has_the_lengths_of_the_whole(shuffle):
    """Losses and layers read them: labels (B, 3) of spans stay (B, 3)."""
    rows = [([2, 7, 3][:n], n) for n in (3, 1, 3, 1, 3)] + [([5] * 6, 6)] * 2
    spans = np.ones((7, 3), "int32")
    every = [
        make()[1],
        TextWindows(range(9), 0, sequence_length=2, batch_size=2, shuffle=shuffle),
        EncoderBatches(rows, {"span": spans}, batch_size=2, multiple=2, shuffle=shuffle),
    ]
    for batches in every:
        whole = without_autotuning(batches).get_tf_dataset().element_spec
        for first in range(1, len(batches)):
            assert rest_of_epoch(batches, first).element_spec == whole
    assert rest_of_epoch(batches, 1).element_spec[1]["span"].shape.as_list() == [None, 3]
    assert rest_of_epoch(batches, 1).element_spec[0]["token_ids"].shape.as_list() == [None, None]


def test_other_datasets_and_backends_are_left_alone(monkeypatch):
    _, batches = make()
    arrays = np.zeros((2, 3))
    assert without_autotuning(arrays) is arrays
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert without_autotuning(batches) is batches
