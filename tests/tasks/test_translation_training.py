"""A run in a folder, in this process."""

import csv
import os
import resource
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from tracing import eagerly
from translation_toys import train_translation, write_pairs

from keras_attn.files import only_one
from keras_attn.tasks import (
    PreparedTranslation,
    TranslationData,
    TranslationTraining,
    Translator,
)
from keras_attn.tasks.base.compiling import ema_momentum
from keras_attn.tasks.base.task_run import DevelopmentBest

MODEL = {"num_layers": 1, "dim": 32, "num_heads": 2, "intermediate_dim": 64, "dropout": 0.0}


def training(**values):
    small = {"epochs": 2, "tokens_per_batch": 256, "score_pairs": 4, "ema_momentum": 0.9}
    return TranslationTraining(**{**small, **values})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    settings = TranslationData(
        train=write_pairs(folder / "pairs.tsv"), dev_size=10, test_size=10, vocabulary_size=332
    )
    return PreparedTranslation.prepare(settings, folder / "prepared")


@pytest.fixture(scope="module")
def short(data, tmp_path_factory):
    """The folder of a run of one epoch."""
    folder = tmp_path_factory.mktemp("short") / "run"
    with eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "translate", lambda self, texts, *_, **__: texts)
        assert train_translation(data, folder, MODEL, training(epochs=1), verbose=0).complete
    return folder


@pytest.fixture
def one_epoch(short, tmp_path):
    """A copy of it."""
    return shutil.copytree(short, tmp_path / "run")


@pytest.mark.slow
def test_a_run_learns_and_keeps_the_best(data, tmp_path):
    settings = training(
        epochs=24, learning_rate=1e-2, tokens_per_batch=128, score_epochs=12, score_pairs=10
    )
    said = []
    run = train_translation(data, tmp_path / "run", MODEL, settings, said.append, verbose=0)
    assert run.complete
    assert run.interrupted_by is None
    scored = {row["epoch"]: row["val_bleu"] for row in run.log if "val_bleu" in row}
    assert list(scored) == [12, 24]
    assert run.best_score == max(scored.values()) > 60
    assert scored[run.best_epoch] == run.best_score
    assert sorted(os.listdir(tmp_path / "run")) == [
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    ]  # fmt: skip
    with open(tmp_path / "run" / "log.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 24
    best = Translator.load(run.best)
    assert best.evaluate(data.dev, beams=1).bleu == pytest.approx(run.best_score)
    # Once more: nothing is left to do, and the same is told.
    again = train_translation(data, tmp_path / "run", MODEL, settings, said.append, verbose=0)
    assert again == run
    assert said[-1] == "All epochs are done."


@pytest.mark.slow
def test_other_settings_or_data_are_refused(data, one_epoch, eager):
    run = one_epoch
    with pytest.raises(ValueError, match=r"other settings: epochs is 1 there, 2 here"):
        train_translation(data, run, MODEL, training(), verbose=0)
    other = {**MODEL, "dim": 16}
    with pytest.raises(ValueError, match=r"dim is 32 there, 16 here"):
        train_translation(data, run, other, training(epochs=1), verbose=0)
    changed = PreparedTranslation(**{**data.__dict__, "fingerprint": "another"})
    with pytest.raises(ValueError, match=r"another run: data is .* there, 'another' here"):
        train_translation(changed, run, MODEL, training(epochs=1), verbose=0)
    # What does not shape the result may change.
    assert train_translation(
        data, run, MODEL, training(epochs=1, checkpoint_steps=3, device="cpu"), verbose=0
    ).complete


@pytest.mark.slow
def test_a_run_of_a_recurrent_model(data, tmp_path, monkeypatch):
    """It is interrupted, goes on, and ends as one that was not; another attention is refused."""
    rnn = {"model": "rnn", "attention": "luong-general", "dim": 16, "units": 16}
    settings = training(epochs=3, learning_rate=1e-2)
    whole = train_translation(data, tmp_path / "whole", rnn, settings, verbose=0)
    real = keras.Model.fit

    def stop(self, *args, **kwargs):
        class Stop(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                if epoch == 1:
                    raise KeyboardInterrupt

        kwargs["callbacks"] = [*kwargs.get("callbacks", ()), Stop()]
        return real(self, *args, **kwargs)

    monkeypatch.setattr(keras.Model, "fit", stop)
    with pytest.raises(KeyboardInterrupt):
        train_translation(data, tmp_path / "parts", rnn, settings, verbose=0)
    monkeypatch.setattr(keras.Model, "fit", real)
    parts = train_translation(data, tmp_path / "parts", rnn, settings, verbose=0)
    assert [{**row, "seconds": 0} for row in parts.log] == [
        {**row, "seconds": 0} for row in whole.log
    ]
    best, expected = Translator.load(parts.best), Translator.load(whole.best)
    assert best.config.attention == "luong-general"
    for mine, other in zip(best.model.weights, expected.model.weights, strict=True):
        np.testing.assert_array_equal(mine, other)
    other = {"model": "rnn", "attention": "none", "dim": 16, "units": 16}
    with pytest.raises(ValueError, match=r"attention is 'luong-general' there, 'none' here"):
        train_translation(data, tmp_path / "parts", other, settings, verbose=0)
    with pytest.raises(ValueError, match=r"model is 'rnn' there, 'transformer' here"):
        train_translation(data, tmp_path / "parts", MODEL, settings, verbose=0)


@pytest.mark.slow
def test_the_settings_reach_the_training(data, tmp_path, monkeypatch):
    seen = {}

    def stop(model, *args):
        seen["model"] = model
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_attn.tasks.base.run_folder.fit_resumable", stop)
    settings = training(
        precision="mixed_float16",
        tokens_per_batch=64,
        gradient_accumulation=2,
        weight_decay=0.01,
        clip_norm=1.0,
        warmup_steps=3,
        label_smoothing=0.2,
    )
    with pytest.raises(KeyboardInterrupt):
        train_translation(data, tmp_path, MODEL, settings, verbose=0)
    model = seen["model"]
    optimizer = model.optimizer.inner_optimizer
    assert model.get_layer("encoder").compute_dtype == "float16"
    assert isinstance(optimizer, keras.optimizers.AdamW)
    assert optimizer.gradient_accumulation_steps == 2
    assert (optimizer.weight_decay, optimizer.global_clipnorm) == (0.01, 1.0)
    assert (optimizer.use_ema, optimizer.ema_momentum) == (True, 0.9)
    # In batches, of which two make an update.
    assert optimizer._learning_rate.warmup_steps == 6
    assert model.loss.label_smoothing == 0.2


@pytest.mark.slow
def test_the_default_average_suits_short_runs(data, tmp_path):
    """An average that still holds the first weights would translate nothing."""
    settings = training(
        epochs=30, learning_rate=1e-2, score_epochs=30, score_pairs=10, ema_momentum=None
    )
    run = train_translation(data, tmp_path / "run", MODEL, settings, verbose=0)
    assert run.best_score > 60
    assert ema_momentum(5) == 0
    assert ema_momentum(30 * 5) == pytest.approx(1 - 10 / 150)


@pytest.mark.slow
def test_of_equal_bleu_the_lower_loss_is_kept(data, tmp_path, monkeypatch, eager):
    """BLEU is 0 as long as no four words in a row are right, and for sides of fewer words."""
    monkeypatch.setattr(Translator, "translate", lambda self, texts, *_, **__: texts)
    monkeypatch.setattr("sacrebleu.BLEU.corpus_score", lambda *_: SimpleNamespace(score=0.0))
    run = train_translation(data, tmp_path / "run", MODEL, training(epochs=4), verbose=0)
    losses = [row["val_loss"] for row in run.log]
    assert run.best_epoch == 1 + losses.index(min(losses)) > 1


@pytest.mark.slow
def test_a_checkpoint_has_the_best_bleu_and_its_loss(data, tmp_path, monkeypatch):
    """So that of equal BLEU the lower loss is known when a run is taken up."""
    translator = Translator.create(data, model=MODEL)
    translator.compile(total_steps=1)
    scorer = translator.scorer(data.dev, training(score_pairs=1))
    score = DevelopmentBest(translator, scorer, tmp_path / "best.task")
    score.set_model(translator.model)
    score.remember({"best": [7.5, -3.25, 4]})
    assert (score.best, score.best_epoch) == ((7.5, -3.25), 4)
    assert score.memory() == {"best": [7.5, -3.25, 4]}
    monkeypatch.setattr("sacrebleu.BLEU.corpus_score", lambda *_: SimpleNamespace(score=7.5))
    monkeypatch.setattr(translator, "translate", lambda *_, **__: [""])
    saved = []
    monkeypatch.setattr(translator, "save", saved.append)
    for epoch, loss in enumerate([3.5, 3.0], start=4):
        figures = {"loss": loss}
        means = "keras_attn.tasks.families.text_to_text.token_means"
        monkeypatch.setattr(means, lambda *_, f=figures: f)
        score.on_epoch_end(epoch, {})
    assert saved == [tmp_path / "best.task"]
    assert score.memory() == {"best": [7.5, -3.0, 6]}


@pytest.mark.slow
def test_a_full_disk_while_the_best_weights_are_saved(one_epoch):
    """HDF5 would end the process; it is asked before whether there is room."""
    run = one_epoch
    translator = Translator.load(run / "best.task")
    before = (run / "best.task").read_bytes()
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, former[1]))
    try:
        with pytest.raises(OSError):
            translator.save(run / "best.task")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert (run / "best.task").read_bytes() == before
    assert sorted(os.listdir(run)) == [
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    ]  # fmt: skip


@pytest.mark.slow
def test_one_process_at_a_time_and_no_run_among_prepared_data(data, tmp_path):
    (tmp_path / "run").mkdir()
    with (
        only_one(tmp_path / "run" / ".lock", "trains"),
        pytest.raises(BlockingIOError, match=r"Another process trains in .*/run now"),
    ):
        train_translation(data, tmp_path / "run", MODEL, training(), verbose=0)
    (tmp_path / "prepared.json").write_text("{}")
    with pytest.raises(ValueError, match="holds prepared data"):
        train_translation(data, tmp_path, MODEL, training(), verbose=0)
    with pytest.raises(ValueError, match="Expected prepared data"):
        PreparedTranslation.load(tmp_path)


def test_a_place_that_cannot_be_written_to_is_found_first(data, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError):
        train_translation(data, tmp_path / "file", MODEL, training(), verbose=0)
