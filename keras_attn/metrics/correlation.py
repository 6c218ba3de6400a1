"""Correlation of predicted and true scores, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.reports import Estimate, Report, interval_of


@dataclass(frozen=True)
class CorrelationReport(Report):
    """Correlations of predicted and true scores. `print` shows a table.

    Example:

    >>> print(CorrelationReport(Estimate(0.9, 0.8, 0.95), Estimate(0.5), 20))
    20 examples
    Pearson   0.9000 (0.8000 to 0.9500)
    Spearman  0.5000
    """

    pearson: Estimate
    """Pearson's correlation; NaN if the predicted or the true scores are constant."""
    spearman: Estimate
    """Spearman's correlation, which uses ranks; NaN if the predicted or the true scores are
    constant."""
    num_examples: int
    """Number of examples."""

    def __str__(self) -> str:
        told = [
            "undefined, as all scores are the same" if math.isnan(found.value) else str(found)
            for found in (self.pearson, self.spearman)
        ]
        return f"{self.num_examples:,} examples\nPearson   {told[0]}\nSpearman  {told[1]}"

    def to_dict(self) -> dict[str, object]:
        """Returns `num_examples`, `pearson` and `spearman` as a dict for JSON.

        `pearson` and `spearman` are dicts with `value` (None for NaN) and `interval` (a list of two
        numbers, or None).
        """
        return {"num_examples": self.num_examples, **super().to_dict()}


def pearson(true: ArrayLike, found: ArrayLike) -> float:
    """Computes Pearson's correlation coefficient.

        r = sum (x - mean x) (y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2)

    Args:
        true: True numbers x, `(n,)`.
        found: Predicted numbers y, `(n,)`.

    Returns:
        A number from -1 to 1; NaN if either input is constant or empty.

    Example:

    >>> round(pearson([1, 2, 3], [2, 4, 6]), 6)
    1.0
    """
    x, y = (np.asarray(side, "float64") for side in (true, found))
    if not len(x) or x.min() == x.max() or y.min() == y.max():
        return math.nan
    x, y = _centred(x), _centred(y)
    spread = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / spread if spread > 0 else math.nan


def _centred(numbers: np.ndarray) -> np.ndarray:
    """The differences from the mean, scaled."""
    scaled = _scaled(numbers)
    return _scaled(scaled - scaled.mean())


def _scaled(numbers: np.ndarray) -> np.ndarray:
    """The numbers times a power of two, so that the largest is near 1 and no square overflows."""
    return np.ldexp(numbers, -np.frexp(np.abs(numbers).max())[1])


def spearman(true: ArrayLike, found: ArrayLike) -> float:
    """Computes Spearman's correlation coefficient: Pearson's coefficient of the ranks.

    Equal numbers get their mean rank.

    Args:
        true: True numbers `(n,)`.
        found: Predicted numbers `(n,)`.

    Returns:
        A number from -1 to 1; NaN if either input is constant or empty.

    Example:

    >>> round(spearman([1, 2, 3], [10, 20, 1000]), 6)
    1.0
    """
    return pearson(average_ranks(true), average_ranks(found))


def average_ranks(values: ArrayLike) -> np.ndarray:
    """Computes the ranks of numbers, from 1; equal numbers get their mean rank.

    Args:
        values: Numbers `(n,)`.

    Returns:
        The ranks, float64 `(n,)`.

    Example:

    >>> average_ranks([0.5, 0.1, 0.5]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which.reshape(-1)]


def evaluate_scores(
    true: ArrayLike, found: ArrayLike, num_bootstrap: int = 1000, seed: int = 0
) -> CorrelationReport:
    """Computes Pearson's and Spearman's correlations of predicted and true scores, with intervals.

    Args:
        true: True scores `(n,)`, such as human ratings.
        found: Predicted scores `(n,)`.
        num_bootstrap: Number of bootstrap samples of the examples; 0 for no intervals.
        seed: Seed of the bootstrap samples.

    Returns:
        A `CorrelationReport`.

    Raises:
        ValueError: If the inputs are not one-dimensional, differ in length, are empty, or contain a
            number that is not finite.

    Example:

    >>> report = evaluate_scores([0, 1, 2, 5], [0.1, 0.4, 0.3, 0.9], num_bootstrap=0)
    >>> print(report)
    4 examples
    Pearson   0.9521
    Spearman  0.8000
    """
    x, y = (np.asarray(side, "float64") for side in (true, found))
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise ValueError(
            "Expected as many scores on both sides, and at least one. Received: shapes "
            f"{x.shape} and {y.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("Expected finite scores. Received: NaN or infinity.")
    rng = np.random.default_rng(seed)
    samples = [rng.integers(len(x), size=len(x)) for _ in range(num_bootstrap)]

    def estimate(measure: Callable[[np.ndarray, np.ndarray], float]) -> Estimate:
        interval = interval_of([measure(x[rows], y[rows]) for rows in samples])
        return Estimate(measure(x, y), *(interval or ()))

    return CorrelationReport(estimate(pearson), estimate(spearman), len(x))
