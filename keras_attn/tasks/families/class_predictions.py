"""Predictions of classifiers of texts and pairs of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule
from keras_attn.explain.methods import check_label
from keras_attn.fields import Names, Numbers
from keras_attn.fields.signature import OutputField
from keras_attn.records.class_labels import checked_class_names
from keras_attn.records.labelled_texts import Input
from keras_attn.tasks.base.checks import checked_temperature
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.families.row_predictions import RowPredictions
from keras_attn.tasks.families.unknown import Threshold, sureness
from keras_attn.tasks.families.use_settings import ClassUse
from keras_attn.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
)

Labels = list[str | tuple[str, ...]]


class Prediction(NamedTuple):
    """The prediction of a classifier for a text, or for a pair of texts.

    Example:

    >>> Prediction("good", {"bad": 0.25, "good": 0.75}).label
    'good'
    """

    label: str | tuple[str, ...]
    """Name of the most probable class, or the label for texts that belong to no class. A text that
    may have several labels gets a tuple of the names of all labels above their thresholds."""
    probabilities: dict[str, float]
    """Probability of each class."""


@dataclasses.dataclass(frozen=True)
class ClassLearned(Learned):
    """The tokenizer and the classes of a classifier. Subclasses have a `temperature`."""

    tokenizer: BytePairTokenizer | SentencePieceTokenizer | WordPieceTokenizer | WordTokenizer
    class_names: tuple[str, ...]
    """Names of the classes, in the order of the logits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "class_names", checked_class_names(self.class_names))
        object.__setattr__(self, "temperature", checked_temperature(vars(self)["temperature"]))


class ClassPredictions(RowPredictions):
    """Predictions and explanations of classifiers of texts or pairs of texts.

    A subclass implements the methods that `RowPredictions` needs.
    """

    Use: ClassVar[type[ClassUse]] = ClassUse
    predicts: ClassVar = {"label": str, "probability": float, "probabilities": object}

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
        """Label of inputs that belong to no class; empty if every input belongs to one."""
        return ""

    @property
    def unknown_below(self) -> Threshold | None:
        """The score and the threshold below which an input belongs to no class; None if no
        threshold was chosen."""
        return None

    @property
    def thresholds(self) -> np.ndarray:
        """The minimum probability of each label, `(C,)`, if an input may have several labels."""
        return np.full(len(self.class_names), 0.5)

    @property
    def temperature(self) -> float:
        """The number by which logits are divided before the softmax or sigmoid; see `calibrate`."""
        return self.learned.temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self.relearn(temperature=temperature)

    @classmethod
    def labels_of(cls, examples: Sequence[Any]) -> Labels:
        """Returns the labels of checked examples: names, or tuples of names if an example may have
        several labels."""
        return [example.label for example in examples]

    # What is written once

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the architecture, the classes and the vocabulary size."""
        names = ", ".join(self.class_names[:5]) + (", ..." if len(self.class_names) > 5 else "")
        classes = f"{len(self.class_names)} classes: {names}"
        return [*super().facts(), classes, f"{self.tokenizer.vocabulary_size:,} tokens"]

    # Predictions

    def explained_class(self, use: ClassUse) -> int:
        """Returns the index of the class `use.label`; -1, for the most probable class, if None."""
        return -1 if use.label is None else self.class_names.index(use.label)

    def predicted(self, inputs: Sequence[Input], use: ClassUse) -> dict[str, Any]:
        """Returns a dict of the encoded arrays and the result of `run` for checked inputs."""
        if not inputs:
            none = np.zeros((0, len(self.class_names)), "float32")
            return {"logits": none, "probabilities": none, "label": [], "chosen": none}
        return super().predicted(inputs, use)

    def _asked_for(self, inputs: Any, batch_size: int) -> dict[str, Any]:
        given = self.asked([inputs] if self.is_one(inputs) else inputs)
        return self.predicted(given, self.Use(batch_size=batch_size))

    def run(self, xp: ArrayModule, tensors: Mapping[str, Array], use: ClassUse) -> dict[str, Array]:
        """Computes logits, probabilities and labels for a batch; called by predictions in Python
        and by the SavedModel.

        Args:
            xp: The array module, `keras.ops`.
            tensors: The result of `arrays_of`.
            use: Settings of class `Use`; its `method` determines the token weights.

        Returns:
            A dict of `logits`, `probabilities` and `classes` (the indices of all classes)
            `(B, C)`, the result of `decided` and, if `method` is given, the tensors of `weighed`.
        """
        raw, more = self.weighed(tensors, use.method)
        logits = ops.cast(raw, "float32")
        probabilities = self._probabilities(ops, logits)
        classes = ops.cumsum(ops.ones_like(probabilities, dtype="int32"), axis=1) - 1
        found = {"logits": logits, "probabilities": probabilities, "classes": classes, **more}
        return found | self.decided(found)

    def decided(self, found: Mapping[str, Array]) -> dict[str, Array]:
        """Decides on the labels of inputs.

        Args:
            found: A dict of `logits` and `probabilities` `(B, C)`.

        Returns:
            A dict of `label (B,)`, the index of the most probable class. If `unknown_below` is not
            None, the label is C for an input of no class, and the dict also has `sure (B,)`, the
            score that is compared with the threshold. If inputs may have several labels, the dict
            has only `chosen (B, C)`, whether an input has each label.
        """
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
        """Computes float32 probabilities `(n, C)` from logits `(n, C)` and the `temperature`."""
        return self._probabilities(np, np.asarray(logits, "float64")).astype("float32")

    def predict_logits(self, inputs: Any, batch_size: int = ClassUse.batch_size) -> np.ndarray:
        """Computes the logits of inputs.

        Args:
            inputs: Texts or pairs of texts, as in `predict`; a single input is read as a list of
                one input.
            batch_size: Number of inputs that are computed at once.

        Returns:
            float32 `(n, C)`: a row for each of the n inputs, with the logits of the C classes in
            the order of `class_names`.
        """
        return self._asked_for(inputs, batch_size)["logits"]

    def predict_probabilities(
        self, inputs: Any, batch_size: int = ClassUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of all classes for inputs.

        Args:
            inputs: Texts or pairs of texts, as in `predict`; a single input is read as a list of
                one input.
            batch_size: Number of inputs that are computed at once.

        Returns:
            float32 `(n, C)`: a row for each of the n inputs, with the probabilities of the C
            classes in the order of `class_names`.
        """
        return self._asked_for(inputs, batch_size)["probabilities"]

    def results(self, inputs: Sequence[Input], use: ClassUse) -> list[Prediction]:
        """Classifies texts or pairs of texts.

        Args:
            inputs: A text, or a pair of texts as a tuple of two strings; or a list of texts or
                pairs.
            use: Settings of class `Use`.

        Returns:
            A `Prediction` for one input, or a list of `Prediction`s for a list of inputs.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings, or a setting is
                unknown.
            ValueError: If a pair is given where single texts are expected, or the reverse; or if a
                setting is out of range.
        """
        found = self.predicted(inputs, use)
        rows = zip(self._labels(found), found["probabilities"], strict=True)
        return [Prediction(label, self._named(row)) for label, row in rows]

    def predicted_columns(self, given: object) -> Mapping[str, object]:
        """Returns the types of the columns `label` (a list if an input may have several labels),
        `probability` and `probabilities`, keyed by column."""
        return {**self.predicts, "label": list[str] if self.multi_label else str}

    def cells(self, result: Prediction) -> dict[str, object]:
        """Returns a dict of `label` (a list if an input may have several labels), `probability`
        (the largest probability) and `probabilities` (a dict keyed by class)."""
        label = list(result.label) if self.multi_label else result.label
        most = max(result.probabilities.values())
        return {"label": label, "probability": most, "probabilities": result.probabilities}

    def _labels(self, found: Mapping[str, Any]) -> Labels:
        """The labels of what `run` returned."""
        names = [*self.class_names, self.unknown]
        if self.multi_label:
            return [tuple(names[i] for i in np.flatnonzero(row)) for row in found["chosen"]]
        return [names[int(i)] for i in found["label"]]

    def _named(self, row: np.ndarray) -> dict[str, float]:
        return dict(zip(self.class_names, map(float, row), strict=True))

    def explained(self, inputs: Sequence[Input], use: ClassUse) -> Any:
        """Explains predictions by the weight of each token.

        Args:
            inputs: A text, or a pair of texts as a tuple of two strings; or a list of texts or
                pairs.
            use: Settings of class `Use`.

        Returns:
            An `Explanation` for one input, or a list of `Explanation`s for a list of inputs. With
            `method="attention"`, if the model has only self-attention, an `EncoderStudy` of all
            inputs; for an `EntailmentClassifier`, `Alignment`s. `page` creates an HTML page from
            any of these results.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings, or a setting is
                unknown.
            ValueError: If a pair is given where single texts are expected, or the reverse; if
                `method` or `label` is unknown; if `label` is given and the weights are attention;
                or if `method="attention"` and the model has no attention.
        """
        use = dataclasses.replace(use, method=self.checked_method(use.method))
        if use.label is not None and use.label not in self.class_names:
            raise ValueError(
                f"`label` must be one of {list(self.class_names)}. Received: {use.label!r}."
            )
        check_label(use.label, use.method or "")
        return self.shown(inputs, use)

    def said(
        self, found: Mapping[str, Any], number: int, use: ClassUse
    ) -> tuple[str, dict[str, float]]:
        """Returns the explained class of input `number`, and the probabilities of all classes."""
        row = found["probabilities"][number]
        label = self.class_names[int(row.argmax())] if use.label is None else use.label
        return label, self._named(row)

    # The SavedModel

    def class_outputs(self) -> dict[str, OutputField]:
        """Returns the fields of the outputs that all classifiers have, keyed by output; B is the
        number of inputs, and C the number of classes.

        label          string (B,)      the most probable class, or the label for texts of no class
        chosen         bool (B, C)      instead of `label` if an input may have several labels:
                                        whether it has each label
        probabilities  float32 (B, C)   probabilities of the classes
        classes        string (B, C)    names of the classes, the same in each row
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
