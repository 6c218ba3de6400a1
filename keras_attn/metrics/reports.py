"""Base class of reports, and bootstrap intervals."""

from __future__ import annotations

import math
import os
from dataclasses import Field
from typing import ClassVar, NamedTuple

import numpy as np

Interval = tuple[float, float]


class Estimate(NamedTuple):
    """A measured value and its 95 % interval.

    Example:

    >>> print(Estimate(0.906, 0.9025, 0.9091))
    0.9060 (0.9025 to 0.9091)
    """

    value: float
    """The value; NaN if it is undefined, such as the AUC of a class without examples."""
    low: float | None = None
    """Lower end of the interval; None without bootstrap samples."""
    high: float | None = None
    """Upper end of the interval; None without bootstrap samples."""

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.4f}"
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


class Report:
    """Base class of reports: dataclasses of scores, with a method that converts them for JSON.

    Example:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Lengths(Report):
    ...     mean: Estimate
    ...     longest: float | None = None
    >>> Lengths(Estimate(2.5, 2.0, 3.0)).to_dict()
    {'mean': {'value': 2.5, 'interval': [2.0, 3.0]}}
    """

    __dataclass_fields__: ClassVar[dict[str, Field]]

    def to_dict(self) -> dict[str, object]:
        """Returns the fields that are not None, keyed by name, as a dict for JSON.

        NaN and infinity become None, and an `Estimate` becomes a dict with `value` and `interval`,
        which is a list of two numbers or None.
        """
        figures = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: json_safe(value) for name, value in figures.items() if value is not None}


def json_safe(value: object) -> object:
    """Converts NaN, infinity, NumPy values, paths and named tuples to values for JSON."""
    if isinstance(value, Estimate):
        interval = None if value.low is None else [value.low, value.high]
        return {"value": json_safe(value.value), "interval": interval}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return json_safe(value._asdict())
    if isinstance(value, dict):
        return {json_safe(key): json_safe(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return type(value)(map(json_safe, value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def draw_samples(count: int, num_bootstrap: int, seed: int) -> np.ndarray:
    """Draws bootstrap samples of `count` examples, `(num_bootstrap, count)`."""
    return np.random.default_rng(seed).integers(count, size=(num_bootstrap, count))


def interval_of(samples: np.ndarray | list[float]) -> Interval | None:
    """Returns the 95 % interval of the samples that are not NaN; None if there are none."""
    samples = np.asarray(samples, "float64")
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)


def mean_interval(values: np.ndarray, num_bootstrap: int, seed: int) -> Interval | None:
    """Returns the 95 % bootstrap interval of the mean of values."""
    return interval_of(values[draw_samples(len(values), num_bootstrap, seed)].mean(axis=1))
