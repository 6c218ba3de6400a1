"""Deletion curves, which test whether token weights identify the decisive tokens."""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_attn.generation.decoders import integer
from keras_attn.metrics import Estimate

Predict = Callable[[list[list[int]]], Any]
FRACTIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


@dataclass(frozen=True, eq=False)
class DeletionCurve:
    """Result of `deletion_curve`. `print` shows it as a table.

    Args:
        fractions: The F fractions of deleted tokens, beginning with 0.
        probabilities: For each of n texts and each fraction, the probability of the class predicted
            for the whole text, after the tokens with the highest weights are deleted, `(n, F)`.
        random_probabilities: The same probability after as many random tokens are deleted, averaged
            over several draws, `(n, F)`.

    Example:

    >>> curve = DeletionCurve((0.0, 0.5), np.array([[0.9, 0.1]]), np.array([[0.9, 0.5]]))
    >>> print(f"{curve.area:.2f} {curve.random_area:.2f} {curve.comprehensiveness:.2f}")
    0.50 0.70 0.80
    """

    fractions: tuple[float, ...]
    probabilities: np.ndarray
    random_probabilities: np.ndarray

    @property
    def area(self) -> float:
        """Mean height of the curve: its area divided by the last fraction. Lower is better."""
        return float(self._areas(self.probabilities).mean())

    @property
    def random_area(self) -> float:
        """Mean height of the curve of random deletions, which corresponds to `area`."""
        return float(self._areas(self.random_probabilities).mean())

    @property
    def comprehensiveness(self) -> float:
        """Mean decrease of the probability over the fractions above 0. Higher is better."""
        return float((self.probabilities[:, :1] - self.probabilities[:, 1:]).mean())

    @property
    def random_comprehensiveness(self) -> float:
        """Mean decrease of the probability after random deletions, over the fractions above 0."""
        return float((self.random_probabilities[:, :1] - self.random_probabilities[:, 1:]).mean())

    def advantage(self, num_bootstrap: int = 1000, seed: int = 0) -> Estimate:
        """Computes how far the curve is below the curve of random deletions.

        Args:
            num_bootstrap: Number of bootstrap samples of the texts for the interval; 0 for no
                interval.
            seed: Seed of the bootstrap samples.

        Returns:
            An `Estimate` of `random_area - area`, with a 95 % interval over the texts. If the
            interval contains 0, the weights may be no better than chance.

        Example:

        >>> curve = DeletionCurve((0.0, 0.5), np.array([[0.9, 0.1]]), np.array([[0.9, 0.5]]))
        >>> print(curve.advantage())
        0.2000 (0.2000 to 0.2000)
        """
        gaps = self._areas(self.random_probabilities) - self._areas(self.probabilities)
        if not num_bootstrap:
            return Estimate(float(gaps.mean()))
        rng = np.random.default_rng(seed)
        means = [gaps[rng.integers(len(gaps), size=len(gaps))].mean() for _ in range(num_bootstrap)]
        low, high = np.quantile(means, [0.025, 0.975])
        return Estimate(float(gaps.mean()), float(low), float(high))

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict for JSON of the fractions, both mean curves, and all measures.

        The keys are `num_texts`, `fractions`, `curve`, `random_curve`, `area`, `random_area`,
        `comprehensiveness`, `random_comprehensiveness` and `advantage`, a dict of `value` and
        `interval`.

        Example:

        >>> curve = DeletionCurve((0.0, 0.5), np.array([[0.75, 0.25]]), np.array([[0.75, 0.5]]))
        >>> curve.to_dict()["curve"], curve.to_dict()["random_curve"]
        ([0.75, 0.25], [0.75, 0.5])
        """
        value, low, high = self.advantage()
        return {
            "num_texts": len(self.probabilities),
            "fractions": [float(share) for share in self.fractions],
            "curve": self.probabilities.mean(axis=0).tolist(),
            "random_curve": self.random_probabilities.mean(axis=0).tolist(),
            "area": self.area,
            "random_area": self.random_area,
            "advantage": {"value": value, "interval": [low, high]},
            "comprehensiveness": self.comprehensiveness,
            "random_comprehensiveness": self.random_comprehensiveness,
        }

    def __str__(self) -> str:
        lines = [f"{len(self.probabilities)} texts", "deleted   highest    random"]
        rows = zip(
            self.fractions,
            self.probabilities.mean(axis=0),
            self.random_probabilities.mean(axis=0),
            strict=True,
        )
        lines += [f"{100 * f:>5.3g} %{p:>12.4f}{r:>10.4f}" for f, p, r in rows]
        lines.append(f"area   {self.area:>12.4f}{self.random_area:>10.4f}")
        lines.append(f"random - highest: {self.advantage()}")
        return "\n".join(lines)

    def _areas(self, curves: np.ndarray) -> np.ndarray:
        """`(n,)`, by trapezoids."""
        steps = np.diff(self.fractions)
        return (curves[:, 1:] + curves[:, :-1]) @ steps / (2 * self.fractions[-1])


def deletion_curve(
    predict: Predict,
    ids: Sequence[Sequence[int]],
    weights: Sequence[Any],
    fractions: Sequence[float] = FRACTIONS,
    num_random: int = 5,
    keep: Collection[int] = (),
    seed: int = 0,
) -> DeletionCurve:
    """Deletes the tokens with the highest weights and measures how much the probability decreases.

    The class of a text is the class that the model predicts for the whole text. For each fraction
    f, the `ceil(f * T)` tokens with the highest weights, out of the T tokens of a text, are
    deleted, and the model predicts the probability of that class again. If the weights identify the
    decisive tokens, the probability decreases faster than when the same number of random tokens is
    deleted. The area under the curve of probabilities summarizes the decrease (Samek et al., 2017,
    "Evaluating the Visualization of What a Deep Neural Network Has Learned"). The mean decrease is
    called comprehensiveness in DeYoung et al., 2020, "ERASER: A Benchmark to Evaluate Rationalized
    NLP Models":

        comprehensiveness = mean_{f > 0} (p(class | x) - p(class | x without its top f))

    x is a text, and its top f are the tokens that are deleted for the fraction f.

    A part of the decrease occurs only because words are missing, which the model has not seen in
    training. Therefore, always compare the curve with the curve of random deletions.

    Args:
        predict: Function that is called with a list of n lists of ids, and returns the
            probabilities of C classes, an array `(n, C)`. A list of ids may be empty.
        ids: The ids of n texts without padding.
        weights: For each text, a weight for each id. Signed weights must refer to the predicted
            class: tokens with the highest weights are deleted first, and tokens with negative
            weights last. Tokens of equal weight are deleted in random order, so that the order of
            the text has no effect.
        fractions: Ascending fractions of the tokens from 0 to 1. If 0 is missing, it is added.
        num_random: Number of random orders in which the tokens of each text are deleted.
        keep: Ids that are never deleted and not counted in T, such as those of `[CLS]` and `[SEP]`.
        seed: Seed of the random orders, and of the order of equal weights.

    Returns:
        A `DeletionCurve`.

    Raises:
        ValueError: If there is no text, the numbers of texts, ids and weights differ, a weight or a
            probability is not finite, the fractions are not ascending from 0 to 1, `num_random` is
            below 1, or the probabilities have the wrong shape.

    Example:

    A model that adds a value for each token, explained by these values:

    >>> good = np.array([0.0, -1.0, 0.0, 2.0, 1.0])
    >>> def predict(ids):
    ...     positive = 1 / (1 + np.exp([-good[row].sum() for row in ids]))
    ...     return np.stack([1 - positive, positive], axis=1)
    >>> ids = [[2, 3, 2, 4]]
    >>> curve = deletion_curve(predict, ids, [good[row] for row in ids], [0.25, 0.5])
    >>> print(curve)
    1 texts
    deleted   highest    random
        0 %      0.9526    0.9526
       25 %      0.7311    0.8496
       50 %      0.5000    0.8053
    area         0.7287    0.8643
    random - highest: 0.1356 (0.1356 to 0.1356)
    """
    rows = [np.asarray(row, "int64").reshape(-1) for row in ids]
    fractions = _checked_fractions(fractions)
    orders = _orders(rows, weights, keep, np.random.default_rng([seed, 1]))
    num_random = integer("num_random", num_random, 1)
    whole = _predicted(predict, rows)
    classes = whole.argmax(axis=1)

    def curve(orders: list[np.ndarray]) -> np.ndarray:
        columns = [whole]
        for fraction in fractions[1:]:
            # Rounded, as 0.07 * 100 is more than 7.
            counts = [int(np.ceil(round(fraction * len(order), 9))) for order in orders]
            left = [
                np.delete(row, order[:count])
                for row, order, count in zip(rows, orders, counts, strict=True)
            ]
            columns.append(_predicted(predict, left))
        picked = [probabilities[np.arange(len(rows)), classes] for probabilities in columns]
        return np.stack(picked, axis=1)

    rng = np.random.default_rng(seed)
    random = [curve([rng.permutation(order) for order in orders]) for _ in range(num_random)]
    return DeletionCurve(fractions, curve(orders), np.mean(random, axis=0))


def _orders(
    rows: list[np.ndarray],
    weights: Iterable[npt.ArrayLike],
    keep: Collection[int],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Indices of the deletable tokens of each text, the highest weight first."""
    checked = [np.asarray(row, "float64") for row in weights]
    if not rows or len(checked) != len(rows):
        raise ValueError(
            "Expected a row of weights for each text, and at least one. Received: "
            f"{len(rows)} texts and {len(checked)} rows of weights."
        )
    orders = []
    for i, (row, weight) in enumerate(zip(rows, checked, strict=True)):
        if weight.shape != row.shape:
            raise ValueError(
                f"Expected a weight for each of the {len(row)} ids of text {i}. Received: shape "
                f"{weight.shape}."
            )
        if not np.isfinite(weight).all():
            raise ValueError(f"Expected finite weights. Received: {weight} for text {i}.")
        order = np.lexsort((rng.random(len(weight)), -weight))
        orders.append(order[~np.isin(row[order], list(keep))])
    return orders


def _checked_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    checked = tuple(float(fraction) for fraction in fractions)
    if not checked or checked[0] != 0:
        checked = (0.0, *checked)
    ascending = all(a < b for a, b in itertools.pairwise(checked))
    if len(checked) < 2 or not ascending or checked[0] < 0 or checked[-1] > 1:
        raise ValueError(
            f"Expected ascending `fractions` above 0, up to 1. Received: {list(fractions)}."
        )
    return checked


def _predicted(predict: Predict, rows: list[np.ndarray]) -> np.ndarray:
    probabilities = np.asarray(predict([row.tolist() for row in rows]), "float64")
    if probabilities.ndim != 2 or len(probabilities) != len(rows):
        raise ValueError(
            f"Expected `predict` to return an array of shape ({len(rows)}, C). Received: shape "
            f"{probabilities.shape}."
        )
    if not np.isfinite(probabilities).all():
        raise ValueError("Expected `predict` to return finite probabilities. Received: NaN or inf.")
    return probabilities
