"""The base class of tasks: training, files, quantization and export, written once."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import keras

from keras_attn.tasks.constructed import Constructed
from keras_attn.tasks.exported import Exported
from keras_attn.tasks.fitted import Fitted
from keras_attn.tasks.quantizing import Quantizable
from keras_attn.tasks.saved import Saved
from keras_attn.tasks.task_run import Scored


class Examples(NamedTuple):
    """What a run learns from.

    Example:

    >>> Examples([("Good.", "pos")], [("Bad.", "neg")], "a.csv: 2 texts").summary
    'a.csv: 2 texts'
    """

    train: Sequence[Any]
    """Examples to learn from."""
    dev: Sequence[Any]
    """Examples by which the best weights are chosen."""
    summary: str
    """What was read, in words."""
    data: Any = None
    """Settings `Data` by which the examples were made; None: those of the call."""


class Figures(dict):
    """Figures by their names, as a report.

    Example:

    >>> print(Figures({"accuracy": 0.5}))
    accuracy 0.5000
    """

    def __str__(self) -> str:
        return "\n".join(f"{name} {value:.4f}" for name, value in self.items())

    def to_dict(self) -> dict[str, float]:
        """Returns the figures as a plain dict."""
        return dict(self)


class Task(Constructed, Fitted, Saved, Exported, Quantizable):
    """A model with its preprocessing, its training and its results: strings in, strings out.

    `.model` is the plain Keras model. A subclass says what only the task knows; the methods here
    are the same for all tasks. `docs/new_task.md` writes one from beginning to end.

    Attributes:
        name: Name of the task in the command and the documentation.
        summary: What the task does, in a sentence.
        kinds: The architectures to choose from.
        Data: Settings of the data and of what is made of them before the model.
        Learned: What the examples tell the task: its tokenizer, its labels.
        Training: Settings of the training.
        Use: Settings of predictions, explanations and the export.
        Test: Settings of the evaluation, and the data that it reads.
        steps: Those of the standard steps that the task's command has. A method adds a step of its
            own, or replaces one of these, by `@step`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    steps: ClassVar[tuple[str, ...]] = ("fit", "evaluate", "predict", "quantize", "export")
    examples_are: ClassVar[str] = "examples"
    """What the examples are, for messages: `"texts"`."""
    rows_are: ClassVar[str] = ""
    """What batches have of examples, if it is something else: `"rows"` of long texts."""
    reads: str = "lines"
    """What `predict` of the command reads: `"lines"` of files; `"pairs"`, lines of one text or two
    with a tab between them; `"only_pairs"`, lines of two; `"picture_pairs"`, lines of a picture's
    path and a text; `"turns"`, lines of any number. An object may say of itself what it reads, if
    not all of its class read the same."""
    selects: ClassVar[tuple[str, str]] = ("", "")
    """Which figure of `score` chooses the best weights, and whether the best is its greatest or its
    least: `("accuracy", "max")`, `("mean_absolute_error", "min")`."""
    explain: ClassVar[Callable[..., Any]]
    """What `page` shows; tasks with the step `explain` have it."""

    # What a task writes

    @classmethod
    @abstractmethod
    def read(cls, data: Any) -> Examples:
        """Reads the examples that `fit` of the command learns from.

        Args:
            data: Settings `Data`.
        """

    @abstractmethod
    def read_test(self, test: Any, data: Any) -> Any:
        """Reads the examples that `evaluate` of the command measures; they have a `summary()`.

        Args:
            test: Settings `Test`.
            data: Settings `Data`; None if none of them is an option of `evaluate`.
        """

    @abstractmethod
    def batches(self, examples: Sequence[Any], training: Any, shuffle: bool = True) -> Any:
        """Makes batches of examples for `model.fit`.

        They are a `keras.utils.PyDataset`. `keras_attn.batches.TextBatches` makes them of ids with
        classes or numbers. Those of your own also need, so that a run can be resumed and
        described:

        - `num_examples`: the number of examples of an epoch;
        - `padded_share`: the share of padding, 0 to 1;
        - `seed`: the integer that the order is made from;
        - `set_epoch(epoch)`: takes the order of an epoch, counted from 0, which must depend on
          `seed` and the epoch alone.

        Args:
            examples: The examples.
            training: Settings `Training`.
            shuffle: Whether each epoch has another order.
        """

    @abstractmethod
    def objective(self, training: Any) -> dict[str, Any]:
        """Returns `loss` and metrics, for `keras.Model.compile`.

        Args:
            training: Settings `Training`.
        """

    def score(self, examples: Sequence[Any]) -> dict[str, float]:
        """Measures the task on examples.

        Args:
            examples: The examples.

        Returns:
            Figures by their names; `selects` says which of them chooses the weights.
        """
        raise NotImplementedError

    def evaluate(self, examples: Sequence[Any]) -> Any:
        """Measures the task on examples.

        Args:
            examples: The examples.

        Returns:
            A report: `print` shows it, and its `to_dict` has the figures.
        """
        return Figures(self.score(examples))

    def scored_by(self, training: Any) -> tuple[str, int]:
        """Returns the figure by which the best weights are chosen.

        Args:
            training: Settings `Training`.

        Returns:
            Its name, and 1, or -1 if less is better: what `selects` declares.
        """
        name, best = self.selects
        return name.replace("_", " "), 1 if best == "max" else -1

    def scorer(self, dev: Sequence[Any], training: Any) -> Callable[[keras.Model], Scored]:
        """Returns what scores development examples after an epoch, given the model that is fitted.

        Args:
            dev: Development examples.
            training: Settings `Training`.
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

    @staticmethod
    def readable(result: Any) -> str:
        """Returns a result as `predict` of the command writes it."""
        found = result if isinstance(result, dict) else result._asdict()
        return json.dumps(found, ensure_ascii=False)

    @classmethod
    def line(cls, given: Any, result: Any) -> str:
        """Returns what `predict` of the command writes for an input. JSON always has the same keys.

        Args:
            given: The input.
            result: What `predict` gives for it.
        """
        return cls.readable(result)

    def finish(self, dev: Sequence[Any], training: Any) -> str:
        """Does what belongs to the end of a training, such as a calibration.

        Args:
            dev: Development examples; none if the training had none.
            training: Settings `Training`.

        Returns:
            What was done, for the log; empty if nothing was.
        """
        return ""

    def trained_form(self, training: Any) -> keras.Model:
        """Returns the compiled model that is fitted: another form of the layers of `model`.

        Args:
            training: Settings `Training`.
        """
        return self.model

    @classmethod
    def check_run_dir(cls, run_dir: Path) -> None:
        """Raises a ValueError if a folder is used for something else than runs."""

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about what is trained.

        Args:
            batches: Training batches.
        """
        rows = self.rows_are or self.examples_are
        return [
            f"{batches.num_examples:,} {rows}, {self.model.count_params():,} weights, "
            f"{len(batches):,} batches an epoch, {batches.padded_share:.0%} padding, "
            f"{keras.backend.backend()}"
        ]

    def facts(self) -> list[str]:
        """Returns what tells this object from others of its class, for its `repr`."""
        return [self.kinds.name_of(self.config)]

    @staticmethod
    def page(explanations: Sequence[Any], title: str) -> str:
        """Returns an HTML page of what `explain` returned."""
        raise NotImplementedError

    def __repr__(self) -> str:
        weights = f"{self.whole.count_params():,} weights"
        return f"{type(self).__name__}({', '.join([*self.facts(), weights])})"
