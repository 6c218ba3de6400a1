"""Translation runs on packed rows, and with the loss in chunks."""

import keras
import numpy as np
import pytest
from translation_toys import train_translation, write_pairs

from keras_attn.metrics import MaskedAccuracy
from keras_attn.tasks import (
    PreparedTranslation,
    TranslationData,
    TranslationTraining,
    Translator,
)
from keras_attn.tasks.base.compiling import checked_steps
from keras_attn.training import ChunkedLossModel, read_training_notes

MODEL = {"num_layers": 1, "dim": 16, "num_heads": 2, "intermediate_dim": 32, "dropout": 0.0}


def training(**values):
    small = {
        "epochs": 2,
        "tokens_per_batch": 256,
        "score_epochs": 2,
        "score_pairs": 2,
        "ema_momentum": 0.9,
    }
    return TranslationTraining(**{**small, **values})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    settings = TranslationData(
        train=write_pairs(folder / "pairs.tsv"), dev_size=10, test_size=10, vocabulary_size=300
    )
    return PreparedTranslation.prepare(settings, folder / "prepared")


class Stop(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 2:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_packed_run_goes_on_within_an_epoch(data, tmp_path, monkeypatch):
    settings = training(batching="packed", tokens_per_row=64, chunked_loss=True, checkpoint_steps=2)
    said = []
    whole = train_translation(data, tmp_path / "whole", MODEL, settings, said.append, verbose=0)
    assert any("% padding" in line for line in said)
    assert not any("left out" in line for line in said)
    real = keras.Model.fit

    def fit(self, *args, **kwargs):
        return real(self, *args, **{**kwargs, "callbacks": [*kwargs["callbacks"], Stop()]})

    monkeypatch.setattr(keras.Model, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        train_translation(data, tmp_path / "parts", MODEL, settings, verbose=0)
    notes = read_training_notes(tmp_path / "parts" / "checkpoint.npz")
    assert (notes["epoch"], notes["batch"]) == (0, 2)
    monkeypatch.setattr(keras.Model, "fit", real)
    parts = train_translation(data, tmp_path / "parts", MODEL, settings, verbose=0)
    assert [{**row, "seconds": 0} for row in parts.log] == [
        {**row, "seconds": 0} for row in whole.log
    ]
    best, expected = Translator.load(parts.best), Translator.load(whole.best)
    for mine, other in zip(best.model.weights, expected.model.weights, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
def test_chunks_change_nothing_but_rounding(data, tmp_path):
    plain, chunked = (
        train_translation(data, tmp_path / f"{on}", MODEL, training(chunked_loss=on), verbose=0)
        for on in (False, True)
    )
    for one, other in zip(plain.log, chunked.log, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
    assert plain.log[-1]["val_loss"] == pytest.approx(chunked.log[-1]["val_loss"], rel=1e-5)
    with pytest.raises(ValueError, match="chunked_loss is False there, True here"):
        train_translation(data, tmp_path / "False", MODEL, training(chunked_loss=True), verbose=0)


@pytest.mark.slow
def test_pairs_longer_than_a_row_are_told_of(data, tmp_path):
    said = []
    longest = max(max(map(len, data.sources)), max(map(len, data.targets)) + 1)
    short = training(batching="packed", tokens_per_row=longest - 1, epochs=1)
    assert train_translation(data, tmp_path, MODEL, short, said.append, verbose=0).complete
    assert any("pairs are longer than a row and left out" in line for line in said)


@pytest.mark.slow
def test_what_cannot_be_packed_is_refused(data, tmp_path):
    rnn = {"model": "rnn", "dim": 8, "units": 8}
    with pytest.raises(ValueError, match="carries its state from one pair to the next"):
        train_translation(data, tmp_path, rnn, training(batching="packed"), verbose=0)
    with pytest.raises(ValueError, match="`tokens_per_row` is only used with batching='packed'"):
        training(tokens_per_row=64)
    with pytest.raises(ValueError, match="at most `tokens_per_batch`"):
        training(batching="packed", tokens_per_row=512)


@pytest.mark.slow
def test_the_settings_reach_the_training(data, tmp_path, monkeypatch):
    seen = {}

    def stop(model, batches, *args):
        seen["model"], seen["batches"] = model, batches
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_attn.tasks.base.run_folder.fit_resumable", stop)
    packed = {"batching": "packed", "tokens_per_row": 64}
    settings = training(chunked_loss=True, steps_per_execution=7, label_smoothing=0.2, **packed)
    with pytest.raises(KeyboardInterrupt):
        train_translation(data, tmp_path, MODEL, settings, verbose=0)
    model = seen["model"]
    assert isinstance(model, ChunkedLossModel)
    assert model.model.name == "packed_transformer"
    assert model.steps_per_execution == 7
    assert model.loss.label_smoothing == 0.2
    assert model.optimizer.use_ema
    assert seen["batches"].shapes[0][1] <= 64


@pytest.mark.slow
def test_what_else_is_compiled_reaches_the_form(data):
    translator = Translator.create(data, model=MODEL)
    settings = {"epochs": 1, "tokens_per_batch": 256, "tokens_per_row": 64, "batching": "packed"}
    more = {"weighted_metrics": [MaskedAccuracy()], "run_eagerly": True, "verbose": 0}
    run = translator.fit(data, **settings, **more)
    assert 0 <= run.history["masked_accuracy"][0] <= 1
    with pytest.raises(ValueError, match="does not support metrics"):
        translator.fit(data, chunked_loss=True, **settings, **more)


def test_pytorch_runs_one_batch_at_a_time(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    assert checked_steps(1) == 1
    with pytest.raises(ValueError, match=r"`steps_per_execution` must be 1 there. Received: 2"):
        checked_steps(2)
