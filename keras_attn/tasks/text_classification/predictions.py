"""Classes of texts, how good they are, and what decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn.fields import checked_texts
from keras_attn.metrics import ClassificationReport, evaluate_probabilities, fit_temperature
from keras_attn.tasks.text_classification.labels import (
    Labelled,
)
from keras_attn.tasks.text_classification.settings import (
    TextClassificationTest,
    TextClassificationUse,
)

TEMPERATURES = (0.2, 10.0)


class Prediction(NamedTuple):
    """What a classifier says of a text.

    Example:

    >>> Prediction("good", {"bad": 0.25, "good": 0.75}).label
    'good'
    """

    label: str | tuple[str, ...]
    """Name of the most probable class; with several labels the names of those above a half."""
    probabilities: dict[str, float]
    """Probability of each class."""


class TextClassificationPredictions:
    """The predictions of a text classifier: a base class of `TextClassifier`."""

    tokenizer: Any
    class_names: list[str]
    max_length: int
    truncation: str
    multi_label: bool
    temperature: float
    model: keras.Model

    def predict_logits(
        self, texts: str | Iterable[str], batch_size: int = TextClassificationUse.batch_size
    ) -> np.ndarray:
        """Computes the logits of texts.

        Args:
            texts: Strings; one string is a list of one.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`.

        Raises:
            TypeError: If an input is not a string.
        """
        texts = checked_texts([texts] if isinstance(texts, str) else texts)
        return self.logits_of_ids(self.tokenizer.encode(texts), batch_size)

    def logits_of_ids(
        self, ids: Sequence[Sequence[int]], batch_size: int = TextClassificationUse.batch_size
    ) -> np.ndarray:
        """Computes the logits of tokenised texts, as `predict_logits` does.

        Args:
            ids: The ids of each text.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`.
        """
        if not len(ids):
            return np.zeros((0, len(self.class_names)), "float32")
        batches = self.id_batches(ids, batch_size=batch_size, shuffle=False)
        found = [np.asarray(self._logits(rows, 1), "float32") for (rows,) in batches]
        return batches.restore(np.concatenate(found))

    def probabilities_of_logits(self, logits: Any) -> np.ndarray:
        """Makes probabilities of logits, at the temperature that `calibrate` found.

        Args:
            logits: `(n, C)`.

        Returns:
            float32 `(n, C)`; rows sum to 1, unless a text may have several labels.
        """
        logits = np.asarray(logits, "float64") / self.temperature
        if self.multi_label:
            return (0.5 * (1 + np.tanh(0.5 * logits))).astype("float32")
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)).astype("float32")

    def predict_probabilities(
        self, texts: str | Iterable[str], batch_size: int = TextClassificationUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of the classes.

        Args:
            texts: Strings; one string is a list of one.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`, in the order of `class_names`.

        Raises:
            TypeError: If an input is not a string.
        """
        return self.probabilities_of_logits(self.predict_logits(texts, batch_size))

    def predict(
        self, texts: str | Iterable[str], batch_size: int = TextClassificationUse.batch_size
    ) -> Any:
        """Classifies texts.

        Args:
            texts: A string, or several.
            batch_size: Texts computed at a time.

        Returns:
            A `Prediction` for a string, a list of them for several.

        Raises:
            TypeError: If an input is not a string.
        """
        found = [self._prediction(row) for row in self.predict_probabilities(texts, batch_size)]
        return found[0] if isinstance(texts, str) else found

    def _prediction(self, row: np.ndarray) -> Prediction:
        names = self.class_names
        label: Any = names[int(row.argmax())]
        if self.multi_label:
            label = tuple(name for name, p in zip(names, row, strict=True) if p >= 0.5)
        return Prediction(label, dict(zip(names, map(float, row), strict=True)))

    def evaluate(
        self,
        examples: Iterable[Labelled],
        batch_size: int = TextClassificationUse.batch_size,
        num_bootstrap: int = TextClassificationTest.num_bootstrap,
        seed: int = 0,
    ) -> ClassificationReport:
        """Measures the classifier on labelled texts.

        Args:
            examples: `LabelledText`s or (text, label) pairs.
            batch_size: Texts computed at a time.
            num_bootstrap: Samples for the intervals; 0: none.
            seed: Seed of these samples.

        Returns:
            A `ClassificationReport`: accuracy, macro F1, AUC, log loss, expected calibration error
            and confusion matrix, with 95 % intervals. `print` shows it.

        Raises:
            ValueError: If a label is not among the classes.
        """
        texts, labels = self._split(examples)
        found = self.predict_probabilities(texts, batch_size)
        return evaluate_probabilities(labels, found, self.class_names, num_bootstrap, seed)

    def explain(
        self,
        texts: str | Iterable[str],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> Any:
        """Says how much each token weighed in what the model says of a text.

        Args:
            texts: A string, or several.
            method: `"attention"`: the model's own weights, which say where it looked.
                `"gradient"`: gradient times input, which says what spoke for the class and what
                against it. Attention, where the model has it, if None.
            label: Name of the class whose gradients are computed; the most probable one if None.
            batch_size: Texts computed at a time.

        Returns:
            An `Explanation` for a string, a list of them for several, of the tokens that the model
            read: what `max_length` cuts off is not among them.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the method or label is unknown, or the model has no attention.
        """
        one = isinstance(texts, str)
        texts = checked_texts([texts] if one else texts)
        found = self._explainer.explain(texts, method, label, batch_size)
        return found[0] if one else found

    def explain_ids(
        self,
        ids: Sequence[Sequence[int]],
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Computes logits and the weights of tokens, of tokenised texts.

        Args:
            ids: The ids of each text.
            method: As in `explain`.
            label: As in `explain`.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`, and for each text the weights of its tokens, as many as are kept.

        Raises:
            ValueError: As in `explain`.
        """
        return self._explainer.explain_ids(ids, method, label, batch_size)

    def calibrate(
        self, examples: Iterable[Labelled], batch_size: int = TextClassificationUse.batch_size
    ) -> float:
        """Sets the temperature that makes the probabilities most believable.

        Args:
            examples: Labelled texts that were not trained on, and are no test.
            batch_size: Texts computed at a time.

        Returns:
            The temperature, from 0.2 to 10; above 1 the model was too certain. A value at either
            end tells of too few examples (all of them right: the more certain the better), not of
            the model. No label changes by it.
        """
        texts, labels = self._split(examples)
        found = fit_temperature(self.predict_logits(texts, batch_size), labels)
        self.temperature = float(np.clip(found, *TEMPERATURES))
        return self.temperature
