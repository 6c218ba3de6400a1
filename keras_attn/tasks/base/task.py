"""The base class of tasks: training, files, quantization and export, written once."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, NamedTuple

from keras_attn.tasks.base.constructed import Given
from keras_attn.tasks.base.predicting import Predicting
from keras_attn.tasks.base.quantizing import Quantizable


class Examples(NamedTuple, Generic[Given]):
    """The training and development examples of a run.

    Example:

    >>> Examples([("Good.", "pos")], [("Bad.", "neg")], "a.csv: 2 texts").summary
    'a.csv: 2 texts'
    """

    train: Given
    """Examples to learn from."""
    dev: Given | None
    """Examples by which the best weights are chosen."""
    summary: str
    """What was read, in words."""
    data: Any = None
    """Settings `Data` by which the examples were made; None: those of the call."""


class Task(Predicting[Given], Quantizable):
    """A model with its preprocessing, training and postprocessing, from strings to strings.

    `.model` is the plain Keras model. A subclass defines what is specific to the task; the methods
    here are the same for all tasks. `docs/new_task.md` shows a complete example.

    Attributes:
        name: Name of the task in the command and the documentation.
        about: A sentence about the task.
        kinds: The architectures to choose from.
        Data: Settings of the data and their preprocessing.
        Learned: What the task learns from the examples: its tokenizer, its labels.
        Training: Settings of the training.
        Use: Settings of predictions, explanations and the export.
        Test: Settings of the evaluation, and the data that it reads.
        steps: Names of the standard steps of the task's command. A method can add or replace a step
            with `@step`.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    steps: ClassVar[tuple[str, ...]] = ("fit", "evaluate", "predict", "quantize", "export")
    reads: str = "lines"
    """What `predict` of the command reads: `"lines"` of files; `"pairs"`, lines of one text or two
    with a tab between them; `"only_pairs"`, lines of two; `"picture_pairs"`, lines of a picture's
    path and a text; `"turns"`, lines of any number. An object may say of itself what it reads, if
    not all of its class read the same."""

    # What a task writes

    @classmethod
    def read(cls, data: Any) -> Examples:
        """Reads the examples for `fit` of the command.

        Args:
            data: Settings `Data`.
        """
        read = cls.read_file(data.train, data)
        train = limited(read, data)
        cls.check_read(train, data)
        if getattr(data, "dev", ""):
            dev = cls.read_file(data.dev, data)
            return Examples(train, dev, f"{read.summary()}\n{dev.summary()}")
        sides = cls.split(train, data)
        if not all(sides):
            raise ValueError(
                f"Expected two different {cls.examples_are} or more, to split them. Received: one. "
                "Give a file for development (--dev)."
            )
        return Examples(*sides, f"{read.summary().rstrip('.')}; held out: {len(sides[1]):,}")

    def read_test(self, test: Any, data: Any) -> Any:
        """Reads the examples for `evaluate` of the command; the result has a `summary()`.

        Args:
            test: Settings `Test`.
            data: Settings `Data`; None if none of them is an option of `evaluate`.
        """
        return self.read_file(test.data, data)

    @staticmethod
    def readable(result: Any) -> str:
        """Returns a result as `predict` of the command writes it."""
        found = result if isinstance(result, dict) else result._asdict()
        return json.dumps(found, ensure_ascii=False)

    @classmethod
    def line(cls, given: Any, result: Any) -> str:
        """Returns the line that `predict` of the command writes for an input. JSON always has the
        same keys.

        Args:
            given: The input.
            result: The result of `predict` for it.
        """
        return cls.readable(result)

    def summary(self, **settings: Any) -> None:
        """Prints the layers of the task's model, with all weights of the task.

        Args:
            **settings: As in `keras.Model.summary`, such as `expand_nested=True`.
        """
        self.whole.summary(**settings)

    def facts(self) -> list[str]:
        """Returns what the `repr` shows."""
        return [self.kinds.name_of(self.config)]

    def __repr__(self) -> str:
        weights = f"{self.whole.count_params():,} weights"
        return f"{type(self).__name__}({', '.join([*self.facts(), weights])})"


def limited(examples: Sequence[Any], data: Any) -> Any:
    """Returns examples, or `data.limit` of them drawn at random if there is this setting."""
    limit = getattr(data, "limit", None)
    if limit is None or limit >= len(examples):
        return examples
    return random.Random(data.split_seed).sample(list(examples), limit)
