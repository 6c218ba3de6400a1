"""Training runs of tasks, with scores after each epoch and the best weights."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_attn.batches import EpochOrder
from keras_attn.ops.replicas import replicas
from keras_attn.tasks.base.run_folder import BEST, train_in_folder
from keras_attn.tasks.base.task_file import load_weights
from keras_attn.tasks.base.watching import FiniteLoss, FirstLoss, ProgressLines, check_learning_rate
from keras_attn.training import ProcessBatches, averaged_weights, without_autotuning
from keras_attn.training.checkpointing import end_without_epochs
from keras_attn.training.distribution import in_own_process
from keras_attn.training.processes import (
    check_same,
    from_first,
    is_first_process,
    num_processes,
)
from keras_attn.training.token_means import token_means


class Scored(NamedTuple):
    """Scores of the development examples after an epoch.

    Example:

    >>> Scored((0.9, -0.3), {"val_accuracy": 0.9, "val_log_loss": 0.3}).key
    (0.9, -0.3)
    """

    key: tuple[float, ...]
    """Scores that are compared in order to find the best weights. Higher must be better, so scores
    like a loss are negated."""
    figures: dict[str, float]
    """Scores for the log, keyed by name."""


class TrainingRun(NamedTuple):
    """The result of a training run: its log, its best score, and the file of the best weights.

    Example:

    >>> run = TrainingRun(True, None, 0.9, 3, [], {"loss": [0.5, 0.3, 0.2]}, None)
    >>> run.complete, run.history["loss"][-1]
    (True, 0.2)
    """

    complete: bool
    """Whether the run is complete. If False, a signal interrupted the run, and the same call
    resumes it."""
    interrupted_by: int | None
    """Number of the signal; None if no signal interrupted the run."""
    best_score: float | None
    """Score of the development examples with the best weights; None without development examples,
    NaN if undefined."""
    best_epoch: int
    """The epoch (from 1) of the best weights; 0 if no epoch was completed, or if there are neither
    development examples nor a folder."""
    log: list[dict[str, Any]]
    """A dict of logs for each epoch, including epochs before an interruption."""
    history: dict[str, list[float]]
    """The logs by name, as in Keras' `History`."""
    best: Path | None
    """The file of the best weights, in the folder of the run; None without a folder."""
    score_name: str = ""
    """Name of `best_score`."""
    note: str = ""
    """A text about final steps, such as calibration, and warnings; empty if there are none."""
    first_loss: float | None = None
    """The mean loss of the first 10 batches; None if the first epoch has fewer batches, or another
    process trained it."""


class DevelopmentBest(keras.callbacks.Callback):
    """Scores development examples after each epoch, and keeps the best weights.

    Training ends after `patience` epochs without a better score; with 0, it never ends early. If
    the optimizer keeps a moving average of the weights, the average is scored and kept. Scores are
    tuples, which are compared element by element.
    """

    def __init__(
        self,
        task: Any,
        score: Callable[[Any], Scored] | None,
        path: Path | None,
        every: int = 1,
        epochs: int | None = None,
        patience: int = 0,
        held: Any = None,
    ):
        super().__init__()
        self.task = task
        self.score = score
        self.path = path
        self.every = every
        self.epochs = epochs
        self.patience = patience
        self.held = held
        """Batches of the development examples for the loss, or None."""
        self.best: tuple[float, ...] = ()
        """The best score; empty at first."""
        self.best_epoch = 0
        """The epoch (from 1) of the best weights; 0 at first."""
        self.weights: list[Any] = []

    def memory(self) -> dict[str, Any]:
        """Returns the best score and its epoch, for a checkpoint."""
        return {"best": [*self.best, self.best_epoch] if self.best or self.best_epoch else []}

    def remember(self, memory: dict[str, Any]) -> None:
        """Restores the result of `memory`."""
        if memory["best"]:
            *best, self.best_epoch = memory["best"]
            self.best = tuple(best)
            if self.score is not None:  # else the next epoch replaces the file
                self.check_kept()

    def check_kept(self) -> None:
        """Raises a FileNotFoundError if the file of the best weights was deleted."""
        if self.path is not None and is_first_process() and not self.path.exists():
            raise FileNotFoundError(
                f"Expected the weights of epoch {self.best_epoch}, the best epoch of this run, at "
                f"{self.path}. There is nothing. Put the file back, or train in a new folder."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Scores the model and keeps the best weights; called by Keras."""
        last = epoch + 1 == self.epochs
        if (epoch + 1) % self.every and not last:
            return
        own = in_own_process(self.model, self.task.model, self.task.whole)
        with own, averaged_weights(self.model):
            if self.score is None:
                self.keep((), epoch)
                return
            found, figures = from_first(functools.partial(self._scored, self.score))
            key = tuple(found)
            if key > (self.best or (float("-inf"),) * len(key)):  # not if it begins with NaN
                self.keep(key, epoch)
        if logs is not None:
            logs.update(figures)
        if self.ended(epoch + 1):
            self.model.stop_training = True

    def _scored(self, score: Callable[[Any], Scored]) -> tuple[list[float], dict[str, float]]:
        key, figures = score(self.model)
        if self.held is not None and "val_loss" not in figures:
            figures = {**figures, "val_loss": token_means(self.model, self.held)["loss"]}
        return [float(x) for x in key], {name: float(x) for name, x in figures.items()}

    def ended(self, epochs: int) -> bool:
        """Whether `patience` is exhausted after a number of epochs."""
        return 0 < self.patience <= epochs - self.best_epoch

    def keep(self, score: tuple[float, ...], epoch: int) -> None:
        """Stores the current weights as the best weights, in the file or in memory."""
        if self.path is None:
            self.weights = self.task.model.get_weights()
        elif is_first_process():
            self.task.save(self.path)
        self.best, self.best_epoch = score, epoch + 1


def run_training(
    task: Any,
    model: keras.Model,
    batches: Any,
    training: Any,
    score: Callable[[Any], Scored] | None,
    run_dir: Path | None,
    sections: Mapping[str, Any],
    fingerprint: Callable[[], dict[str, Any]],
    log: Callable[[str], Any],
    verbose: Any,
    callbacks: Sequence[keras.callbacks.Callback],
    held: Any = (),
) -> TrainingRun:
    """Fits a compiled model to the end of its run, and loads the best weights.

    If `held` contains development examples, their loss is computed after each epoch.
    """
    callbacks = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    check_learning_rate(callbacks, model.optimizer)
    first = FirstLoss()
    callbacks = [FiniteLoss(), first, *callbacks]
    if not is_first_process():
        verbose = 0
    if verbose is None:
        verbose = 1 if sys.stdout.isatty() else 2
        if verbose == 2:
            callbacks.append(ProgressLines(lambda line: print(line, flush=True)))
    optimizer = model.optimizer
    if keras.backend.backend() == "tensorflow" and replicas() == 1 and not optimizer.built:
        # Else Keras traces the first step twice.
        optimizer.build(model.trainable_variables)
    every = getattr(training, "score_epochs", 1)
    with in_own_process():
        scored = task.batches(held, training, shuffle=False) if held else None
    best = DevelopmentBest(
        task,
        score,
        None if run_dir is None else run_dir / BEST,
        every,
        training.epochs,
        getattr(training, "patience", 0),
        scored,
    )
    for line in task.describe(batches):
        log(line)
    if num_processes() > 1 and not hasattr(batches, "parts"):  # others make only their own rows
        batches = ProcessBatches(batches)
    complete, signal = True, None
    if run_dir is None:
        if score is not None:
            callbacks.insert(1, best)
        each = _Rows()
        # Under `tf.distribute` Keras reads an epoch ahead, and the batches would count it.
        callbacks = [EpochOrder(batches), *callbacks, each]
        if training.epochs:
            history = model.fit(
                without_autotuning(batches),
                epochs=training.epochs,
                shuffle=False,  # they do it
                verbose=verbose,
                callbacks=callbacks,
            ).history
        else:
            end_without_epochs(model, callbacks)
            history = _columns(each.found)
        rows = each.found
        if best.weights:
            task.model.set_weights(best.weights)
    else:
        identity = fingerprint()
        check_same(identity)
        complete, signal, rows = train_in_folder(
            run_dir,
            model,
            batches,
            sections,
            identity,
            [callbacks[0], best, *callbacks[1:]],
            log,
            verbose,
        )
        history = _columns(rows)
        if complete and best.best_epoch:
            best.check_kept()
            load_weights(run_dir / BEST, task.whole)
    if complete and best.ended(rows[-1]["epoch"] if rows else 0):
        log(f"No better score in {best.patience} epochs: the training ended early.")
    name, sign = task.scored_by(training)
    found = None
    if best.best:
        found = math.nan if math.isinf(best.best[0]) else sign * best.best[0]
    return TrainingRun(
        complete,
        signal,
        found,
        best.best_epoch,
        rows,
        history,
        None if run_dir is None else run_dir / BEST,
        name,
        first_loss=first.loss,
    )


class _Rows(keras.callbacks.Callback):
    """The logs of each epoch; some values exist only in some epochs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.found.append({"epoch": epoch + 1, **(logs or {})})


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    names = dict.fromkeys(name for row in rows for name in row if name not in ("epoch", "seconds"))
    return {name: [row[name] for row in rows if name in row] for name in names}
