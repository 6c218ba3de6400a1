"""Correlation of scores with those that people gave, with intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from keras_attn.metrics.classification import Estimate


class CorrelationReport(NamedTuple):
    """How well scores agree with true ones. `print` shows it as a table.

    Example:

    >>> print(CorrelationReport(Estimate(0.9, 0.8, 0.95), Estimate(0.5), 20))
    20 examples
    Pearson   0.9000 (0.8000 to 0.9500)
    Spearman  0.5000
    """

    pearson: Estimate
    """Correlation of the scores; NaN if one side is constant."""
    spearman: Estimate
    """Correlation of their ranks; NaN if one side is constant."""
    num_examples: int
    """Number of examples."""

    def __str__(self) -> str:
        told = [
            "undefined, as all scores are the same" if math.isnan(found.value) else str(found)
            for found in (self.pearson, self.spearman)
        ]
        return f"{self.num_examples:,} examples\nPearson   {told[0]}\nSpearman  {told[1]}"

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as a JSON-safe dict; NaN as None."""
        found: dict[str, Any] = {"num_examples": self.num_examples}
        for name in ("pearson", "spearman"):
            value, low, high = getattr(self, name)
            found[name] = {
                "value": None if math.isnan(value) else value,
                "interval": None if low is None else [low, high],
            }
        return found


def pearson(true: Any, found: Any) -> float:
    """Computes Pearson's correlation coefficient.

        r = sum (x - mean x) (y - mean y) / sqrt(sum (x - mean x)^2 sum (y - mean y)^2)

    Args:
        true: Numbers `(n,)`.
        found: Numbers `(n,)`.

    Returns:
        From -1 to 1; NaN if one side is constant.

    Example:

    >>> round(pearson([1, 2, 3], [2, 4, 6]), 6)
    1.0
    """
    x, y = (np.asarray(side, "float64") for side in (true, found))
    if not len(x) or x.min() == x.max() or y.min() == y.max():
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    spread = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return float(x @ y) / spread if spread > 0 else math.nan


def spearman(true: Any, found: Any) -> float:
    """Computes Spearman's correlation coefficient: Pearson's of the ranks.

    Equal numbers have the mean of their ranks.

    Args:
        true: Numbers `(n,)`.
        found: Numbers `(n,)`.

    Returns:
        From -1 to 1; NaN if one side is constant.

    Example:

    >>> round(spearman([1, 2, 3], [10, 20, 1000]), 6)
    1.0
    """
    return pearson(average_ranks(true), average_ranks(found))


def average_ranks(values: Any) -> np.ndarray:
    """Ranks numbers from 1, equal ones by the mean of their ranks.

    Args:
        values: Numbers `(n,)`.

    Returns:
        float64 `(n,)`.

    Example:

    >>> average_ranks([0.5, 0.1, 0.5]).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[which.reshape(-1)]


def evaluate_scores(
    true: Any, found: Any, num_bootstrap: int = 1000, seed: int = 0
) -> CorrelationReport:
    """Measures how well scores agree with true ones.

    Args:
        true: Numbers `(n,)`, such as those that people gave.
        found: Numbers `(n,)`.
        num_bootstrap: Samples of the examples for the 95 % intervals; 0 computes none.
        seed: Seed of these samples.

    Returns:
        A `CorrelationReport`.

    Raises:
        ValueError: If the sides differ in length, are empty or not finite.

    Example:

    >>> report = evaluate_scores([0, 1, 2, 5], [0.1, 0.4, 0.3, 0.9], num_bootstrap=0)
    >>> print(report)
    4 examples
    Pearson   0.9521
    Spearman  0.8000
    """
    true, found = (np.asarray(side, "float64") for side in (true, found))
    if true.ndim != 1 or true.shape != found.shape or not len(true):
        raise ValueError(
            "Expected as many scores on both sides, and at least one. Received: shapes "
            f"{true.shape} and {found.shape}."
        )
    if not (np.isfinite(true).all() and np.isfinite(found).all()):
        raise ValueError("Expected finite scores. Received: NaN or infinity.")
    rng = np.random.default_rng(seed)
    samples = [rng.integers(len(true), size=len(true)) for _ in range(num_bootstrap)]
    figures = []
    for measure in (pearson, spearman):
        spread = np.array([measure(true[rows], found[rows]) for rows in samples])
        spread = spread[np.isfinite(spread)]
        interval = np.quantile(spread, [0.025, 0.975]).tolist() if len(spread) else ()
        figures.append(Estimate(measure(true, found), *interval))
    return CorrelationReport(figures[0], figures[1], len(true))
