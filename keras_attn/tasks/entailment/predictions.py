"""What one text says of another, how well that is told, and which words were compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_attn.batches.pair_batches import PairBatches
from keras_attn.explain import Alignment
from keras_attn.explain.methods import METHODS, check_label
from keras_attn.generation import CompiledFunction
from keras_attn.layers import AdditiveAttention
from keras_attn.layers.collect import traced_attention
from keras_attn.metrics import ClassificationReport, evaluate_probabilities, fit_temperature
from keras_attn.progress import report
from keras_attn.tasks.base.checks import checked_temperature
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.entailment.data import LabelledPair, checked_pairs
from keras_attn.tasks.entailment.explaining import PairExplainer
from keras_attn.tasks.entailment.settings import EntailmentData, EntailmentTest, EntailmentUse
from keras_attn.tasks.text_classification.labels import checked_class_names, label_numbers
from keras_attn.tasks.text_classification.predictions import Prediction
from keras_attn.text import WordTokenizer
from keras_attn.visualize.display import percent

TEMPERATURES = (0.2, 10.0)
WHOLE = "<hypothesis>"
"""The row of an alignment of attention='last', which is of all words of the hypothesis."""

Pairs = Iterable[tuple[str, str]]


def classify_and_align(model: keras.Model, premise_ids: Any, hypothesis_ids: Any) -> tuple:
    """Computes logits and the attention to the premise, on every backend and in a graph.

    Args:
        model: A model of `PAIR_CLASSIFIERS`.
        premise_ids: `(B, S)`.
        hypothesis_ids: `(B, T)`.

    Returns:
        Logits `(B, C)` and weights `(B, T, S)`, or `(B, 1, S)` with attention="last"; only the
        logits if the model has no attention.
    """
    with traced_attention() as calls:
        logits = model(
            {"premise_ids": premise_ids, "hypothesis_ids": hypothesis_ids}, training=False
        )
    real = keras.ops.cast(
        keras.ops.expand_dims(keras.ops.not_equal(hypothesis_ids, 0), 2), "float32"
    )
    weights = [
        # Attention from words has weights in padding too; that of the last state has one row.
        keras.ops.cast(found, "float32") * (1.0 if isinstance(layer, AdditiveAttention) else real)
        for layer, _, found in calls
    ]
    return (keras.ops.cast(logits, "float32"), *weights)


@dataclass(frozen=True)
class EntailmentLearned(Learned):
    """What a classifier of entailment learned.

    Example:

    >>> EntailmentLearned(WordTokenizer.train(["a b"]), ("no", "yes")).temperature
    1.0

    Raises:
        TypeError: If the tokenizer is of another class.
        ValueError: If there are fewer than two classes, a name comes twice, or the temperature is
            not above 0.
    """

    tokenizer: WordTokenizer
    class_names: tuple[str, ...]
    """Names of the classes, in the order of the logits."""
    temperature: float = 1.0
    """What logits are divided by before they become probabilities."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, WordTokenizer):
            raise TypeError(
                f"`tokenizer` must be a WordTokenizer. Received: {type(self.tokenizer).__name__}."
            )
        object.__setattr__(self, "class_names", checked_class_names(self.class_names))
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))


class EntailmentPredictions(Task):
    """The predictions of a classifier of entailment: a base class of `EntailmentClassifier`."""

    Learned = EntailmentLearned
    learned: EntailmentLearned
    data: EntailmentData

    @property
    def tokenizer(self) -> WordTokenizer:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.learned.class_names

    @property
    def max_length(self) -> int:
        """Largest number of words of a text; the rest is not read."""
        return self.data.max_length

    @property
    def temperature(self) -> float:
        """What logits are divided by before they become probabilities; see `calibrate`."""
        return self.learned.temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self.relearn(temperature=temperature)

    @property
    def _aligned(self) -> CompiledFunction:
        return self.kept(
            lambda: CompiledFunction(
                lambda premises, length, hypotheses: classify_and_align(
                    self.model, premises, hypotheses
                ),
                self.model,
            ),
            "aligned",
        )

    def pair_batches(
        self,
        pairs: Sequence[tuple[str, str]],
        labels: Any = None,
        weights: Any = None,
        **settings: Any,
    ) -> PairBatches:
        """Makes batches of pairs, as the model reads them.

        Args:
            pairs: (premise, hypothesis) strings.
            labels: Numbers of classes, or None.
            weights: Weight of each pair, or None.
            **settings: As in `dataset`.

        Returns:
            `PairBatches`.
        """
        premises, hypotheses = (
            self.tokenizer.encode([pair[side] for pair in pairs]) for side in (0, 1)
        )
        settings = {"max_length": self.max_length, "pad_id": self.tokenizer.pad_id, **settings}
        return PairBatches(premises, hypotheses, labels, weights, **settings)

    def _logits_and_weights(
        self, pairs: Sequence[tuple], batch_size: int
    ) -> tuple[np.ndarray, list[Any]]:
        """Logits `(n, C)`, and the weights `(T, S)` of each pair, with padding."""
        if not len(pairs):
            return np.zeros((0, len(self.class_names)), "float32"), []
        batches = self.pair_batches(pairs, batch_size=batch_size, shuffle=False)
        found, weights = [], []
        for (inputs,) in batches:
            logits, *scores = self._aligned(inputs["premise_ids"], 1, inputs["hypothesis_ids"])
            found.append(logits)
            weights += list(scores[0]) if scores else [None] * len(logits)
            report(len(weights), len(pairs), "pairs")
        order = batches.restore(np.arange(len(weights)))
        return batches.restore(np.concatenate(found)), [weights[i] for i in order]

    def predict_logits(
        self, pairs: Pairs, batch_size: int = EntailmentUse.batch_size
    ) -> np.ndarray:
        """Computes the logits of pairs.

        Args:
            pairs: (premise, hypothesis) strings.
            batch_size: Pairs computed at a time.

        Returns:
            float32 `(n, C)`.

        Raises:
            ValueError: If an input is not a pair of strings.
        """
        return self._logits_and_weights(checked_pairs(pairs, labelled=False), batch_size)[0]

    def probabilities_of_logits(self, logits: Any) -> np.ndarray:
        """Makes probabilities of logits, at the temperature that `calibrate` found.

        Args:
            logits: `(n, C)`.

        Returns:
            float32 `(n, C)`.
        """
        logits = np.asarray(logits, "float64") / self.temperature
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True)).astype("float32")

    def predict_probabilities(
        self, pairs: Pairs, batch_size: int = EntailmentUse.batch_size
    ) -> np.ndarray:
        """Computes the probabilities of the classes.

        Args:
            pairs: (premise, hypothesis) strings.
            batch_size: Pairs computed at a time.

        Returns:
            float32 `(n, C)`, in the order of `class_names`.

        Raises:
            ValueError: If an input is not a pair of strings.
        """
        return self.probabilities_of_logits(self.predict_logits(pairs, batch_size))

    def predict(self, pairs: Any, batch_size: int = EntailmentUse.batch_size) -> Any:
        """Says of pairs what the first text says of the second.

        Args:
            pairs: A tuple (premise, hypothesis), or a list of such tuples.
            batch_size: Pairs computed at a time.

        Returns:
            A `Prediction` for a tuple, a list of them for a list.

        Raises:
            ValueError: If an input is not a pair of strings.
        """
        one = _is_one(pairs)
        rows = self.predict_probabilities([pairs] if one else pairs, batch_size)
        found = [self._prediction(row) for row in rows]
        return found[0] if one else found

    def _prediction(self, row: np.ndarray) -> Prediction:
        names = self.class_names
        return Prediction(names[int(row.argmax())], dict(zip(names, map(float, row), strict=True)))

    def explain(
        self,
        pairs: Any,
        method: str | None = None,
        label: str | None = None,
        batch_size: int = EntailmentUse.batch_size,
    ) -> Any:
        """Says which words of the premise each word of the hypothesis looked at, or which decided.

        Args:
            pairs: A tuple (premise, hypothesis), or a list of such tuples.
            method: `"attention"`: which words of the premise each word of the hypothesis attended
                to. `"gradient"`: gradient times input, which says what spoke for the class and what
                against it. If None, attention if the model has it, else the gradient.
            label: Name of the class whose gradients are computed; the most probable one if None.
            batch_size: Pairs computed at a time.

        Returns:
            For `"attention"` an `Alignment` of a tuple, a list of them for a list: the words of the
            premise are its columns, those of the hypothesis its rows, and its title has the label.
            With attention="last" there is one row, for the whole hypothesis. For `"gradient"` an
            `Explanation` of a tuple, a list of them for a list. `page` makes a page of either list.

        Raises:
            ValueError: If an input is not a pair of strings, the method or label is unknown, or the
                model has no attention.
        """
        attends = self.config.attention != "none"
        method = METHODS[0 if attends else 1] if method is None else method
        if method not in METHODS:
            raise ValueError(f"`method` must be one of {list(METHODS)}. Received: {method!r}.")
        one = _is_one(pairs)
        pairs = checked_pairs([pairs] if one else pairs, labelled=False)
        if method == "gradient":
            found = PairExplainer(self).explain(pairs, label, batch_size)
            return found[0] if one else found
        if not attends:
            raise ValueError(
                "Expected a model with attention. Received: one with attention='none', which "
                "compares no words. Give method='gradient'."
            )
        check_label(label, method)
        return self._alignments(pairs, batch_size)[0 if one else slice(None)]

    def _alignments(self, pairs: Sequence[tuple], batch_size: int) -> list[Alignment]:
        """Which words of the premise each word of the hypothesis attended to."""
        logits, weights = self._logits_and_weights(pairs, batch_size)
        words = self.words(pairs)
        found = []
        for (premise, hypothesis), scores, row in zip(
            words, weights, self.probabilities_of_logits(logits), strict=True
        ):
            rows = [WHOLE] if self.config.attention == "last" else hypothesis
            label = self.class_names[int(row.argmax())]
            found.append(
                Alignment(
                    premise,
                    rows,
                    scores[: len(rows), : len(premise)],
                    unit="word",
                    title=f"{label} {percent(float(row.max()))}",
                )
            )
        return found

    def words(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
        """Returns the words of both texts that the model reads.

        Args:
            pairs: (premise, hypothesis) strings.
        """
        sides = (self.tokenizer.words([pair[side] for pair in pairs]) for side in (0, 1))
        most = self.max_length
        return [(p[:most], h[:most]) for p, h in zip(*sides, strict=True)]

    def evaluate(
        self,
        examples: Iterable[LabelledPair],
        batch_size: int = EntailmentUse.batch_size,
        num_bootstrap: int = EntailmentTest.num_bootstrap,
        seed: int = 0,
    ) -> ClassificationReport:
        """Measures the classifier on labelled pairs.

        Args:
            examples: ((premise, hypothesis), label) tuples.
            batch_size: Pairs computed at a time.
            num_bootstrap: Samples for the intervals; 0: none.
            seed: Seed of these samples.

        Returns:
            A `ClassificationReport`: accuracy, macro F1, AUC, log loss, expected calibration error
            and confusion matrix, with 95 % intervals. `print` shows it.

        Raises:
            ValueError: If a label is not among the classes.
        """
        pairs, labels = self._split(examples)
        found = self.predict_probabilities(pairs, batch_size)
        return evaluate_probabilities(labels, found, self.class_names, num_bootstrap, seed)

    def calibrate(
        self, examples: Iterable[LabelledPair], batch_size: int = EntailmentUse.batch_size
    ) -> float:
        """Sets the temperature that makes the probabilities most believable.

        Args:
            examples: Labelled pairs that were not trained on, and are no test.
            batch_size: Pairs computed at a time.

        Returns:
            The temperature, from 0.2 to 10; above 1 the model was too certain.
        """
        pairs, labels = self._split(examples)
        found = fit_temperature(self.predict_logits(pairs, batch_size), labels)
        self.temperature = float(np.clip(found, *TEMPERATURES))
        return self.temperature

    def _split(self, examples: Iterable[LabelledPair]) -> tuple[list[tuple], np.ndarray]:
        """The pairs, and the numbers of their labels."""
        found = checked_pairs(examples, labelled=True)
        if not found:
            raise ValueError("Expected at least one labelled pair. Received: none.")
        labels = label_numbers([pair.label for pair in found], self.class_names)
        return [pair[:2] for pair in found], labels


def _is_one(pairs: Any) -> bool:
    return isinstance(pairs, tuple) and len(pairs) == 2 and all(isinstance(x, str) for x in pairs)
