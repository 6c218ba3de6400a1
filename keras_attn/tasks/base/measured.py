"""Batches, losses and scores of tasks."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import keras

from keras_attn.tasks.base.constructed import Constructed, Given
from keras_attn.tasks.base.task_run import Scored


class Figures(dict):
    """A report that is a dict of scores."""

    def __str__(self) -> str:
        return "\n".join(f"{name} {value:.4f}" for name, value in self.items())

    def to_dict(self) -> dict[str, float]:
        """Returns the scores as a plain dict."""
        return dict(self)


class Measured(Constructed[Given]):
    """Base class of `Task`: batches, losses and scores."""

    examples_are: ClassVar[str] = "examples"
    """Name of the examples in messages, such as `"texts"`."""
    rows_are: ClassVar[str] = ""
    """Name of the rows of batches if it differs, such as `"rows"` of long texts."""
    selects: ClassVar[tuple[str, str]] = ("", "")
    """The score that determines the best weights, and whether it is maximized or minimized:
    `("accuracy", "max")`, `("mean_absolute_error", "min")`."""

    batched_by: ClassVar[tuple[str, ...]] = ("batch_size", "seed")
    """Names of settings of class `Training` that `dataset` accepts."""

    def dataset(self, *examples: Any, **settings: Any) -> Any:
        """Creates batches of examples for `model.fit`.

        Args:
            *examples: The examples, as a single argument.
            **settings: Settings of the batches, such as `batch_size`, `seed` and `shuffle`.

        Returns:
            A `keras.utils.PyDataset`.
        """
        raise NotImplementedError

    def batches(self, examples: Given, training: Any, shuffle: bool = True) -> Any:
        """Creates the batches of a training run, by default with `dataset`.

        Batches are a `keras.utils.PyDataset`, for example `keras_attn.batches.TextBatches` for ids
        with classes or numbers. So that runs can be resumed, your own batches also need:

        - `num_examples`: the number of examples of an epoch;
        - `padded_share`: the fraction of padding, 0 to 1;
        - `seed`: the seed of the order;
        - `set_epoch(epoch)`: sets the order of an epoch (from 0), which must depend only on `seed`
          and the epoch.

        Args:
            examples: Training or development examples.
            training: Settings of class `Training`.
            shuffle: Whether the order is random.
        """
        known = [name for name in self.batched_by if hasattr(training, name)]
        settings = {name: getattr(training, name) for name in known}
        return self.dataset(examples, shuffle=shuffle, **settings)

    @abstractmethod
    def objective(self, training: Any) -> dict[str, Any]:
        """Returns a dict of the arguments `loss` and, if there are metrics, `weighted_metrics` of
        `keras.Model.compile`.

        Args:
            training: Settings of class `Training`.
        """

    @abstractmethod
    def score(self, examples: Given) -> dict[str, float]:
        """Computes the scores of examples with the current weights.

        Args:
            examples: Development examples.

        Returns:
            A dict of scores. The score named by `selects` determines the best weights.
        """

    def scored_by(self, training: Any) -> tuple[str, int]:
        """Returns the name of the score that determines the best weights, and 1 if higher is better
        or -1 if lower is better.

        Args:
            training: Settings of class `Training`.
        """
        name, best = self.selects
        return name.replace("_", " "), 1 if best == "max" else -1

    def scorer(self, dev: Given, training: Any) -> Callable[[keras.Model], Scored]:
        """Returns the function that scores development examples after an epoch.

        Args:
            dev: Development examples.
            training: Settings of class `Training`.

        Returns:
            A function that receives the model in training and returns its `Scored`.

        Raises:
            ValueError: If `selects` does not name a score.
        """
        name, sign = self.scored_by(training)
        if not name or (self.selects[0] and self.selects[1] not in ("max", "min")):
            raise ValueError(
                f"Expected `{type(self).__name__}.selects` to declare the figure of `score` that "
                "chooses the best weights, and whether its greatest or its least value is best: "
                '`selects = ("accuracy", "max")`, `selects = ("mean_absolute_error", "min")`. '
                f"Received: {self.selects!r}. Declare it, or train without development examples."
            )

        def score(model: keras.Model) -> Scored:
            figures = {name: float(value) for name, value in self.score(dev).items()}
            name = self.selects[0] or next(iter(figures))
            if name not in figures:
                raise ValueError(
                    f"Expected `score` to return {name!r}, which `{type(self).__name__}.selects` "
                    f"declares. Received: {list(figures)}."
                )
            value = sign * figures[name]
            # Weights whose figure is not defined are kept only until others have one.
            key = (-math.inf, 0.0) if math.isnan(value) else (value,)
            return Scored(key, {f"val_{name}": value for name, value in figures.items()})

        return score

    def for_examples(self, training: Any, examples: Given) -> Any:
        """Returns the training settings that `objective` receives: by default, `training`
        unchanged; in subclasses, with values computed from the examples, such as class weights.

        Args:
            training: Settings of class `Training`.
            examples: Training examples.
        """
        return training

    def prepare(
        self, examples: Given, dev: Given | tuple[()], training: Any, log: Callable[[str], Any]
    ) -> None:
        """Prepares a new training run before its first epoch, for example by fitting a head.

        Args:
            examples: Training examples.
            dev: Development examples; empty if there are none.
            training: Settings of class `Training`.
            log: Function that is called with a line of text about each step.
        """

    def forget(self) -> None:
        """Resets what `finish` chose at the end of an earlier run; called before the first epoch of
        a new or resumed run. By default, does nothing."""

    def finish(self, dev: Given | tuple[()], training: Any) -> str:
        """Completes a training run after its last epoch, for example by calibration.

        Args:
            dev: Development examples; empty if there are none.
            training: Settings of class `Training`.

        Returns:
            A note for `TrainingRun.note`; empty if nothing was done.
        """
        return ""

    def trained_form(self, training: Any) -> keras.Model:
        """Returns the compiled Keras model that `fit` trains: `model`, or another model with the
        layers of `model`.

        Args:
            training: Settings of class `Training`.
        """
        return self.model

    @classmethod
    def check_run_dir(cls, run_dir: Path) -> None:
        """Raises a ValueError if `run_dir` has files of the task that are not a run; by default,
        accepts any folder."""

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about the model and its initial weights.

        Args:
            batches: Training batches.
        """
        rows = self.rows_are or self.examples_are
        starts = [str(start) for start in (self.loaded, self.word_vectors) if start is not None]
        return [
            *(line for start in starts for line in start.split("\n")),
            f"{batches.num_examples:,} {rows}, {self.model.count_params():,} weights, "
            f"{len(batches):,} batches an epoch, {batches.padded_share:.0%} padding, "
            f"{keras.backend.backend()}",
        ]
