"""Scores of pairs of texts, and vectors of texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attn.arrays import Array, ArrayModule, unit_length
from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import METHODS
from keras_attn.fields import ODD_TEXTS, Numbers, SeparateTexts, Signature, TextRows
from keras_attn.inputs import listed
from keras_attn.metrics import CorrelationReport, evaluate_scores
from keras_attn.records.scored_pairs import checked_scored_pairs
from keras_attn.tasks.families.encoder_task import EncoderLearned
from keras_attn.tasks.families.text_vectors import TextVectors
from keras_attn.tasks.similarity.explaining import explain_scores
from keras_attn.tasks.similarity.settings import SimilarityData, SimilarityTest, SimilarityUse

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
        texts = {name: [pair[i] for pair in pairs] for i, name in enumerate(("text", "second"))}
        scores = self._computed(texts, SimilarityUse(batch_size=batch_size))["score"]
        return np.array(scores, "float64")

    def signatures(self, use: SimilarityUse) -> dict[str, Signature]:
        """Returns what the SavedModel takes and gives, by the names of its signatures.

        `serving_default` takes `text: string (B,)` and `second: string (B,)`, and gives
        `score: float32 (B,)`. If texts are read alone, `embed` takes `text`, and gives
        `vectors: float32 (B, D)`.

        Args:
            use: Settings `Use`.
        """
        alone = self.kind == "bi"
        rows = SeparateTexts(self.field) if alone else TextRows(self.field)
        found = {
            "serving_default": Signature(("text", "second"), rows, {"score": Numbers("score")})
        }
        return {**found, "embed": self.embed_signature} if alone else found

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: SimilarityUse
    ) -> dict[str, Array]:
        """Computes scores, from vectors that are read alone or from what is read of both."""
        if "classes" in tensors:
            shares = tensors["classes"][:, 0]
        else:
            units = unit_length(xp, tensors["vectors"])
            if "first" not in tensors:
                return {"vectors": units if use.normalize else tensors["vectors"]}
            first, second = (xp.take(units, tensors[x], axis=0) for x in ("first", "second"))
            shares = xp.sum(first * second, axis=-1)
        return {"score": self.lowest + shares * (self.highest - self.lowest)}

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


def _checked(pairs: Any) -> list[Pair]:
    found = []
    for i, pair in enumerate(listed(pairs, "pairs of strings", 2)):
        parts = list(pair) if isinstance(pair, tuple | list) else []
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"Expected pairs of strings. Received: {pair!r:.100} at position {i}.")
        found.append((parts[0], parts[1]))
    return found
