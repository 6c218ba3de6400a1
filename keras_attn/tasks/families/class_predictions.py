"""The predictions of tasks that put texts, or pairs of texts, into classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule
from keras_attn.batches import BucketedBatches
from keras_attn.explain import Explanation
from keras_attn.explain.methods import check_label
from keras_attn.fields import Names, Numbers
from keras_attn.fields.aligned_tokens import stacked
from keras_attn.fields.encoder_input import ReadText
from keras_attn.fields.signature import OutputField
from keras_attn.fields.text import sides_of
from keras_attn.hints import Tensor
from keras_attn.records.class_labels import checked_class_names
from keras_attn.records.labelled_texts import Input
from keras_attn.tasks.base.checks import checked_temperature
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.families.unknown import Threshold, sureness
from keras_attn.tasks.families.use_settings import ClassUse
from keras_attn.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)

Labels = list[str | tuple[str, ...]]
_NAMES = {"attention": "attention", "gradient": "gradient x input"}


class Prediction(NamedTuple):
    """What a classifier says of a text, or of a pair of texts.

    Example:

    >>> Prediction("good", {"bad": 0.25, "good": 0.75}).label
    'good'
    """

    label: str | tuple[str, ...]
    """Name of the most probable class, or of texts of no class; with several labels the names of
    those above their thresholds."""
    probabilities: dict[str, float]
    """Probability of each class."""


@dataclasses.dataclass(frozen=True)
class ClassLearned(Learned):
    """What a classifier learned: its tokenizer and its classes. Subclasses have a `temperature`."""

    tokenizer: BytePairTokenizer | SentencePieceTokenizer | WordPieceTokenizer | WordTokenizer
    class_names: tuple[str, ...]
    """Names of the classes, in the order of the logits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "class_names", checked_class_names(self.class_names))
        object.__setattr__(self, "temperature", checked_temperature(vars(self)["temperature"]))


class ClassPredictions(Task):
    """The predictions and explanations of a task that puts texts, or pairs of texts, into classes.

    A subclass makes batches of inputs (`rows_of`). Its `weighed` says what the model computes, and
    its `read_off` which tokens `explain` shows.
    """

    Use: ClassVar[type[ClassUse]] = ClassUse
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    decide_nothing: ClassVar[tuple[str, ...]] = ("loaded", "word_vectors")

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.learned.class_names

    @property
    def multi_label(self) -> bool:
        """Whether an input may have several labels, or none."""
        return False

    @property
    def unknown(self) -> str:
        """Label of the inputs that are of no class; empty if all are of one."""
        return ""

    @property
    def unknown_below(self) -> Threshold | None:
        """The threshold of inputs that are of no class, once it is chosen."""
        return None

    @property
    def thresholds(self) -> np.ndarray:
        """The probability from which an input has a label, of several, `(C,)`."""
        return np.full(len(self.class_names), 0.5)

    @property
    def max_length(self) -> int:
        """Largest number of tokens of a text that is read."""
        return self.data.max_length

    @property
    def temperature(self) -> float:
        """What logits are divided by before they become probabilities; see `calibrate`."""
        return self.learned.temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self.relearn(temperature=temperature)

    # What a task writes

    @classmethod
    def labels_of(cls, examples: Sequence[Any]) -> Labels:
        """Returns the labels of examples that `checked` returned."""
        return [example.label for example in examples]

    def rows_of(self, tensors: Mapping[str, Any], **settings: Any) -> BucketedBatches:
        """Makes batches of what the field of `serving_default` returns."""
        raise NotImplementedError

    def arrays_of(
        self, inputs: Mapping[str, np.ndarray], members: np.ndarray, tensors: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Returns the arrays that `weighed` takes; `members`: the number of the input of a row."""
        return dict(inputs)

    def weighed(
        self, tensors: Mapping[str, Array], method: str | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Computes logits on every backend, and what `method` says of the tokens if it is given.

        `tensors` may have `explained (B,)`, the classes whose gradients are computed.
        """
        raise NotImplementedError

    def read_off(
        self, inputs: Sequence[Input], found: Mapping[str, Any]
    ) -> Iterator[tuple[ReadText, np.ndarray]]:
        """Returns the tokens of each input, and their weights in what `run` returned."""
        raise NotImplementedError

    def checked_method(self, method: str | None) -> str:
        """Returns the method of an explanation, or the default one."""
        raise NotImplementedError

    # What is written once

    def facts(self) -> list[str]:
        """Returns the classes and the size of the vocabulary."""
        names = ", ".join(self.class_names[:5]) + (", ..." if len(self.class_names) > 5 else "")
        classes = f"{len(self.class_names)} classes: {names}"
        return [*super().facts(), classes, f"{self.tokenizer.vocabulary_size:,} tokens"]

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether a caller gave one text or one pair, and not a list of them."""
        pair = isinstance(inputs, tuple) and all(isinstance(x, str) for x in inputs)
        return pair or isinstance(inputs, str)

    # Predictions

    def encoded(self, inputs: Sequence[Input]) -> dict[str, Any]:
        """Returns what the field of `serving_default` makes of inputs for `rows_of`."""
        return self.signatures(self.Use())["serving_default"].field.encode(*sides_of(inputs))

    def computed(self, tensors: Mapping[str, Any], use: ClassUse) -> dict[str, Any]:
        """Computes in Python what `run` returns, of inputs of like lengths together."""
        number = -1 if use.label is None else self.class_names.index(use.label)

        def compute(inputs: Mapping[str, np.ndarray], members: np.ndarray) -> Any:
            arrays = self.arrays_of(inputs, members, tensors)
            explained = np.full(len(next(iter(arrays.values()))), number, "int32")
            return self._run_compiled({**arrays, "explained": explained}, use, use.method)

        rows = self.rows_of(tensors, batch_size=use.batch_size, shuffle=False).computed(
            compute, self.examples_are
        )
        return {name: stacked([row[name] for row in rows], 0) for name in rows[0]}

    def _predicted(self, inputs: Sequence[Input], use: ClassUse) -> dict[str, Any]:
        """What `run` returns for checked inputs, and the arrays made of them."""
        if not inputs:
            none = np.zeros((0, len(self.class_names)), "float32")
            return {"logits": none, "probabilities": none, "label": [], "chosen": none}
        tensors = self.encoded(inputs)
        return {**tensors, **self.computed(tensors, use)}

    def _asked_for(self, inputs: Any, batch_size: int) -> dict[str, Any]:
        given = self.asked([inputs] if self.is_one(inputs) else inputs)
        return self._predicted(given, self.Use(batch_size=batch_size))

    def run(self, xp: ArrayModule, tensors: Mapping[str, Array], use: ClassUse) -> dict[str, Array]:
        """Computes logits and probabilities, and what the method of `use` says of the tokens."""
        raw, more = self.weighed(tensors, use.method)
        logits = ops.cast(raw, "float32")
        probabilities = self._probabilities(ops, logits)
        classes = ops.cumsum(ops.ones_like(probabilities, dtype="int32"), axis=1) - 1
        found = {"logits": logits, "probabilities": probabilities, "classes": classes, **more}
        return found | self.decided(found)

    def decided(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the number of the label, or of several labels which an input has."""
        probabilities = found["probabilities"]
        if self.multi_label:
            return {"chosen": probabilities >= ops.cast(self.thresholds, "float32")}
        label = ops.cast(ops.argmax(probabilities, axis=-1), "int32")
        limit = self.unknown_below
        if limit is None:
            return {"label": label}
        sure = sureness(ops, found["logits"], limit.score)
        return {"label": ops.where(sure < limit.at, len(self.class_names), label), "sure": sure}

    def _probabilities(self, xp: ArrayModule, logits: Array) -> Array:
        """Probabilities at the temperature that `calibrate` found."""
        logits = logits / self.temperature
        if self.multi_label:
            small = xp.exp(xp.minimum(logits, -logits))  # at most 1
            return xp.where(logits < 0, small, 1.0) / (1 + small)
        powers = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
        return powers / xp.sum(powers, axis=-1, keepdims=True)

    def probabilities_of_logits(self, logits: Any) -> np.ndarray:
        """Makes probabilities `(n, C)` of logits, at the temperature that `calibrate` found."""
        return self._probabilities(np, np.asarray(logits, "float64")).astype("float32")

    def predict_logits(self, inputs: Any, batch_size: int = ClassUse.batch_size) -> np.ndarray:
        """Computes the logits of inputs.

        Args:
            inputs: As in `predict`; a single one is a list of one.
            batch_size: Inputs computed at a time.

        Returns:
            float32 `(n, C)`.
        """
        return self._asked_for(inputs, batch_size)["logits"]

    def predict_probabilities(
        self, inputs: Any, batch_size: int = ClassUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of the classes.

        Args:
            inputs: As in `predict`; a single one is a list of one.
            batch_size: Inputs computed at a time.

        Returns:
            float32 `(n, C)`, in the order of `class_names`.
        """
        return self._asked_for(inputs, batch_size)["probabilities"]

    def results(self, inputs: Sequence[Input], use: ClassUse) -> list[Prediction]:
        """Says to which class a text, or a pair of texts, belongs.

        Args:
            inputs: A string, or a tuple of two strings if pairs are classified; or a list of them.

        Returns:
            A `Prediction` for one input, a list of them for a list.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings.
            ValueError: If a pair is given where single texts are expected, or the reverse.
        """
        found = self._predicted(inputs, use)
        rows = zip(self._labels(found), found["probabilities"], strict=True)
        return [Prediction(label, self._named(row)) for label, row in rows]

    def _labels(self, found: Mapping[str, Any]) -> Labels:
        """The labels of what `run` returned."""
        names = [*self.class_names, self.unknown]
        if self.multi_label:
            return [tuple(names[i] for i in np.flatnonzero(row)) for row in found["chosen"]]
        return [names[int(i)] for i in found["label"]]

    def _named(self, row: np.ndarray) -> dict[str, float]:
        return dict(zip(self.class_names, map(float, row), strict=True))

    def explained(self, inputs: Sequence[Input], use: ClassUse) -> Any:
        """Says how much each token weighed in what the model says of an input.

        Args:
            inputs: As in `predict`.

        Returns:
            For the gradient an `Explanation` of one input, a list of them for a list, of the tokens
            that the model read. For attention what the task shows of it. `page` makes a page of
            either.

        Raises:
            ValueError: As in `predict`; and if the method or label is unknown, or the model has no
                attention.
        """
        use = dataclasses.replace(use, method=self.checked_method(use.method))
        if use.label is not None and use.label not in self.class_names:
            raise ValueError(
                f"`label` must be one of {list(self.class_names)}. Received: {use.label!r}."
            )
        check_label(use.label, use.method or "")
        return self.shown(inputs, use)

    def shown(self, inputs: Sequence[Input], use: ClassUse) -> Any:
        """Explains inputs by the weights of the tokens of each."""
        found = self._predicted(inputs, use)
        return [
            Explanation(
                given if isinstance(given, str) else given[0],
                read.tokens,
                read.offsets,
                weights,
                self.class_names[int(row.argmax())] if use.label is None else use.label,
                self._named(row),
                _NAMES[use.method or ""],
                None if isinstance(given, str) else given[1],
                read.segments,
            )
            for given, row, (read, weights) in zip(
                inputs, found["probabilities"], self.read_off(inputs, found), strict=True
            )
        ]

    # The SavedModel

    def class_outputs(self) -> dict[str, OutputField]:
        """Returns the fields of the outputs that all classifiers have.

        label          string (B,)      the most probable class, or the label of texts of no class
        chosen         bool (B, C)      instead of it, of several labels: which of the classes
        probabilities  float32 (B, C)   of the classes
        classes        string (B, C)    their names, in each row
        """
        outputs: dict[str, OutputField] = {
            "probabilities": Numbers("probabilities"),
            "classes": Names(self.class_names, "classes"),
        }
        if self.multi_label:
            outputs["chosen"] = Numbers("chosen")
        else:
            outputs["label"] = Names([*self.class_names, self.unknown], "label")
        return outputs
