"""Errors of predicted numbers and of a constant baseline, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.correlation import evaluate_scores
from keras_attn.metrics.reports import Estimate, Report, draw_samples, interval_of


@dataclass(frozen=True)
class RegressionReport(Report):
    """Errors of predicted numbers. `print` shows a table.

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
    """Mean absolute error, the mean of |y - p| for numbers y and predictions p."""
    root_mean_squared_error: Estimate
    """Root mean squared error, the square root of the mean of (y - p)^2."""
    pearson: Estimate
    """Pearson's correlation; NaN if the numbers or the predictions are constant."""
    spearman: Estimate
    """Spearman's correlation, which uses ranks; NaN if the numbers or the predictions are
    constant."""
    guess_error: Estimate | None = None
    """Mean absolute error of a constant baseline, such as the median; None without a baseline."""
    within: Estimate | None = None
    """Fraction of the numbers that lie in their prediction interval; None without a margin."""
    guess: float | None = None
    """The constant prediction of the baseline."""
    margin: float | None = None
    """Half the width of the prediction intervals."""

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
    """Computes the errors of predicted numbers, with confidence intervals.

    Args:
        true: True numbers y, `(n,)`.
        found: Predictions p, `(n,)`.
        guess: Prediction of a constant baseline, such as the median of the training numbers; None
            for no baseline.
        margin: Half the width of the prediction intervals, `p - margin` to `p + margin`, whose
            coverage is computed; None for no prediction intervals.
        num_bootstrap: Number of bootstrap samples of the examples; 0 for no intervals.
        seed: Seed of the bootstrap samples.

    Returns:
        A `RegressionReport`.

    Raises:
        ValueError: If `true` and `found` are not one-dimensional, differ in length, are empty, or
            have a value that is not finite.

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
    """Returns the margin of split conformal prediction intervals.

    The margin is the k-th smallest error `|y - p|` of n held-out examples, where
    `k = ceil((n + 1) * coverage)`. If new examples come from the same distribution, the interval
    from `p - margin` to `p + margin` contains the true number with a probability of at least
    `coverage`, for any model.

    References:
        - [Lei et al., 2018](https://arxiv.org/abs/1604.04173): Distribution-free predictive
          inference for regression.

    Args:
        true: True numbers y of the held-out examples, `(n,)`.
        found: Predictions p, `(n,)`.
        coverage: Probability that an interval contains the true number, above 0 and below 1.

    Returns:
        The margin; None if there are too few examples (k > n).

    Example:

    >>> conformal_margin([1, 2, 3, 4], [1.5, 2, 3.25, 3], 0.8), conformal_margin([1], [2], 0.8)
    (1.0, None)
    """
    errors = np.sort(np.abs(np.asarray(true, "float64") - np.asarray(found, "float64")))
    # The small number takes rounding errors of the product away: 0.9 * 10 is 9.
    k = int(np.ceil((len(errors) + 1) * coverage - 1e-9))
    return float(errors[k - 1]) if k <= len(errors) else None
