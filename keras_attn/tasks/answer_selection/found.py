"""Answers that are found: settings of the search, candidates, and scores of a reranker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attn.arrays import greatest
from keras_attn.fields import checked_texts
from keras_attn.tasks.answer_selection.settings import AnswerSelectionUse
from keras_attn.tasks.similarity import SimilarityScorer


class FoundAnswer(NamedTuple):
    """An answer that was found.

    Example:

    >>> FoundAnswer("In Oslo.", 0.75, 3).answer
    'In Oslo.'
    """

    answer: str
    """The answer."""
    score: float
    """By vectors a cosine; by words BM25; by both from 0 to 1; after a reranker its score."""
    number: int
    """Its place among the answers of the task, or among the candidates of the question, from 0."""


def asked_texts(questions: str | Iterable[str]) -> list[str]:
    """The questions, checked; one string is a list of one."""
    return checked_texts([questions] if isinstance(questions, str) else questions)


def search_use(**given: Any) -> AnswerSelectionUse:
    """Settings of a search, checked; of a reranker that is an object its class stands there."""
    if isinstance(given.get("reranker"), SimilarityScorer):
        given["reranker"] = SimilarityScorer.__name__
    return AnswerSelectionUse(**given)


def checked_candidates(given: Any, count: int) -> list[list[str]]:
    """The candidates of each of so many questions, checked."""
    found = [[own] if isinstance(own, str) else checked_texts(own) for own in given]
    if len(found) != count or not all(found):
        raise ValueError(
            "Expected one candidate or more for each question. Received: "
            f"{len(found)} lists for {count} questions, {sum(not own for own in found)} of them "
            "empty."
        )
    return found


def reranked(
    reranker: SimilarityScorer,
    question: str,
    answers: Sequence[str],
    scores: np.ndarray,
    use: AnswerSelectionUse,
) -> np.ndarray:
    """New scores of the best answers; the others stay behind these, in their order."""
    first = greatest(np, scores, use.depth)
    new = np.array(
        reranker.predict([(question, answers[i]) for i in first], batch_size=use.batch_size)
    )
    behind = np.asarray(scores, "float64") - scores.max() + new.min() - 1
    behind[first] = new
    return behind
