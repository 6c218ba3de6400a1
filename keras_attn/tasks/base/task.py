"""The base class of tasks."""

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
    """Training examples."""
    dev: Given | None
    """Development examples, which determine the best weights; None to keep the last weights."""
    summary: str
    """A text for the log that describes the files and the split."""
    data: Any = None
    """Data settings that replace the argument of `read`; None to use the argument unchanged."""


class Task(Predicting[Given], Quantizable):
    """Base class of tasks: a Keras model with text processing before and after it, and training.

    `.model` is the plain Keras model. A subclass defines what is specific to the task; the other
    methods are the same for all tasks. `docs/new_task.md` shows a complete example.

    Attributes:
        name: Name of the task in the command and the documentation.
        about: A sentence about the task.
        kinds: The available architectures.
        Data: Settings of the data and their preprocessing.
        Learned: Values that the task learns from examples, such as tokenizer and labels.
        Training: Settings for training.
        Use: Settings for predictions, explanations and the export.
        Test: Settings for the evaluation, including the path of the test data.
        steps: Names of the standard steps of the task's command. A method can add or replace a step
            with `@step`.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    steps: ClassVar[tuple[str, ...]] = ("fit", "evaluate", "predict", "quantize", "export")
    reads: str = "lines"
    """Inputs of the command's `predict`: `"lines"` of files; `"pairs"`, lines of one or two texts
    separated by a tab; `"only_pairs"`, lines of two texts; `"picture_pairs"`, lines of an image
    path and a text; `"turns"`, lines of any number of texts. Instances may override it."""

    # What a task writes

    @classmethod
    def read(cls, data: Any) -> Examples:
        """Reads the training and development examples; the command's `fit` calls it.

        `read_file` reads the training examples from `data.train`. If `data.limit` is set, only this
        number of random examples is kept. Development examples are read from the file `data.dev`
        if it is given; otherwise, `split` takes them from the training examples.

        Args:
            data: Settings of class `Data`.

        Returns:
            An `Examples`.

        Raises:
            OSError: If a file does not exist or cannot be read.
            ValueError: If a file has the wrong form, there are too few examples for a split, or
                `check_read` refuses the examples.
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
                f"Expected two different {cls.examples_are} or more, so that they can be "
                "split. Received: only one. Give a file for development (--dev)."
            )
        return Examples(*sides, f"{read.summary().rstrip('.')}; held out: {len(sides[1]):,}")

    def read_test(self, test: Any, data: Any) -> Any:
        """Reads the examples that the command's `evaluate` passes to the method `evaluate`.

        Args:
            test: Settings of class `Test`; by default, `read_file` reads the file `test.data`.
            data: Settings of class `Data`, as given to the command; None if the command's
                `evaluate` has no options for them.

        Returns:
            The examples, with a method `summary()`, which describes the file.
        """
        return self.read_file(test.data, data)

    @staticmethod
    def readable(result: Any) -> str:
        """Returns the text that the command writes for a result.

        By default, the text is a JSON object of the result, which must be a dict or a named tuple.

        Args:
            result: The result of `predict` for one input.
        """
        found = result if isinstance(result, dict) else result._asdict()
        return json.dumps(found, ensure_ascii=False)

    @classmethod
    def line(cls, given: Any, result: Any) -> str:
        """Returns the line that the command's `predict` writes for an input.

        By default, the line is `readable(result)`.

        Args:
            given: The input.
            result: The result of `predict` for this input.
        """
        return cls.readable(result)

    def summary(self, **settings: Any) -> None:
        """Prints a summary of all layers and weights of the task.

        Args:
            **settings: Arguments of `keras.Model.summary`, such as `expand_nested=True`.
        """
        self.whole.summary(**settings)

    def facts(self) -> list[str]:
        """Returns the texts that the `repr` of the task shows before the number of weights: the
        name of the architecture and, in subclasses, sizes such as the number of labels."""
        return [self.kinds.name_of(self.config)]

    def __repr__(self) -> str:
        weights = f"{self.whole.count_params():,} weights"
        return f"{type(self).__name__}({', '.join([*self.facts(), weights])})"


def limited(examples: Sequence[Any], data: Any) -> Any:
    """Returns the examples, or `data.limit` random examples if `data` has this setting."""
    limit = getattr(data, "limit", None)
    if limit is None or limit >= len(examples):
        return examples
    return random.Random(data.split_seed).sample(list(examples), limit)
