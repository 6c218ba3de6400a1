"""Scores of pairs of texts, and vectors of texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import METHODS
from keras_attn.fields import ODD_TEXTS
from keras_attn.inputs import listed
from keras_attn.metrics import CorrelationReport, evaluate_scores
from keras_attn.records.scored_pairs import checked_scored_pairs
from keras_attn.tasks.families.encoder_task import EncoderLearned
from keras_attn.tasks.families.text_vectors import TextVectors
from keras_attn.tasks.similarity.explaining import explain_scores
from keras_attn.tasks.similarity.settings import SimilarityData, SimilarityTest, SimilarityUse

Tensor = Any
Pair = tuple[str, str]


@dataclass(frozen=True)
class SimilarityLearned(EncoderLearned):
    """What a scorer learned: its tokenizer and the range of the scores.

    Example:

    >>> SimilarityLearned(WordTokenizer.train(["a b"]), 0.0, 5.0).highest
    5.0

    Raises:
        ValueError: If `lowest` is not below `highest`, or one is not finite.
    """

    lowest: float = 0.0
    highest: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        lowest, highest = float(self.lowest), float(self.highest)
        object.__setattr__(self, "lowest", lowest)
        object.__setattr__(self, "highest", highest)
        if not (math.isfinite(lowest) and math.isfinite(highest) and lowest < highest):
            raise ValueError(
                "`lowest` must be below `highest`, both finite. Received: "
                f"lowest={lowest}, highest={highest}."
            )


class SimilarityPredictions(TextVectors):
    """The predictions of similarity: a base class of `SimilarityScorer`."""

    data: SimilarityData
    learned: SimilarityLearned

    @property
    def kind(self) -> str:
        """`"bi"` or `"cross"`."""
        return self.data.kind

    @property
    def lowest(self) -> float:
        """Score of texts that have nothing in common."""
        return self.learned.lowest

    @property
    def highest(self) -> float:
        """Score of texts that say the same."""
        return self.learned.highest

    def predict(
        self, pairs: Pair | Iterable[Pair], batch_size: int = SimilarityUse.batch_size
    ) -> Any:
        """Says how similar two texts are.

        Args:
            pairs: A tuple of two strings, or a list of them.
            batch_size: Texts computed at a time.

        Returns:
            A number for a pair, a list of them for a list; as large as the scores that were learnt
            from. Some may be a little below the lowest or above the highest of these.

        Raises:
            TypeError: If an input is not a pair of strings.
        """
        one = isinstance(pairs, tuple)
        found = self._scores(_checked([pairs] if one else pairs), batch_size).tolist()
        return found[0] if one else found

    def _scores(self, pairs: Sequence[Pair], batch_size: int) -> np.ndarray:
        firsts, seconds = ([pair[side] for pair in pairs] for side in (0, 1))
        if self.kind == "bi":
            texts = list(dict.fromkeys([*firsts, *seconds]))  # each text once
            place = {text: i for i, text in enumerate(texts)}
            vectors = self.embed(texts, batch_size, normalize=True)
            one, two = (vectors[[place[text] for text in side]] for side in (firsts, seconds))
            shares = (one * two).sum(axis=1)
        else:
            rows = self.field.rows(*map(self.tokenizer.encode, (firsts, seconds)))
            found = self.compute(rows, batch_size, self.shares)
            shares = np.array([row["share"] for row in found], "float32").reshape(-1)
        return self.lowest + shares.astype("float64") * (self.highest - self.lowest)

    def shares(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes the similarity of pairs that are read at once, 0 to 1, on every backend.

        Args:
            inputs: What `encoded` returns.
        """
        return {"share": self.logits(inputs)["classes"][:, 0]}

    def check_embeds(self) -> None:
        """Raises a ValueError if the task has no vectors of single texts."""
        if self.kind != "bi":
            raise ValueError(
                "Vectors of texts are of kind='bi', which reads each text alone. Received: "
                f"kind={self.kind!r}, which reads both texts at once."
            )

    def evaluate(
        self,
        examples: Iterable[Any],
        batch_size: int = SimilarityUse.batch_size,
        num_bootstrap: int = SimilarityTest.num_bootstrap,
        seed: int = 0,
    ) -> CorrelationReport:
        """Measures how well the scores agree with those of examples.

        Args:
            examples: `ScoredPair`s, or tuples ((first, second), score).
            batch_size: Texts computed at a time.
            num_bootstrap: Samples for the intervals; 0 computes none.
            seed: Seed of these samples.

        Returns:
            A `CorrelationReport`: Pearson's and Spearman's correlation. `print` shows it.

        Raises:
            ValueError: If an example is something else, or there is none.
        """
        checked = checked_scored_pairs(examples)
        found = self._scores([(x.first, x.second) for x in checked], batch_size)
        return evaluate_scores([x.score for x in checked], found, num_bootstrap, seed)

    def explain(
        self,
        pairs: Pair | Iterable[Pair],
        method: str = SimilarityUse.method,
        batch_size: int = SimilarityUse.batch_size,
    ) -> EncoderStudy | Explanation | list[Explanation]:
        """Shows which words made two texts similar, or what each head of the encoder looks at.

        Args:
            pairs: A tuple of two strings, or a list of them.
            method: `"gradient"` for gradient times input of the score; `"attention"` for what the
                heads look at, in each text alone or in both together, as the scorer reads them.
            batch_size: Texts computed at a time.

        Returns:
            For `"gradient"` an `Explanation` of a tuple, or a list of them: both texts with a
            weight for each word, in the units of the scores. A word above 0 makes the score
            greater. For `"attention"` an `EncoderStudy`. Its `html()` is a page.

        Raises:
            TypeError: If an input is not a pair of strings.
            ValueError: If the method is unknown.
        """
        one = isinstance(pairs, tuple)
        given = _checked([pairs] if one else pairs)
        if method not in METHODS:
            raise ValueError(f"`method` must be one of {list(METHODS)}. Received: {method!r}.")
        if method == "attention":
            texts = list(dict.fromkeys(text for pair in given for text in pair))
            return study_texts(self.model, self.field, texts if self.kind == "bi" else given)
        scores, spread = self._scores(given, batch_size).tolist(), self.highest - self.lowest
        together = self.kind == "cross"
        found = explain_scores(self, given, scores, batch_size, together, spread)
        return found[0] if one else found

    page = staticmethod(explained_page)

    @staticmethod
    def readable(result: float) -> str:
        """Returns a score as the command writes it."""
        return f"{result:.4f}"

    def export_examples(self) -> dict[str, Any]:
        """Returns odd texts beside ordinary ones."""
        return {"text": ODD_TEXTS, "second": ODD_TEXTS[3:] + ODD_TEXTS[:3]}

    def expected(
        self, examples: Mapping[str, Any], use: SimilarityUse
    ) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        texts, seconds = examples["text"], examples["second"]
        scores = self.predict(list(zip(texts, seconds, strict=True)))
        found = {"serving_default": {"score": np.array(scores, "float32")}}
        if self.kind == "bi":
            found["embed"] = {"vectors": self.embed(texts, normalize=use.normalize)}
        return found

    def serve(self, tf: Any, use: SimilarityUse) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel.

        `serving_default` takes `text: string (B,)` and `second: string (B,)`, and gives
        `score: float32 (B,)`. If texts are read alone, `embed` takes `text`, and gives
        `vectors: float32 (B, D)`.
        """
        encode, modules = self.field.to_graph(tf)
        lowest, spread = self.lowest, self.highest - self.lowest

        def embed(text):
            function = self.unit_vectors if use.normalize else self.vectors
            return function(self.encoded(*encode(text)))

        def compare(text, second):
            one, two = (
                self.unit_vectors(self.encoded(*encode(x)))["vectors"] for x in (text, second)
            )
            return {"score": lowest + tf.reduce_sum(one * two, axis=-1) * spread}

        def read(text, second):
            return {
                "score": lowest + self.shares(self.encoded(*encode(text, second)))["share"] * spread
            }

        if self.kind == "bi":
            return {"serving_default": compare, "embed": embed}, modules
        return {"serving_default": read}, modules


def _checked(pairs: Any) -> list[Pair]:
    found = []
    for i, pair in enumerate(listed(pairs, "pairs of strings", 2)):
        parts = list(pair) if isinstance(pair, tuple | list) else []
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"Expected pairs of strings. Received: {pair!r:.100} at position {i}.")
        found.append((parts[0], parts[1]))
    return found
