"""A translation run: trained from prepared ids, scored, kept, and taken up where it was left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_attn.files import check_writable
from keras_attn.tasks.settings import differences, read_settings, shaping, write_settings
from keras_attn.tasks.translation_data import PreparedTranslation
from keras_attn.tasks.translation_settings import (
    SECTIONS,
    ModelSettings,
    TrainingSettings,
)
from keras_attn.tasks.translator import Translator
from keras_attn.training import (
    TrainingCheckpoint,
    TrainingLog,
    averaged_weights,
    fit_resumable,
    seed_everything,
)

_SETTINGS, _CHECKPOINT, _LOG, _BEST = "settings.toml", "checkpoint.npz", "log.csv", "best.task"


class TranslationRun(NamedTuple):
    """What came of `train_translation`."""

    complete: bool
    """Whether the run is at its end; False: a signal ended it, and the same call goes on."""
    interrupted_by: int | None
    """Number of that signal."""
    best_bleu: float
    """BLEU of the development set, by the weights that are kept; -1 if it was never scored."""
    best_epoch: int
    """The epoch (from 1) after which they were kept."""
    log: list[dict[str, Any]]
    """A dict of figures for each epoch."""
    best: Path
    """The file of the best weights, for `Translator.load`."""


class DevelopmentScore(keras.callbacks.Callback):
    """Translates a development set after an epoch, and keeps the weights that do it best.

    Adds `val_loss` and `val_bleu` to the logs of the epoch: the loss over the whole set, and BLEU
    (sacrebleu, cased) of its first pairs. Where the optimizer keeps a moving average of the
    weights, that is what is scored and kept.

    Args:
        translator: Whose model is trained.
        data: Prepared data with development pairs.
        path: Where the best weights are saved, for `Translator.load`.
        settings: `score_epochs`, `score_pairs`, `score_beams`, `epochs` and `tokens_per_batch`.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"the house of {name}\\tdas Haus von {name}" for name in "Ann Ben Cem Dan".split()]
    >>> _ = (folder / "pairs.tsv").write_text("\\n".join(lines))
    >>> sizes = {"dev_size": 1, "test_size": 1, "vocabulary_size": 280}
    >>> settings = DataSettings(train=str(folder / "pairs.tsv"), **sizes)
    >>> data = PreparedTranslation.prepare(settings, folder / "prepared")
    >>> translator = Translator(data.source_tokenizer, {"dim": 8, "intermediate_dim": 8})
    >>> translator.compile(total_steps=2)
    >>> score = DevelopmentScore(translator, data, folder / "best.task", TrainingSettings())
    >>> history = translator.model.fit(data.batches(), verbose=0, callbacks=[score])
    >>> sorted(history.history)
    ['loss', 'val_bleu', 'val_loss']
    """

    def __init__(
        self,
        translator: Translator,
        data: PreparedTranslation,
        path: str | os.PathLike,
        settings: TrainingSettings,
    ):
        super().__init__()
        self.translator = translator
        self.path = Path(path)
        self.settings = settings
        self.best = -1.0
        self.best_epoch = 0
        pairs = data.dev[: settings.score_pairs]
        self._sources = [pair.source for pair in pairs]
        self._references = [[pair.target for pair in pairs]]
        self._batches = data.dev_batches(tokens_per_batch=settings.tokens_per_batch)

    def memory(self) -> dict[str, Any]:
        """Returns what belongs into a checkpoint."""
        return {"best": self.best, "best_epoch": self.best_epoch}

    def remember(self, memory: dict[str, Any]) -> None:
        """Takes back what `memory` returned."""
        self.best, self.best_epoch = memory["best"], memory["best_epoch"]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        last = epoch + 1 == self.settings.epochs
        if (epoch + 1) % self.settings.score_epochs and not last:
            return
        import sacrebleu

        model, beams = self.model, self.settings.score_beams
        with averaged_weights(model):
            loss = model.evaluate(self._batches, verbose=0, return_dict=True)["loss"]
            translations = self.translator.translate(self._sources, beams=beams)
            bleu = sacrebleu.BLEU().corpus_score(translations, self._references).score
            if bleu > self.best:
                self.best, self.best_epoch = bleu, epoch + 1
                self.translator.save(self.path)
        if logs is not None:
            logs.update(val_loss=loss, val_bleu=bleu)


def train_translation(
    data: PreparedTranslation,
    run_dir: str | os.PathLike,
    model: ModelSettings | None = None,
    training: TrainingSettings | None = None,
    say: Callable[[str], Any] = lambda text: None,
    verbose: Any = None,
) -> TranslationRun:
    """Trains a translator in a folder; called again, goes on where the folder has it.

    The folder holds `settings.toml` (all settings), `log.csv` (a row for each epoch), `best.task`
    (the weights with the best BLEU on the development set, for `Translator.load`) and
    `checkpoint.npz` (the state of the run). No TensorFlow is needed on JAX and PyTorch.

    Args:
        data: Prepared data.
        run_dir: The run's folder.
        model: Settings of the model; its defaults if None.
        training: Settings of the training; its defaults if None.
        say: Called with a line about each step.
        verbose: Of Keras' progress bar; None: a bar in a terminal, else a line for each epoch.

    Returns:
        `TranslationRun`.

    Raises:
        ValueError: If the folder holds a run of other settings or data.
        PermissionError: If the folder cannot be written to; found before the training.
        OSError: If the disk is full; the last checkpoint is still good.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"the house of {name}\\tdas Haus von {name}" for name in "Ann Ben Cem Dan".split()]
    >>> _ = (folder / "pairs.tsv").write_text("\\n".join(lines))
    >>> sizes = {"dev_size": 1, "test_size": 1, "vocabulary_size": 280}
    >>> settings = DataSettings(train=str(folder / "pairs.tsv"), **sizes)
    >>> data = PreparedTranslation.prepare(settings, folder / "prepared")
    >>> small = ModelSettings(num_layers=1, dim=8, intermediate_dim=8)
    >>> run = train_translation(data, folder / "run", small, TrainingSettings(epochs=1), verbose=0)
    >>> run.complete, Translator.load(run.best).max_source_length
    (True, 256)
    """
    model, training = model or ModelSettings(), training or TrainingSettings()
    run_dir = check_writable(run_dir).absolute()
    _check_same_run(run_dir, model, training)
    seed_everything(training.seed)
    two = data.target_tokenizer is not data.source_tokenizer
    translator = Translator(
        data.source_tokenizer,
        model.config(),
        data.target_tokenizer if two else None,
        max_source_length=data.settings.max_length,
        dtype=training.precision,
    )
    batches = data.batches(tokens_per_batch=training.tokens_per_batch, seed=training.seed)
    updates = training.epochs * len(batches) // training.gradient_accumulation
    translator.compile(
        total_steps=max(updates, 1),
        learning_rate=training.learning_rate,
        warmup_steps=None if training.warmup_steps < 0 else training.warmup_steps,
        label_smoothing=training.label_smoothing,
        weight_decay=training.weight_decay,
        clip_norm=training.clip_norm,
        ema_momentum=training.ema,
        gradient_accumulation=training.gradient_accumulation,
    )
    say(
        f"{translator.model.count_params():,} weights, {len(batches):,} batches an epoch, "
        f"{batches.padded_share:.0%} padding, {keras.backend.backend()}"
    )
    sections = {"data": data.settings, "model": model, "training": training}
    write_settings(run_dir / _SETTINGS, sections)
    score = DevelopmentScore(translator, data, run_dir / _BEST, training)
    log = TrainingLog(run_dir / _LOG, run_dir / "tensorboard" if training.tensorboard else None)
    checkpoint = TrainingCheckpoint(
        run_dir / _CHECKPOINT,
        training.checkpoint_steps,
        {"data": data.fingerprint, **shaping(model), **shaping(training)},
        callbacks=[score, log],
    )
    epoch, batch = checkpoint.position
    if epoch or batch:
        checkpoint.recall()
        done = epoch >= training.epochs
        say(
            "All epochs are done." if done else f"Going on in epoch {epoch + 1}, batch {batch + 1}."
        )
    if verbose is None:
        verbose = 1 if sys.stdout.isatty() else 2
    complete = fit_resumable(
        translator.model, batches, checkpoint, training.epochs, [score, log], verbose
    )
    return TranslationRun(
        complete, checkpoint.interrupted, score.best, score.best_epoch, log.rows, run_dir / _BEST
    )


def _check_same_run(run_dir: Path, model: ModelSettings, training: TrainingSettings) -> None:
    """Raises a ValueError where the folder holds a run of other settings."""
    path = run_dir / _SETTINGS
    if not path.exists():
        return
    former = read_settings(path, SECTIONS)
    changed = [
        *differences(ModelSettings(**former["model"]), model),
        *differences(TrainingSettings(**former["training"]), training),
    ]
    if changed:
        raise ValueError(
            f"{run_dir} holds a run of other settings: {'; '.join(changed)}. Give another folder, "
            "or the former settings to go on with that run."
        )
