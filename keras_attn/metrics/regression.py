"""Errors of predicted numbers, beside a guess that is the same for all, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.correlation import evaluate_scores
from keras_attn.metrics.reports import Estimate, Report, draw_samples, interval_of


@dataclass(frozen=True)
class RegressionReport(Report):
    """How far predicted numbers are from the true ones. `print` shows it as a table.

    Example:

    >>> figures = map(Estimate, (0.5, 1.0, 0.9, 0.5))
    >>> print(RegressionReport(20, *figures))
    20 examples
    Mean absolute error      0.5000
    Root mean squared error  1.0000
    Pearson                  0.9000
    Spearman                 0.5000
    """

    num_examples: int
    """Number of examples."""
    mean_absolute_error: Estimate
    """The mean of |y - p|."""
    root_mean_squared_error: Estimate
    """The square root of the mean of (y - p)^2."""
    pearson: Estimate
    """Correlation of numbers and predictions; NaN if one side is constant."""
    spearman: Estimate
    """Correlation of their ranks; NaN if one side is constant."""
    guess_error: Estimate | None = None
    """The mean absolute error of one number for all examples, such as the median."""
    within: Estimate | None = None
    """The share of the numbers that are in the interval of their prediction."""
    guess: float | None = None
    """That number."""
    margin: float | None = None
    """Half of the width of the intervals."""

    def __str__(self) -> str:
        rows = {
            "Mean absolute error": self.mean_absolute_error,
            f"  of {self.guess or 0:g} for all": self.guess_error,
            "Root mean squared error": self.root_mean_squared_error,
            "Pearson": self.pearson,
            "Spearman": self.spearman,
            f"Within {self.margin or 0:.4g}": self.within,
        }
        lines = [f"{name:<23}  {row}" for name, row in rows.items() if row is not None]
        return "\n".join([f"{self.num_examples:,} examples", *lines])


def evaluate_numbers(
    true: ArrayLike,
    found: ArrayLike,
    guess: float | None = None,
    margin: float | None = None,
    num_bootstrap: int = 1000,
    seed: int = 0,
) -> RegressionReport:
    """Measures predicted numbers.

    Args:
        true: Numbers y, `(n,)`.
        found: Their predictions p, `(n,)`.
        guess: One number for all examples, to compare with, such as the median of the numbers that
            were learned from.
        margin: Half of the width of the intervals of the predictions, `p - margin` to `p + margin`.
        num_bootstrap: Samples of the examples for the 95 % intervals; 0 computes none.
        seed: Seed of these samples.

    Returns:
        A `RegressionReport`.

    Raises:
        ValueError: If the sides differ in length, are empty or not finite.

    Example:

    >>> print(evaluate_numbers([1, 2, 5], [1, 3, 3], guess=2, margin=1, num_bootstrap=0))
    3 examples
    Mean absolute error      1.0000
      of 2 for all           1.3333
    Root mean squared error  1.2910
    Pearson                  0.6934
    Spearman                 0.8660
    Within 1                 0.6667
    """
    correlation = evaluate_scores(true, found, num_bootstrap, seed)
    y, p = (np.asarray(side, "float64") for side in (true, found))
    samples = draw_samples(len(y), num_bootstrap, seed)

    def estimate(values: np.ndarray, of: Callable = lambda mean: mean) -> Estimate:
        interval = interval_of([float(of(values[rows].mean())) for rows in samples])
        return Estimate(float(of(values.mean())), *(interval or ()))

    errors = np.abs(y - p)
    return RegressionReport(
        len(y),
        estimate(errors),
        estimate(errors**2, np.sqrt),
        correlation.pearson,
        correlation.spearman,
        None if guess is None else estimate(np.abs(y - guess)),
        None if margin is None else estimate((errors <= margin).astype("float64")),
        guess,
        margin,
    )


def conformal_margin(true: ArrayLike, found: ArrayLike, coverage: float) -> float | None:
    """Returns how far numbers are from their predictions at most, for a share of them.

    It is the k-th smallest of the errors |y - p| of n examples that were not learned from, with
    k = ceil((n + 1) coverage). If further examples are drawn like these, the interval `p - margin`
    to `p + margin` has a new number with at least the probability `coverage`, whatever the model
    is (split conformal prediction).

    References:
        - [Lei et al., 2018](https://arxiv.org/abs/1604.04173): Distribution-free predictive
          inference for regression.

    Args:
        true: Numbers y, `(n,)`.
        found: Their predictions p, `(n,)`.
        coverage: Above 0, below 1.

    Returns:
        The margin; None if there are too few examples, k > n.

    Example:

    >>> conformal_margin([1, 2, 3, 4], [1.5, 2, 3.25, 3], 0.8), conformal_margin([1], [2], 0.8)
    (1.0, None)
    """
    errors = np.sort(np.abs(np.asarray(true, "float64") - np.asarray(found, "float64")))
    # The small number takes rounding errors of the product away: 0.9 * 10 is 9.
    k = int(np.ceil((len(errors) + 1) * coverage - 1e-9))
    return float(errors[k - 1]) if k <= len(errors) else None
