"""Fast metrics of a classifier on bootstrap samples."""

import math

import numpy as np

METRICS = ("accuracy", "macro_f1", "matthews", "auc", "log_loss", "ece")
_BINS = 15
_EPSILON = np.finfo("float64").eps


class ResampledMetrics:
    """Computes metrics of a bootstrap sample from the number of times it contains each example.

    Labels are integers `(n,)` or booleans `(n, C)`. If all counts are 1, the metrics equal those of
    scikit-learn.
    """

    def __init__(
        self, labels: np.ndarray, probabilities: np.ndarray, thresholds: np.ndarray | float = 0.5
    ):
        self.num_classes = probabilities.shape[1]
        if labels.ndim == 2:
            predicted = probabilities >= thresholds
            self.correct = (predicted == labels).all(axis=1).astype("float64")
            confidence = np.where(predicted, probabilities, 1 - probabilities)
            gaps = (predicted == labels) - confidence
            right = np.where(labels, probabilities, 1 - probabilities)
            self.losses = -np.log(np.clip(right, _EPSILON, 1)).mean(axis=1)
            self.true, self.predicted = np.nonzero(labels), np.nonzero(predicted)
            self.found = np.nonzero(labels & predicted)
            members = labels
            self.single = False
        else:
            rows = np.arange(len(labels))
            predicted = probabilities.argmax(axis=1)
            self.correct = (predicted == labels).astype("float64")
            confidence = probabilities.max(axis=1, keepdims=True)
            gaps = self.correct[:, None] - confidence
            right = probabilities[rows, labels] / probabilities.sum(axis=1)
            self.losses = -np.log(np.clip(right, _EPSILON, 1))
            self.true, self.predicted = (rows, labels), (rows, predicted)
            self.found = tuple(axis[predicted == labels] for axis in self.true)
            members = labels[:, None] == np.arange(self.num_classes)
            self.single = True
        # Bins are open on the left, and 0 is in the first.
        edges = np.arange(1, _BINS) / _BINS
        self.bins = np.searchsorted(edges, confidence, side="left")
        self.gaps = gaps
        self.curves = []
        # Two classes have the same curve.
        for c in range(int(labels.ndim == 1 and self.num_classes == 2), self.num_classes):
            ties = np.unique(probabilities[:, c], return_inverse=True)[1]
            self.curves.append((ties, members[:, c]))

    def __call__(self, counts: np.ndarray) -> dict[str, float]:
        """Returns a value for each of `METRICS`, given the count of each example, `(n,)`."""
        counts = counts.astype("float64")
        total = counts.sum()
        areas = [
            area
            for curve in self.curves
            if not math.isnan(area := area_under_curve(*curve, counts))
        ]
        return {
            "accuracy": float(counts @ self.correct / total),
            "macro_f1": self._macro_f1(counts),
            "matthews": self._matthews(counts),
            "auc": float(np.mean(areas)) if areas else math.nan,
            "log_loss": float(counts @ self.losses / total),
            "ece": self._calibration_error(counts),
        }

    def _matthews(self, counts: np.ndarray) -> float:
        if not self.single:
            return math.nan
        found, true, predicted = self._class_counts(counts)
        total = counts.sum()
        spread = (total**2 - predicted @ predicted) * (total**2 - true @ true)
        if not spread > 0:  # one class alone is true, or predicted
            return 0.0
        return float((found.sum() * total - true @ predicted) / math.sqrt(spread))

    def _class_counts(self, counts: np.ndarray) -> tuple[np.ndarray, ...]:
        """The numbers of true positives, true and predicted examples of each class."""
        return tuple(
            np.bincount(classes, counts[rows], minlength=self.num_classes)
            for rows, classes in (self.found, self.true, self.predicted)
        )

    def _macro_f1(self, counts: np.ndarray) -> float:
        found, true, predicted = self._class_counts(counts)
        occurs = true + predicted > 0
        if not occurs.any():
            return math.nan
        return float((2 * found[occurs] / (true + predicted)[occurs]).mean())

    def _calibration_error(self, counts: np.ndarray) -> float:
        gaps = (counts[:, None] * self.gaps).ravel()
        sums = np.bincount(self.bins.ravel(), gaps, minlength=_BINS)
        return float(np.abs(sums).sum() / (counts.sum() * self.gaps.shape[1]))


def area_under_curve(ties: np.ndarray, members: np.ndarray, counts: np.ndarray) -> float:
    """Computes the area under the ROC curve: the fraction of ordered pairs; ties count half."""
    positive = np.bincount(ties, counts * members)
    negative = np.bincount(ties, counts * ~members)
    pairs = positive.sum() * negative.sum()
    if not pairs:
        return math.nan
    below = np.cumsum(negative) - negative
    return float(positive @ (below + negative / 2) / pairs)
