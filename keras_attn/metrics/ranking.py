"""Scores of rankings: reciprocal rank, average precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.reports import Interval, Report, mean_interval


@dataclass(frozen=True)
class RankingReport(Report):
    """Scores of rankings, averaged over questions. `print` shows them.

    Example:

    >>> print(score_ranking([[0.1, 0.9, 0.5]], [[2]], num_bootstrap=0))
    MRR 0.500, MAP 0.500, recall at 1: 0.000, at 5: 1.000, at 10: 1.000 (1 question)
    """

    reciprocal_rank: float
    """Mean of 1 / rank of the first right candidate (MRR)."""
    average_precision: float
    """Mean average precision (MAP)."""
    recall: dict[int, float]
    """Recall at k, keyed by k: the mean fraction of the right candidates that are among the first
    k."""
    questions: int
    """Number of questions."""
    interval: Interval | None = None
    """95 % interval of the mean reciprocal rank, from bootstrap samples of the questions."""

    def __str__(self) -> str:
        low = "" if self.interval is None else " ({:.3f} to {:.3f})".format(*self.interval)
        recall = ", ".join(
            f"{'recall ' * (i == 0)}at {k}: {share:.3f}"
            for i, (k, share) in enumerate(self.recall.items())
        )
        return (
            f"MRR {self.reciprocal_rank:.3f}{low}, MAP {self.average_precision:.3f}, {recall} "
            f"({self.questions:,} question{'s' * (self.questions != 1)})"
        )

    def to_dict(self) -> dict[str, object]:
        """Returns the fields that are not None, keyed by name, as a dict for JSON.

        `recall` is a dict keyed by k as a string.
        """
        return {**super().to_dict(), "recall": {str(k): share for k, share in self.recall.items()}}


def ranks_of(scores: ArrayLike, relevant: Sequence[int]) -> np.ndarray:
    """Returns the ranks of the right candidates of a question, from 1.

    Candidates with equal scores get the ranks that are expected if their order is random, so that
    the order of the candidates has no effect. If `a` candidates have higher scores, and `g` right
    and `w` wrong candidates share a score, the i-th of these right candidates has rank
    `a + i (g + w + 1) / (g + 1)`.

    Args:
        scores: A score for each candidate; greater is better.
        relevant: Indices of the right candidates.

    Returns:
        The rank of each right candidate, float64, in ascending order.

    Raises:
        ValueError: If there is no right candidate, a right candidate has no score, or a score is
            NaN.

    Example:

    >>> ranks_of([0.2, 0.9, 0.2, 0.1], [0, 1]).tolist()
    [1.0, 2.5]
    """
    scores = np.asarray(scores, "float64")
    right = np.asarray(sorted(set(relevant)), "int64")
    valid = scores.ndim == 1 and len(right) and right[0] >= 0
    if not valid or right[-1] >= len(scores) or np.isnan(scores).any():
        raise ValueError(
            "Expected a score for each candidate, and the indices of the right candidates. "
            f"Received: scores of shape {scores.shape} and right candidates "
            f"{right.tolist()[:10]}."
        )
    own = -np.sort(-scores[right])[:, None]
    above = (scores > own).sum(axis=1)
    equal = (scores == own).sum(axis=1)
    tied = (own == own.T).sum(axis=1)
    number = np.arange(len(own)) - (own < own.T).sum(axis=1) + 1  # among the right ones
    return above + number * (equal + 1) / (tied + 1)


def score_ranking(
    scores: Sequence[ArrayLike],
    relevant: Sequence[Sequence[int]],
    at: Sequence[int] = (1, 5, 10),
    num_bootstrap: int = 1000,
    seed: int = 0,
) -> RankingReport:
    """Scores rankings of candidates by MRR, MAP and recall.

        MRR = mean_q 1 / r_1        MAP = mean_q 1 / R sum_i i / r_i
        recall at k = mean_q |{i: r_i <= k}| / R

    R is the number of right candidates of question q, and r_1 <= ... <= r_R are their ranks.

    Args:
        scores: The scores of the candidates of each question; greater is better. `ranks_of` gives
            the ranks of equal scores.
        relevant: The indices of the right candidates of each question.
        at: The values of k for the recall.
        num_bootstrap: Number of bootstrap samples of the questions; 0 for no interval.
        seed: Seed of the bootstrap samples.

    Returns:
        A `RankingReport`.

    Raises:
        ValueError: If there is no question, `scores` and `relevant` differ in length, a question
            has no right candidate, a right candidate has no score, or a score is NaN.

    Example:

    >>> report = score_ranking([[0.9, 0.1], [0.2, 0.4]], [[0], [0]], num_bootstrap=0)
    >>> report.reciprocal_rank, report.recall[1]
    (0.75, 0.5)
    """
    if not len(scores) or len(scores) != len(relevant):
        raise ValueError(
            "Expected the scores of at least one question, and one list of right candidates "
            f"for each question. Received: scores of {len(scores)} questions and "
            f"{len(relevant)} lists."
        )
    ranks = [ranks_of(*row) for row in zip(scores, relevant, strict=True)]
    return score_ranks(ranks, at, num_bootstrap, seed)


def score_ranks(
    ranks: Sequence[ArrayLike],
    at: Sequence[int] = (1, 5, 10),
    num_bootstrap: int = 1000,
    seed: int = 0,
) -> RankingReport:
    """Computes the scores of `score_ranking` from the ranks of the right candidates.

    Args:
        ranks: The result of `ranks_of` for each question.
        at: The values of k for the recall.
        num_bootstrap: Number of bootstrap samples of the questions; 0 for no interval.
        seed: Seed of the bootstrap samples.

    Returns:
        A `RankingReport`.

    Raises:
        ValueError: If there is no question.

    Example:

    >>> score_ranks([[1.0], [2.0, 4.0]], num_bootstrap=0).reciprocal_rank
    0.75
    """
    if not len(ranks):
        raise ValueError("Expected the ranks of at least one question. Received: none.")
    rows = [np.asarray(row, "float64") for row in ranks]
    reciprocal = np.array([1 / row[0] for row in rows])
    precision = [float((np.arange(1, len(row) + 1) / row).mean()) for row in rows]
    return RankingReport(
        reciprocal_rank=float(reciprocal.mean()),
        average_precision=float(np.mean(precision)),
        recall={k: float(np.mean([(row <= k).mean() for row in rows])) for k in at},
        questions=len(rows),
        interval=mean_interval(reciprocal, num_bootstrap, seed),
    )
