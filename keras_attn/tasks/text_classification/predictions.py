"""Classes of texts, how good they are, and what decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attn.fields import ODD_TEXTS
from keras_attn.generation import CompiledFunction
from keras_attn.metrics import ClassificationReport, evaluate_probabilities, fit_temperature
from keras_attn.progress import report
from keras_attn.tasks.text_classification.explainer import TextExplainer
from keras_attn.tasks.text_classification.graph import graph_function
from keras_attn.tasks.text_classification.inputs import Inputs, checked_inputs, is_one
from keras_attn.tasks.text_classification.labels import Labelled
from keras_attn.tasks.text_classification.reading import TextClassificationReading
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


class TextClassificationPredictions(TextClassificationReading):
    """The predictions of a text classifier, here and exported: a base class of `TextClassifier`."""

    @property
    def _logits(self) -> CompiledFunction:
        return self.kept(
            lambda: CompiledFunction(
                lambda ids, length: self.model(ids, training=False), self.model
            ),
            "logits",
        )

    @property
    def _explainer(self) -> TextExplainer:
        return TextExplainer(self)

    def predict_logits(
        self, texts: Inputs, batch_size: int = TextClassificationUse.batch_size
    ) -> np.ndarray:
        """Computes the logits of texts, or of pairs of texts.

        Args:
            texts: Strings, or tuples of two strings if the classifier reads pairs; a single one is
                a list of one.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings.
            ValueError: If a pair is given to a classifier of single texts, or the reverse.
        """
        return self.logits_of_ids(self.encode(checked_inputs(texts, self.pairs)), batch_size)

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
        found = []
        for index, (rows,) in enumerate(batches):
            found.append(np.asarray(self._logits(rows, 1), "float32"))
            report(min((index + 1) * batch_size, len(ids)), len(ids), "texts")
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
        self, texts: Inputs, batch_size: int = TextClassificationUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of the classes.

        Args:
            texts: As in `predict_logits`.
            batch_size: Texts computed at a time.

        Returns:
            float32 `(n, C)`, in the order of `class_names`.

        Raises:
            TypeError: As in `predict_logits`.
            ValueError: As in `predict_logits`.
        """
        return self.probabilities_of_logits(self.predict_logits(texts, batch_size))

    def predict(self, texts: Inputs, batch_size: int = TextClassificationUse.batch_size) -> Any:
        """Classifies texts, or pairs of texts.

        Args:
            texts: A string, or a tuple of two strings if the classifier reads pairs; or a list of
                them.
            batch_size: Texts computed at a time.

        Returns:
            A `Prediction` for one text or pair, a list of them for a list.

        Raises:
            TypeError: If an input is neither a string nor a pair of strings.
            ValueError: If a pair is given to a classifier of single texts, or the reverse.
        """
        found = [self._prediction(row) for row in self.predict_probabilities(texts, batch_size)]
        return found[0] if is_one(texts) else found

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
        texts: Inputs,
        method: str | None = None,
        label: str | None = None,
        batch_size: int = 32,
    ) -> Any:
        """Says how much each token weighed in what the model says of a text.

        Args:
            texts: As in `predict`.
            method: `"attention"`: the model's own weights of the tokens, which say where it looked
                or, of a Transformer whose pooling has none, what each head looks at. `"gradient"`:
                gradient times input, which says what spoke for the class and what against it. If
                None, attention if the pooling has weights, else the gradient.
            label: Name of the class whose gradients are computed; the most probable one if None.
            batch_size: Texts computed at a time.

        Returns:
            An `Explanation` for one text or pair, a list of them for a list, of the tokens that the
            model read: what `max_length` cuts off is not among them. The separator of a pair is.
            Of heads an `EncoderStudy` of all texts. `page` makes a page of either.

        Raises:
            TypeError: As in `predict`.
            ValueError: As in `predict`; and if the method or label is unknown, or the model has no
                attention.
        """
        given = checked_inputs(texts, self.pairs)
        found = self._explainer.explain(given, method, label, batch_size)
        return found[0] if is_one(texts) and isinstance(found, list) else found

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
            method: As in `explain`, without what heads look at.
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

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones."""
        if not self.pairs:
            return {"text": ODD_TEXTS}
        return {"text": ODD_TEXTS, "second": ODD_TEXTS[3:] + ODD_TEXTS[:3]}

    def expected(self, examples: Mapping[str, Any], use: str) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        texts = examples["text"]
        if self.pairs:
            texts = list(zip(texts, examples["second"], strict=True))
        explanations = self.explain(texts, use)
        width = max(len(e.tokens) for e in explanations)
        rows = len(explanations)
        found = {
            "probabilities": self.predict_probabilities(texts),
            "classes": [list(self.class_names)] * rows,
            "tokens": [[*e.tokens, *[""] * (width - len(e.tokens))] for e in explanations],
            "weights": np.array(
                [np.pad(e.weights, (0, width - len(e.weights))) for e in explanations], "float32"
            ),
        }
        if self.pairs:
            found["segments"] = np.array(
                [np.pad(e.segments, (0, width - len(e.tokens))) for e in explanations], "int32"
            )
        if not self.multi_label:
            found["label"] = [prediction.label for prediction in self.predict(texts)]
        return {"serving_default": found}

    def serve(self, tf: Any, use: str) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the function of the SavedModel, `serving_default`.

        It takes `text: string (B,)`, and of pairs also `second: string (B,)`. It gives, equal to
        what this object gives,

            label          string (B,)      the most probable class (not where there are several)
            probabilities  float32 (B, C)   of the classes
            classes        string (B, C)    their names, in each row
            tokens         string (B, S)    what the model read, `""` in padding
            weights        float32 (B, S)   of the tokens, as `explain` gives them
            segments       int32 (B, S)     of pairs: 1 for the tokens of the second text
        """
        function, tokenizer = graph_function(self, tf, use)
        return {"serving_default": function}, [tokenizer]
