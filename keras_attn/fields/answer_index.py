"""Search for answers by words, by vectors, or by both."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_attn.arrays import greatest
from keras_attn.fields.text import checked_texts
from keras_attn.text.word_scores import WordScores

Candidates = Sequence[Sequence[str]]
Embedder = Callable[[Sequence[str]], np.ndarray]
"""Function from n texts to their unit vectors, float32 `(n, D)`."""


class FoundAnswer(NamedTuple):
    """An answer returned by a search, with its score.

    Example:

    >>> FoundAnswer("In Oslo.", 0.75, 3).answer
    'In Oslo.'
    """

    answer: str
    """The answer."""
    score: float
    """The cosine in a search by vectors, the BM25 score in a search by words, a number from 0 to 1
    in a search by both, or the score of a reranker."""
    number: int
    """Index of the answer among the answers of the task, or among the question's candidates."""


def found_answers(answers: Sequence[str], scores: np.ndarray, count: int) -> list[FoundAnswer]:
    """Returns the `count` answers with the greatest scores, the best first."""
    numbers = greatest(np, scores, count).tolist()
    return [FoundAnswer(answers[i], float(scores[i]), i) for i in numbers]


def reranked(scores: np.ndarray, first: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Returns the scores with `new` at the indices `first`, and all other scores below them.

    The other answers keep their order.
    """
    behind = np.asarray(scores, "float64") - scores.max() + new.min() - 1
    behind[first] = new
    return behind


def checked_candidates(given: Candidates | Sequence[str], count: int) -> list[list[str]]:
    """Checks the candidates of `count` questions, and returns a list for each question."""
    if count == 1 and all(isinstance(own, str) for own in given):
        given = [[own for own in given if isinstance(own, str)]]
    found = [[own] if isinstance(own, str) else checked_texts(own) for own in given]
    if len(found) != count or not all(found):
        raise ValueError(
            f"Expected at least one candidate for each question. Received: {len(found)} "
            f"lists of candidates for {count} questions, {sum(not own for own in found)} "
            "of which are empty."
        )
    return found


class AnswerIndex:
    """An index for searching answers by their vectors, their words, or both.

    The vectors and the word index are computed when they are first needed, and then kept; only
    `read_by` discards the vectors.

    Args:
        answers: Distinct strings.
        embed: Function that is called with the list of n answers, and returns their unit vectors,
            float32 `(n, D)`.
        embed_questions: Function that is called with a list of questions, and returns their unit
            vectors; `embed` if None.

    Example:

    >>> index = AnswerIndex(["in Oslo", "in Rome"], lambda texts: np.eye(2)[: len(texts)])
    >>> [scores.tolist() for scores in index.scores(["Rome?"], "words", 0.5)][0][0]
    0.0
    """

    def __init__(
        self, answers: Iterable[str], embed: Embedder, embed_questions: Embedder | None = None
    ):
        self.answers = list(answers)
        self._embed, self._embed_questions = embed, embed_questions or embed
        self._weights = 0

    def read_by(self, weights: int) -> None:
        """Discards the vectors if the model's weights have changed since the last call.

        Args:
            weights: A number that identifies the weights of the model that `embed` calls.
        """
        if weights != self._weights:
            vars(self).pop("vectors", None)
            self._weights = weights

    @functools.cached_property
    def vectors(self) -> np.ndarray:
        """Vectors of the answers, float32 `(n, D)`."""
        return self._embed(self.answers)

    @functools.cached_property
    def words(self) -> WordScores:
        """The index of the answers' words."""
        return WordScores(self.answers)

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """The index of each answer, keyed by the answer."""
        return {answer: i for i, answer in enumerate(self.answers)}

    def searched(
        self,
        questions: Sequence[str],
        by: str,
        lexical_weight: float,
        candidates: Candidates | None = None,
    ) -> Iterator[tuple[Sequence[str], np.ndarray]]:
        """Scores the candidate answers of each question; the candidates are given as strings.

        Args:
            questions: The questions.
            by: What determines the scores: `"vectors"`, `"words"` or `"both"`, as in `scores`.
            lexical_weight: Weight of the word score with `by="both"`, from 0 to 1.
            candidates: For each question, a list of candidates, which must be among `answers`; if
                None, all answers are candidates.

        Yields:
            For each question, its n candidates and their scores, an array `(n,)`.

        Raises:
            ImportError: If `by` is not `"vectors"`, and `bm25s` is not installed.
            KeyError: If a candidate is not among `answers`.
        """
        members = None
        if candidates is not None:
            members = [np.array([self.places[text] for text in own], int) for own in candidates]
        found = self.scores(questions, by, lexical_weight, members)
        for i, scores in enumerate(found):
            yield self.answers if candidates is None else candidates[i], scores

    def scores(
        self,
        questions: Sequence[str],
        by: str,
        lexical_weight: float,
        members: Sequence[np.ndarray] | None = None,
        rows: int = 64,
    ) -> Iterator[np.ndarray]:
        """Scores the candidate answers of each question; the candidates are given as indices.

        With `by="vectors"`, the scores are cosines; with `by="words"`, BM25 scores. With
        `by="both"`, these two scores are scaled to the range from 0 to 1 for each question, and
        averaged with the weights `1 - lexical_weight` and `lexical_weight`.

        Args:
            questions: The questions.
            by: What determines the scores: `"vectors"`, `"words"` or `"both"`.
            lexical_weight: Weight of the word score with `by="both"`, from 0 to 1.
            members: For each question, an array of the indices of its candidates in `answers`; if
                None, all answers are candidates.
            rows: Number of questions that are compared with all answers at a time.

        Yields:
            For each question, the scores of its n candidates, an array `(n,)`.

        Raises:
            ImportError: If `by` is not `"vectors"`, and `bm25s` is not installed.
            ValueError: If `by` has another value.
        """
        if by not in ("vectors", "words", "both"):
            raise ValueError(f"`by` must be 'vectors', 'words' or 'both'. Received: {by!r}.")
        words = self.words if by != "vectors" else None  # says first what is not installed
        asked = self._embed_questions(questions) if by != "words" else None
        for start in range(0, len(questions), rows):
            products = None
            if asked is not None and members is None:
                products = asked[start : start + rows] @ self.vectors.T
            for i in range(start, min(start + rows, len(questions))):
                own = slice(None) if members is None else members[i]
                found = []
                if words is not None:
                    found.append(words(questions[i])[own])
                if products is not None:
                    found.append(products[i - start])
                elif asked is not None:
                    found.append(self.vectors[own] @ asked[i])
                if by == "both":
                    lexical, semantic = map(scaled, found)
                    found = [lexical_weight * lexical + (1 - lexical_weight) * semantic]
                yield found[0]


def scaled(scores: np.ndarray) -> np.ndarray:
    """Scales scores to the range from 0 to 1; if all are equal, they become 0."""
    if not len(scores):
        return scores
    lowest, spread = scores.min(), np.ptp(scores)
    return (scores - lowest) / spread if spread > 0 else np.zeros_like(scores)
