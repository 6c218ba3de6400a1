"""A translation run: trained from prepared ids, scored, kept, and taken up where it was left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_attn.files import check_writable, only_one
from keras_attn.tasks.best_weights import BestWeights
from keras_attn.tasks.compiling import checked_steps, trained_form
from keras_attn.tasks.run_folder import BEST, tidy_run, train_in_folder
from keras_attn.tasks.translation_data import PreparedTranslation
from keras_attn.tasks.translation_settings import (
    SECTIONS,
    TranslationModelSettings,
    TranslationTrainingSettings,
)
from keras_attn.tasks.translator import Translator
from keras_attn.training import averaged_weights, compute_on, seed_everything


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


class DevelopmentScore(BestWeights):
    """Translates a development set after an epoch, and keeps the weights that do it best.

    Adds `val_loss` and `val_bleu` to the logs of the epoch: the loss over the whole set as it is
    compiled (with label smoothing), and BLEU (sacrebleu, cased) of its first pairs. Of equal BLEU
    the lower loss is better: BLEU is 0 where no four words in a row are right. Where the optimizer
    keeps a moving average of the weights, that is what is scored and kept.

    Args:
        translator: Whose model is trained.
        data: Prepared data with development pairs.
        path: Where the best weights are saved, for `Translator.load`.
        settings: Of these, `score_epochs`, `score_pairs`, `score_beams`, `score_tokenize`,
            `epochs` and those of the batches.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"the house of {name}\\tdas Haus von {name}" for name in "Ann Ben Cem Dan".split()]
    >>> _ = (folder / "pairs.tsv").write_text("\\n".join(lines))
    >>> sizes = {"dev_size": 1, "test_size": 1, "vocabulary_size": 280}
    >>> settings = TranslationDataSettings(train=str(folder / "pairs.tsv"), **sizes)
    >>> data = PreparedTranslation.prepare(settings, folder / "prepared")
    >>> translator = Translator(data.source_tokenizer, {"dim": 8, "num_layers": 1})
    >>> translator.compile(total_steps=2)
    >>> training = TranslationTrainingSettings(epochs=1)
    >>> score = DevelopmentScore(translator, data, folder / "best.task", training)
    >>> history = translator.model.fit(data.batches(), verbose=0, callbacks=[score])
    >>> sorted(history.history)
    ['loss', 'val_bleu', 'val_loss']
    """

    signs = (1, -1)  # BLEU, loss

    def __init__(
        self,
        translator: Translator,
        data: PreparedTranslation,
        path: str | os.PathLike,
        settings: TranslationTrainingSettings,
    ):
        super().__init__(translator, path)
        self.settings = settings
        pairs = data.dev[: settings.score_pairs]
        self._sources = [pair.source for pair in pairs]
        self._references = [[pair.target for pair in pairs]]
        self._batches = data.dev_batches(**_batching(settings))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        last = epoch + 1 == self.settings.epochs
        if (epoch + 1) % self.settings.score_epochs and not last:
            return
        import sacrebleu

        model, beams = self.model, self.settings.score_beams
        with averaged_weights(model):
            loss = model.evaluate(self._batches, verbose=0, return_dict=True)["loss"]
            translations = self.task.translate(self._sources, beams=beams)
            metric = sacrebleu.BLEU(tokenize=self.settings.score_tokenize)
            bleu = metric.corpus_score(translations, self._references).score
            self.keep((bleu, -float(loss)), epoch)
        if logs is not None:
            logs.update(val_loss=loss, val_bleu=bleu)


def train_translation(
    data: PreparedTranslation,
    run_dir: str | os.PathLike,
    model_settings: TranslationModelSettings | None = None,
    training_settings: TranslationTrainingSettings | None = None,
    log: Callable[[str], Any] = lambda text: None,
    verbose: Any = None,
) -> TranslationRun:
    """Trains a translator in a folder; called again, goes on where the folder has it.

    The folder holds `settings.toml` (all settings), `log.csv` (a row for each epoch), `best.task`
    (the weights with the best BLEU on the development set, for `Translator.load`) and
    `checkpoint.npz` (the state of the run). No TensorFlow is needed on JAX and PyTorch.

    Args:
        data: Prepared data.
        run_dir: The run's folder.
        model_settings: Settings of the model; its defaults if None.
        training_settings: Settings of the training; its defaults if None. Their `seed` seeds this
            process, and makes TensorFlow compute the same twice.
        log: Called with a line about each step.
        verbose: Of Keras' progress bar; None: a bar in a terminal, else a line for each epoch.

    Returns:
        `TranslationRun`.

    Raises:
        ValueError: If the folder holds a run of other settings or data.
        RuntimeError: If a GPU, or more devices, are asked for than there are.
        PermissionError: If the folder cannot be written to; found before the training.
        BlockingIOError: If another process trains in the folder.
        OSError: If the disk is full; the last checkpoint is still good.

    Example:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> lines = [f"the house of {name}\\tdas Haus von {name}" for name in "Ann Ben Cem Dan".split()]
    >>> _ = (folder / "pairs.tsv").write_text("\\n".join(lines))
    >>> sizes = {"dev_size": 1, "test_size": 1, "vocabulary_size": 280}
    >>> settings = TranslationDataSettings(train=str(folder / "pairs.tsv"), **sizes)
    >>> data = PreparedTranslation.prepare(settings, folder / "prepared")
    >>> small = TranslationModelSettings(num_layers=1, dim=8, intermediate_dim=8)
    >>> training = TranslationTrainingSettings(epochs=1)
    >>> run = train_translation(data, folder / "run", small, training, verbose=0)
    >>> run.complete, Translator.load(run.best).max_source_length
    (True, 256)
    """
    model = model_settings or TranslationModelSettings()
    training = training_settings or TranslationTrainingSettings()
    run_dir = check_writable(run_dir).absolute()
    if (run_dir / "prepared.json").exists():
        raise ValueError(f"{run_dir} holds prepared data. Give another folder for the run.")
    with only_one(run_dir / ".lock", "trains"), compute_on(training.device, training.devices):
        return _train(data, run_dir, model, training, log, verbose)


def _train(
    data: PreparedTranslation,
    run_dir: Path,
    model: TranslationModelSettings,
    training: TranslationTrainingSettings,
    say: Callable[[str], Any],
    verbose: Any,
) -> TranslationRun:
    sections = {"model": model, "training": training}
    tidy_run(run_dir, SECTIONS, sections)
    seed_everything(training.seed)
    two = data.target_tokenizer is not data.source_tokenizer
    translator = Translator(
        data.source_tokenizer,
        model.config(),
        data.target_tokenizer if two else None,
        max_source_length=data.settings.max_length,
        dtype=training.precision,
    )
    batches = data.batches(**_batching(training), seed=training.seed)
    every = training.epochs * len(batches)
    translator.compile(
        total_steps=max(every // training.gradient_accumulation, 1),
        learning_rate=training.learning_rate,
        warmup_steps=None if training.warmup_steps < 0 else training.warmup_steps,
        label_smoothing=training.label_smoothing,
        weight_decay=training.weight_decay,
        clip_norm=training.clip_norm,
        ema_momentum=ema_momentum(every) if training.ema < 0 else training.ema,
        gradient_accumulation=training.gradient_accumulation,
        steps_per_execution=checked_steps(training.steps_per_execution),
    )
    say(
        f"{translator.model.count_params():,} weights, {len(batches):,} batches an epoch, "
        f"{batches.padded_share:.0%} padding, {keras.backend.backend()}"
    )
    if batches.dropped:
        say(f"{batches.dropped:,} pairs are longer than a row and left out.")
    score = DevelopmentScore(translator, data, run_dir / BEST, training)
    complete, interrupted, rows = train_in_folder(
        run_dir,
        trained_form(translator.model, training.batching == "packed", training.chunked_loss),
        batches,
        {"data": data.settings, **sections},
        {"data": data.fingerprint, **_applying(model), **_shaping(training)},
        [score],
        say,
        verbose,
    )
    best = max(score.best_score, -1.0)
    return TranslationRun(complete, interrupted, best, score.best_epoch, rows, run_dir / BEST)


def _batching(training: TranslationTrainingSettings) -> dict[str, Any]:
    """The arguments of `PreparedTranslation.batches`."""
    found: dict[str, Any] = {"tokens_per_batch": training.tokens_per_batch}
    if training.batching == "packed":
        found |= {"packed": True, "tokens_per_row": training.tokens_per_row}
    return found


def _shaping(training: TranslationTrainingSettings) -> dict[str, Any]:
    """The settings that shape the result, as before there were more: runs of then can go on."""
    plain = TranslationTrainingSettings()
    later = ("batching", "tokens_per_row", "chunked_loss")
    return {
        name: value
        for name, value in training.shaping().items()
        if name not in later or value != getattr(plain, name)
    }


_BEFORE = {  # what was there before it could be chosen
    "normalization": "layer_norm",
    "gated": False,
    "use_bias": True,
    "positions": "sinusoidal",
}


def _applying(model: TranslationModelSettings) -> dict[str, Any]:
    """The settings of this kind of model that shape the result.

    Those of a Transformer as before there were more: runs of then can go on.
    """
    known, former = model.shaping(), {"model": "transformer", **_BEFORE}
    return {
        name: value
        for name, value in model.config().items()
        if name in known and (name not in former or value != former[name])
    }


def ema_momentum(batches: int) -> float:
    """The momentum of a moving average over the last tenth of a run, at most 0.999.

        m = min(0.999, max(0, 1 - 10 / batches))

    A longer memory would hold untrained weights where a run is short: Keras' average begins with
    the weights after the first batch, and is not corrected for that.

    Args:
        batches: Number of batches of the run.

    Returns:
        The momentum.

    Example:

    >>> ema_momentum(500), ema_momentum(100_000)
    (0.98, 0.999)
    """
    return min(0.999, max(0.0, 1.0 - 10.0 / batches))
