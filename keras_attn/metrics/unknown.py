"""Metrics of detecting examples that belong to no class, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.reports import Estimate, Report, interval_of
from keras_attn.metrics.resampling import area_under_curve


@dataclass(frozen=True)
class UnknownReport(Report):
    """Scores of detecting examples that belong to no class. `print` shows them.

    Example:

    >>> print(UnknownReport(2, Estimate(0.9), Estimate(0.5), 0.05, Estimate(1.0), Estimate(0.1)))
    2 of no class
    area under ROC                    0.9000
    found at 5 % false alarms         0.5000
    found by the threshold            1.0000
    false alarms of the threshold     0.1000
    """

    num_unknown: int
    """Number of examples that belong to no class."""
    auc: Estimate
    """Area under the ROC curve: the probability that an example of no class has a lower score than
    an example of a class."""
    found_at: Estimate
    """Fraction of the examples of no class that are detected at a false alarm rate of `share`."""
    share: float
    """The false alarm rate for `found_at`."""
    found: Estimate
    """Fraction of the examples of no class that are below the threshold."""
    false_alarms: Estimate
    """Fraction of the examples with a class that are below the threshold."""

    def __str__(self) -> str:
        figures = {
            "area under ROC": self.auc,
            f"found at {100 * self.share:g} % false alarms": self.found_at,
            "found by the threshold": self.found,
            "false alarms of the threshold": self.false_alarms,
        }
        lines = [f"{name:<33} {figure}" for name, figure in figures.items()]
        return "\n".join([f"{self.num_unknown:,} of no class", *lines])


def threshold_of(known: ArrayLike, share: float) -> float:
    """Returns the greatest threshold below which at most a fraction `share` of the scores lie.

    Args:
        known: Scores `(n,)` of examples that have a class.
        share: The fraction, at least 0 and below 1.

    Example:

    >>> threshold_of([1.0, 2.0, 3.0, 4.0], 0.25)
    2.0
    """
    ordered = np.sort(np.asarray(known, "float64"))
    return float(ordered[int(share * len(ordered) + 1e-9)])


def evaluate_unknown(
    scores: ArrayLike,
    unknown: ArrayLike,
    threshold: float,
    share: float = 0.05,
    num_bootstrap: int = 1000,
    seed: int = 0,
) -> UnknownReport:
    """Evaluates how well scores detect examples that belong to no class.

    Args:
        scores: Scores `(n,)`, which should be low for examples that belong to no class.
        unknown: Whether each example belongs to no class, `(n,)`.
        threshold: Examples with scores below this threshold are classified as belonging to no
            class.
        share: False alarm rate at which `found_at` is measured.
        num_bootstrap: Number of bootstrap samples of the examples; 0 for no intervals.
        seed: Seed of the bootstrap samples.

    Returns:
        An `UnknownReport`.

    Raises:
        ValueError: If no example belongs to a class, all examples do, or a score is not finite.

    Example:

    >>> report = evaluate_unknown([0.1, 0.6, 0.5, 0.9], [True, True, False, False], 0.3)
    >>> report.auc.value, report.found.value, report.false_alarms.value
    (0.75, 0.5, 0.0)
    """
    scores, unknown = np.asarray(scores, "float64"), np.asarray(unknown, bool)
    if scores.shape != unknown.shape or unknown.all() or not unknown.any():
        raise ValueError(
            "Expected a score for each example, and at least one example with and one "
            f"without a class. Received: {scores.size} scores for {unknown.size} examples, "
            f"{int(unknown.sum())} of which have no class."
        )
    if not np.isfinite(scores).all():
        raise ValueError("Expected finite scores. Received: NaN or infinity.")
    sides = scores[unknown], scores[~unknown]

    def figures(apart: np.ndarray, known: np.ndarray) -> list[float]:
        ties = np.unique(np.concatenate([known, apart]), return_inverse=True)[1]
        is_known = np.arange(len(ties)) < len(known)
        at = threshold_of(known, share)
        return [
            area_under_curve(ties, is_known, np.ones(len(ties))),
            float(np.mean(apart < at)),
            float(np.mean(apart < threshold)),
            float(np.mean(known < threshold)),
        ]

    rng = np.random.default_rng(seed)
    samples = [figures(*(rng.choice(x, len(x)) for x in sides)) for _ in range(num_bootstrap)]
    columns = zip(*samples, strict=True) if samples else [[]] * 4
    auc, found_at, found, false_alarms = (
        Estimate(value, *(interval_of(list(column)) or ()))
        for value, column in zip(figures(*sides), columns, strict=True)
    )
    return UnknownReport(len(sides[0]), auc, found_at, share, found, false_alarms)
