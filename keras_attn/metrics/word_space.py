"""Word vectors: neighbors, sums and differences, analogies, and agreement with ratings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.correlation import spearman
from keras_attn.metrics.reports import Report, json_safe

_AT_A_TIME = 512
_EQUAL = 1e-6  # cosines that differ by less are equal, except for rounding


class Neighbour(NamedTuple):
    """A word and its cosine similarity to a query.

    Example:

    >>> Neighbour("dog", 0.8).word
    'dog'
    """

    word: str
    similarity: float
    """The cosine similarity."""


@dataclass(frozen=True)
class AnalogyReport(Report):
    """Scores of analogies "a is to b as c is to ...?". `print` shows a table.

    Example:

    >>> print(AnalogyReport({"family": (3, 4), "gram2-opposite": (0, 1)}, 2))
    60.00 % of 5 questions; 2 more have a word without a vector
      75.00 % of 4  family
       0.00 % of 1  gram2-opposite
    semantic 75.00 %, syntactic 0.00 %
    """

    sections: dict[str, tuple[float, int]]
    """The number of correct answers and the number of questions, keyed by section."""
    left_out: int
    """Number of questions with a word that has no vector."""

    @property
    def questions(self) -> int:
        """Number of questions whose words all have vectors."""
        return sum(asked for _, asked in self.sections.values())

    def share(self, syntactic: bool | None = None) -> float:
        """Returns the fraction of correct answers; NaN if there are no questions.

        Args:
            syntactic: Which sections are counted. True: sections whose names begin with "gram";
                False: all other sections; None: all sections.
        """
        chosen = [
            figures
            for name, figures in self.sections.items()
            if syntactic is None or name.startswith("gram") == syntactic
        ]
        asked = sum(count for _, count in chosen)
        return sum(right for right, _ in chosen) / asked if asked else math.nan

    def __str__(self) -> str:
        rows = [
            f"  {right / asked:8.2%} of {asked:,}  {name}".replace("%", " %")
            for name, (right, asked) in self.sections.items()
            if asked
        ]
        kinds = (("semantic", False), ("syntactic", True))
        return "\n".join(
            [
                f"{100 * self.share():.2f} % of {self.questions:,} questions; {self.left_out:,} "
                "more have a word without a vector",
                *rows,
                ", ".join(f"{name} {100 * self.share(kind):.2f} %" for name, kind in kinds),
            ]
        )

    def to_dict(self) -> dict[str, object]:
        """Returns all scores as a dict for JSON, with None for NaN.

        The keys are `all`, `semantic`, `syntactic`, `questions`, `left_out` and `sections`, a dict
        of lists `[right, asked]`.
        """
        shares = {"all": self.share(), "semantic": self.share(False), "syntactic": self.share(True)}
        return {
            **{name: json_safe(value) for name, value in shares.items()},
            "questions": self.questions,
            "left_out": self.left_out,
            "sections": {name: list(figures) for name, figures in self.sections.items()},
        }


@dataclass(frozen=True)
class WordPairReport(Report):
    """Correlation between the cosine similarities of word pairs and human ratings.

    Example:

    >>> print(WordPairReport(0.5, 20, 3))
    Spearman 0.5000 over 20 pairs; 3 more have a word without a vector
    """

    spearman: float
    """Spearman's correlation; NaN if there are fewer than two pairs."""
    pairs: int
    """Number of pairs that were compared."""
    left_out: int
    """Number of pairs with a word that has no vector."""

    def __str__(self) -> str:
        return (
            f"Spearman {self.spearman:.4f} over {self.pairs:,} pairs; {self.left_out:,} more have "
            "a word without a vector"
        )


class EmbeddingsReport(NamedTuple):
    """Scores of word embeddings. `print` shows them.

    Example:

    >>> print(EmbeddingsReport(None, {"wordsim353.tsv": WordPairReport(0.5, 20, 3)}))
    wordsim353.tsv: Spearman 0.5000 over 20 pairs; 3 more have a word without a vector
    """

    analogies: AnalogyReport | None
    """Scores of analogies; None if there were no questions."""
    pairs: dict[str, WordPairReport]
    """Scores of word pairs, keyed by file name."""

    def __str__(self) -> str:
        lines = [] if self.analogies is None else [f"Analogies: {self.analogies}"]
        return "\n".join([*lines, *(f"{name}: {found}" for name, found in self.pairs.items())])

    def to_dict(self) -> dict[str, object]:
        """Returns a dict for JSON: the scores of word pairs, keyed by file name, and `analogies`.

        `analogies` are the scores of analogies; the key is missing if there were no questions.
        """
        found: dict[str, object] = {name: x.to_dict() for name, x in self.pairs.items()}
        return found if self.analogies is None else {"analogies": self.analogies.to_dict(), **found}


class WordSpace:
    """Words with vectors, compared by cosine similarity.

    If a word has no vector, its lower-case form is looked up.

    Args:
        words: The N words, all different, the most frequent first.
        vectors: The vectors of the words, `(N, D)`.

    Raises:
        ValueError: If `vectors` is not an array `(N, D)` for the N words.

    Example:

    >>> space = WordSpace(["king", "queen", "man", "woman"], [[2, 1], [2, -1], [1, 1], [1, -1]])
    >>> space.nearest(["king", "woman"], ["man"], top_k=1)[0].word
    'queen'
    """

    def __init__(self, words: Sequence[str], vectors: ArrayLike):
        vectors = np.asarray(vectors, "float32")
        if vectors.ndim != 2 or len(vectors) != len(words):
            raise ValueError(
                f"Expected a vector for each of the {len(words)} words, an array (N, D). "
                f"Received: shape {vectors.shape}."
            )
        self.words = list(words)
        lengths = np.sqrt(np.square(vectors, dtype="float64").sum(axis=1, keepdims=True))
        self.units = (vectors / np.where(lengths > 0, lengths, 1.0)).astype("float32")
        """The vectors, scaled to length 1."""
        self._places = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def place(self, word: str) -> int | None:
        """Returns the index of a word or of its lower-case form; None if neither has a vector.

        Args:
            word: The word.
        """
        found = self._places.get(word)
        return self._places.get(word.lower()) if found is None else found

    def first(self, count: int) -> WordSpace:
        """Returns a `WordSpace` of only the first, most frequent words.

        Args:
            count: Number of words. If it is 0 or not less than the number of words, the `WordSpace`
                itself is returned.
        """
        if not count or count >= len(self):
            return self
        space = WordSpace.__new__(WordSpace)
        space.words, space.units = self.words[:count], self.units[:count]
        space._places = {word: i for i, word in enumerate(space.words)}
        return space

    def nearest(
        self, plus: str | Sequence[str], minus: str | Sequence[str] = (), top_k: int = 10
    ) -> list[Neighbour]:
        """Finds the words nearest to a word, or to sums and differences of words.

            cos(v, sum_i u_i - sum_j u_j)

        v is the vector of a word; u_i and u_j are the vectors of the words in `plus` and `minus`,
        scaled to length 1.

        Args:
            plus: One or several words that are added.
            minus: Words that are subtracted.
            top_k: Maximum number of words.

        Returns:
            A list of `Neighbour`s without the given words, the nearest first.

        Raises:
            ValueError: If a word has no vector, no word is given, or `top_k` is less than 1.

        Example:

        >>> space = WordSpace(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
        >>> [neighbour.word for neighbour in space.nearest("a")]
        ['b', 'c']
        """
        plus, minus = ([x] if isinstance(x, str) else list(x) for x in (plus, minus))
        if not plus + minus or top_k < 1:
            raise ValueError(
                "Expected at least one word, and `top_k` of at least 1. Received: words "
                f"{plus + minus}, top_k={top_k}."
            )
        places = [self._known(word) for word in (*plus, *minus)]
        signs = np.array([1.0] * len(plus) + [-1.0] * len(minus), "float32")
        return self.near(signs @ self.units[places], top_k, places)

    def near(
        self, vector: ArrayLike, top_k: int = 10, without: Iterable[int] = ()
    ) -> list[Neighbour]:
        """Finds the words nearest to a vector.

        Args:
            vector: The vector `(D,)`.
            top_k: Maximum number of words.
            without: Indices of words that are left out.

        Returns:
            A list of `Neighbour`s, the nearest first.
        """
        vector = np.asarray(vector, "float32")
        cosines = self.units @ (vector / max(float(np.sqrt(vector @ vector)), 1e-12))
        left_out = list(set(without))
        cosines[left_out] = -np.inf
        top_k = min(top_k, len(self) - len(left_out))
        best = np.argpartition(-cosines, min(top_k, len(self) - 1))[:top_k]
        best = best[np.lexsort((best, -cosines[best]))]
        return [Neighbour(self.words[i], float(cosines[i])) for i in best]

    def _known(self, word: str) -> int:
        place = self.place(word)
        if place is None:
            raise ValueError(
                f"Expected words with vectors. Received: {word!r}, which is not in the "
                f"vocabulary of {len(self):,} words."
            )
        return place

    def analogies(
        self, questions: Mapping[str, Sequence[tuple[str, str, str, str]]], first: int = 30_000
    ) -> AnalogyReport:
        """Answers questions "a is to b as c is to ...?" and counts correct answers (3CosAdd).

            answer = argmax_w cos(w, b - a + c)       without a, b and c

        In the formula, words stand for their vectors, scaled to length 1. An answer is correct if
        it is d, the fourth word of the question. If n words are equally near (for example because
        their vectors are equal) and d is one of them, the answer counts 1 / n. Questions with a
        word that has no vector are left out.

        References:
            - [Mikolov et al., 2013](https://aclanthology.org/N13-1090).

        Args:
            questions: Tuples (a, b, c, d) keyed by section, as returned by
                `keras_attn.records.read_analogies`.
            first: Number of most frequent words to which questions and answers are restricted; 0
                for no restriction.

        Returns:
            An `AnalogyReport`.

        Example:

        >>> vectors = [[2, 1], [2, -1], [1, 1], [1, -1], [-1, 0]]
        >>> space = WordSpace(["king", "queen", "man", "woman", "it"], vectors)
        >>> space.analogies({"family": [("man", "woman", "king", "queen")]}).share()
        1.0
        """
        space = self.first(first)
        sections: dict[str, tuple[float, int]] = {}
        left_out = 0
        for name, rows in questions.items():
            found = [[space.place(word) for word in row] for row in rows]
            known = np.array([row for row in found if None not in row], int).reshape(-1, 4)
            left_out += len(found) - len(known)
            right = 0.0
            for i in range(0, len(known), _AT_A_TIME):
                a, b, c, d = known[i : i + _AT_A_TIME].T
                wanted = space.units[b] - space.units[a] + space.units[c]
                cosines = wanted @ space.units.T
                cosines[np.arange(len(a))[:, None], np.stack([a, b, c], axis=1)] = -np.inf
                nearest = cosines >= cosines.max(axis=1, keepdims=True) - _EQUAL
                right += float((nearest[np.arange(len(d)), d] / nearest.sum(axis=1)).sum())
            sections[name] = (right, len(known))
        return AnalogyReport(sections, left_out)

    def word_pairs(self, pairs: Sequence[tuple[str, str, float]]) -> WordPairReport:
        """Computes Spearman's correlation between the scores of word pairs and their cosines.

        Pairs with a word that has no vector are left out.

        Args:
            pairs: Tuples of two words and a score, such as a human rating of their similarity, as
                returned by `keras_attn.records.read_word_pairs`.

        Returns:
            A `WordPairReport`.

        Example:

        >>> space = WordSpace(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
        >>> report = space.word_pairs([("a", "b", 9.0), ("a", "c", 1.0), ("a", "x", 5.0)])
        >>> round(report.spearman, 6), report.pairs, report.left_out
        (1.0, 2, 1)
        """
        found = [(self.place(a), self.place(b), score) for a, b, score in pairs]
        known = [row for row in found if None not in row[:2]]
        cosines = [float(self.units[a] @ self.units[b]) for a, b, _ in known]
        value = spearman([row[2] for row in known], cosines) if len(known) > 1 else math.nan
        return WordPairReport(value, len(known), len(found) - len(known))
