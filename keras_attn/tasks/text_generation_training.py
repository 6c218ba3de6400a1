"""A text generation run: trained, scored, kept, and taken up where it was left."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_attn.files import check_writable, only_one
from keras_attn.tasks.best_weights import BestWeights
from keras_attn.tasks.compiling import checked_steps
from keras_attn.tasks.run_folder import BEST, tidy_run, train_in_folder
from keras_attn.tasks.text_generation_settings import (
    SECTIONS,
    TextModelSettings,
    TextTrainingSettings,
)
from keras_attn.tasks.text_generator import TextGenerator
from keras_attn.text import CharacterTokenizer
from keras_attn.training import averaged_weights, compute_on, seed_everything


class TextGenerationRun(NamedTuple):
    """What came of `train_text_generator`.

    Example:

    >>> TextGenerationRun(True, None, 2.25, 3, [], Path("run/best.task")).best_bits
    2.25
    """

    complete: bool
    """Whether the run is at its end; False: a signal ended it, and the same call goes on."""
    interrupted_by: int | None
    """Number of that signal."""
    best_bits: float
    """Bits per character of the development text, by the weights that are kept."""
    best_epoch: int
    """The epoch (from 1) after which they were kept; 0: none was at its end."""
    log: list[dict[str, Any]]
    """A dict of figures for each epoch."""
    best: Path
    """The file of the best weights, for `TextGenerator.load`."""


class DevelopmentBits(BestWeights):
    """Scores a development text after each epoch, and keeps the weights that do it best.

    Adds `val_bits_per_character` to the logs of the epoch. Where the optimizer keeps a moving
    average of the weights, that is what is scored and kept.

    Args:
        generator: Whose model is trained.
        text: The development text; empty: the weights of the last epoch are kept.
        path: Where the best weights are saved, for `TextGenerator.load`.
        batch_size: Windows scored at a time.

    Example:

    >>> import tempfile
    >>> text = "to be, or not to be, " * 10
    >>> generator = TextGenerator(CharacterTokenizer.train([text]), {"units": 8}, 16)
    >>> bits = DevelopmentBits(generator, text, Path(tempfile.mkdtemp()) / "best.task", 4)
    >>> history = generator.fit(text, epochs=1, verbose=0, callbacks=[bits])
    >>> sorted(history.history)
    ['loss', 'val_bits_per_character']
    """

    signs = (-1,)  # bits

    def __init__(
        self, generator: TextGenerator, text: str, path: str | os.PathLike, batch_size: int = 64
    ):
        super().__init__(generator, path)
        self.text = text
        self.batch_size = batch_size

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        with averaged_weights(self.model):
            bits = float("inf")
            if self.text:
                score = self.task.evaluate(self.text, batch_size=self.batch_size)
                bits = score.bits_per_character
            self.keep((-bits,), epoch, always=not self.text)
        if logs is not None and self.text:
            logs["val_bits_per_character"] = bits


def train_text_generator(
    text: str,
    development_text: str,
    run_dir: str | os.PathLike,
    model_settings: TextModelSettings | None = None,
    training_settings: TextTrainingSettings | None = None,
    vocabulary_size: int | None = None,
    log: Callable[[str], Any] = lambda text: None,
    verbose: Any = None,
) -> TextGenerationRun:
    """Trains a text generator in a folder; called again, goes on where the folder has it.

    The folder holds `settings.toml`, `log.csv` (a row for each epoch), `best.task` (the weights
    with the fewest bits per character of the development text, for `TextGenerator.load`) and
    `checkpoint.npz` (the state of the run). No TensorFlow is needed on JAX and PyTorch.

    Args:
        text: Training text; the vocabulary is made of it.
        development_text: Scored after each epoch; may be empty.
        run_dir: The run's folder.
        model_settings: Settings of the model; its defaults if None.
        training_settings: Settings of the training; its defaults if None. Their `seed` seeds this
            process, and makes TensorFlow compute the same twice.
        vocabulary_size: As `CharacterTokenizer.train`.
        log: Called with a line about each step.
        verbose: Of Keras' progress bar; None: a bar in a terminal, else a line for each epoch.

    Returns:
        `TextGenerationRun`.

    Raises:
        ValueError: If the folder holds a run of other settings or data, or the text is too short.
        RuntimeError: If a GPU, or more devices, are asked for than there are.
        PermissionError: If the folder cannot be written to; found before the training.
        BlockingIOError: If another process trains in the folder.
        OSError: If the disk is full; the last checkpoint is still good.

    Example:

    >>> import tempfile
    >>> text = "to be, or not to be, " * 10
    >>> small = TextModelSettings(units=8)
    >>> training = TextTrainingSettings(epochs=1, sequence_length=16, batch_size=4)
    >>> run = train_text_generator(text, text, tempfile.mkdtemp(), small, training, verbose=0)
    >>> run.complete, TextGenerator.load(run.best).sequence_length
    (True, 16)
    """
    model = model_settings or TextModelSettings()
    training = training_settings or TextTrainingSettings()
    run_dir = check_writable(run_dir).absolute()
    with only_one(run_dir / ".lock", "trains"), compute_on(training.device, training.devices):
        return _train(
            text, development_text, run_dir, model, training, vocabulary_size, log, verbose
        )


def _train(
    text: str,
    development_text: str,
    run_dir: Path,
    model: TextModelSettings,
    training: TextTrainingSettings,
    vocabulary_size: int | None,
    say: Callable[[str], Any],
    verbose: Any,
) -> TextGenerationRun:
    sections = {"model": model, "training": training}
    tidy_run(run_dir, SECTIONS, sections)
    seed_everything(training.seed)
    tokenizer = CharacterTokenizer.train([text], vocabulary_size)
    generator = TextGenerator(
        tokenizer,
        dataclasses.asdict(model),
        sequence_length=training.sequence_length,
        dtype=training.precision,
    )
    windows = generator.dataset(text, batch_size=training.batch_size, seed=training.seed)
    generator.compile(
        total_steps=training.epochs * len(windows),
        learning_rate=training.learning_rate,
        warmup_steps=None if training.warmup_steps < 0 else training.warmup_steps,
        weight_decay=training.weight_decay,
        clip_norm=training.clip_norm,
        ema_momentum=training.ema,
        steps_per_execution=checked_steps(training.steps_per_execution),
    )
    say(
        f"{len(text):,} characters, {tokenizer.vocabulary_size} ids, "
        f"{generator.model.count_params():,} weights, {len(windows):,} batches an epoch, "
        f"{keras.backend.backend()}"
    )
    bits = DevelopmentBits(generator, development_text, run_dir / BEST, training.batch_size)
    data = hashlib.sha256(f"{text}\x00{development_text}".encode("utf-8", "replace")).hexdigest()
    ids = tokenizer.vocabulary_size
    complete, interrupted, rows = train_in_folder(
        run_dir,
        generator.model,
        windows,
        sections,
        {"data": data[:16], "ids": ids, **model.shaping(), **training.shaping()},
        [bits],
        say,
        verbose,
    )
    return TextGenerationRun(
        complete, interrupted, -bits.best_score, bits.best_epoch, rows, run_dir / BEST
    )
