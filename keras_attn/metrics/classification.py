"""Metrics of classifiers with confidence intervals, and calibration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.reports import Estimate, Report, interval_of, json_safe
from keras_attn.metrics.resampling import METRICS, ResampledMetrics
from keras_attn.metrics.unknown import UnknownReport
from keras_attn.packages import needed

_NAMES = {
    "auc": "AUC",
    "macro_f1": "macro F1",
    "matthews": "Matthews",
    "log_loss": "log loss",
    "ece": "ECE",
}
_LARGEST_TABLE = 12
_LOWEST, _HIGHEST = 0.01, 100.0
_FEWEST = 5


class ClassScores(NamedTuple):
    """Precision, recall and F1 of one class, and its number of examples.

    Example:

    >>> scores = ClassScores("spam", precision=1.0, recall=0.5, f1=2 / 3, examples=4)
    >>> round(scores.f1, 2)
    0.67
    """

    name: str
    precision: float
    """NaN if the class was never predicted."""
    recall: float
    """NaN if no example has the class."""
    f1: float
    """NaN if precision and recall are both NaN."""
    examples: int
    """Number of examples with the class."""


@dataclass(frozen=True, eq=False)
class ClassificationReport(Report):
    """The result of `evaluate_probabilities`. `print` shows it as tables.

    Each metric, from `accuracy` to `ece`, is an `Estimate`: a value and its 95 % interval.

    Args:
        class_names: Names of the C classes.
        num_examples: Number n of examples.
        accuracy: Fraction of the examples whose most probable class is correct. With several labels
            per example, the fraction of examples for which the decisions for all classes are
            correct.
        macro_f1: Unweighted mean of the F1 of the classes that occur in the labels or predictions.
        matthews: Matthews correlation coefficient over all classes, from -1 to 1; 0 if only one
            class is true or predicted, and NaN with several labels per example.
        auc: Area under the ROC curve (one-vs-rest), averaged over the classes that have positive
            and negative examples; NaN if there is no such class. The area is the probability that a
            random positive example gets a higher probability of the class than a random negative
            example.
        log_loss: Mean of `-log p(label)` in nats; with several labels, the mean over all decisions.
        ece: Expected calibration error, as defined in `evaluate_probabilities`.
        confusion: Counts `(C, C)`, with a row for each true class and a column for each predicted
            class. With several labels per example, `(C, 2, 2)`: for each class, a row for each true
            decision (no, yes) and a column for each predicted decision.
        multi_label: Whether an example may have several labels.
        unknown: Scores for detecting examples that belong to no class, which the method `evaluate`
            of a classifier adds if there are such examples and it has a threshold for them;
            otherwise None.

    Example:

    >>> report = evaluate_probabilities([0, 1], [[0.8, 0.2], [0.4, 0.6]], ["no", "yes"])
    >>> report.accuracy, report.confusion.tolist()
    (Estimate(value=1.0, low=1.0, high=1.0), [[1, 0], [0, 1]])
    """

    class_names: tuple[str, ...]
    num_examples: int
    accuracy: Estimate
    macro_f1: Estimate
    matthews: Estimate
    auc: Estimate
    log_loss: Estimate
    ece: Estimate
    confusion: np.ndarray
    multi_label: bool = False
    unknown: UnknownReport | None = None

    def per_class(self) -> list[ClassScores]:
        """Returns precision, recall and F1 of each class.

        Returns:
            A list with a `ClassScores` for each class, in the order of `class_names`.

        Example:

        >>> probabilities = [[0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]
        >>> report = evaluate_probabilities([0, 1, 1], probabilities, ["no", "yes"])
        >>> [(scores.name, scores.precision, scores.recall) for scores in report.per_class()]
        [('no', 0.5, 1.0), ('yes', 1.0, 0.5)]
        """
        if self.multi_label:
            found = self.confusion[:, 1, 1]
            true, predicted = found + self.confusion[:, 1, 0], found + self.confusion[:, 0, 1]
        else:
            found = np.diagonal(self.confusion)
            true, predicted = self.confusion.sum(axis=1), self.confusion.sum(axis=0)
        return [
            ClassScores(name, _ratio(f, p), _ratio(f, t), _ratio(2 * f, t + p), int(t))
            for name, f, t, p in zip(self.class_names, found, true, predicted, strict=True)
        ]

    def to_dict(self) -> dict[str, object]:
        """Returns the report as a dict for JSON.

        Returns:
            A dict with `num_examples`; `accuracy`, `macro_f1`, `matthews`, `auc`, `log_loss` and
            `ece`, each a dict of `value` and `interval`, which is `[low, high]` or None; `classes`,
            a list with a dict of the `ClassScores` of each class; `confusion`, as nested lists;
            and, if the report has it, `unknown`, a dict of its scores. Undefined values are None.

        Example:

        >>> report = evaluate_probabilities([0, 0], [[0.8, 0.2], [0.4, 0.6]], ["no", "yes"])
        >>> report.to_dict()["accuracy"], report.to_dict()["auc"]["value"]
        ({'value': 0.5, 'interval': [0.0, 1.0]}, None)
        """
        names = ("num_examples", *METRICS)
        return {
            **{name: json_safe(getattr(self, name)) for name in names},
            "classes": json_safe(self.per_class()),
            "confusion": self.confusion.tolist(),
            **({} if self.unknown is None else {"unknown": self.unknown.to_dict()}),
        }

    def __str__(self) -> str:
        lines = [f"{self.num_examples} examples", f"{'':<12}{'value':>8}   95 % interval"]
        for name in METRICS:
            value, low, high = getattr(self, name)
            interval = "" if low is None else f"   {low:.4f} to {high:.4f}"
            lines.append(f"{_NAMES.get(name, name):<12}{_number(value)}{interval}".rstrip())
        if self.unknown is not None:
            lines += ["", str(self.unknown)]
        width = max(10, *(len(name) for name in self.class_names)) + 2
        lines += ["", f"{'class':<{width}}precision  recall      F1  examples"]
        for name, precision, recall, f1, examples in self.per_class():
            numbers = f"{_number(precision):>9}{_number(recall)}{_number(f1)}{examples:>10}"
            lines.append(f"{name:<{width}}{numbers}")
        if not self.multi_label and len(self.class_names) <= _LARGEST_TABLE:
            cell = max(10, *(len(name) for name in self.class_names)) + 2
            head = "".join(f"{name:>{cell}}" for name in self.class_names)
            lines += ["", f"{'true / predicted':<{max(width, 18)}}{head}"]
            for name, row in zip(self.class_names, self.confusion, strict=True):
                cells = "".join(f"{count:>{cell}}" for count in row)
                lines.append(f"{name:<{max(width, 18)}}{cells}")
        return "\n".join(lines)


def evaluate_probabilities(
    labels: ArrayLike,
    probabilities: ArrayLike,
    class_names: Sequence[str] | None = None,
    num_bootstrap: int = 1000,
    seed: int = 0,
    thresholds: ArrayLike | None = None,
) -> ClassificationReport:
    """Evaluates a classifier by its probabilities for test examples.

    The expected calibration error (Guo et al., 2017, "On Calibration of Modern Neural Networks")
    groups the n predictions by confidence (the probability of the predicted class) into 15 bins of
    equal width, where bin `B_m` covers confidences above `(m - 1) / 15` up to `m / 15`:

        ECE = sum_m |B_m| / n * |accuracy(B_m) - mean confidence(B_m)|

    With several labels per example, each of the C decisions (yes if the probability p reaches the
    threshold) is a prediction, with confidence `p` for yes and `1 - p` for no.

    Intervals are percentile bootstraps: n examples are drawn with replacement from the n examples,
    many times, and the interval spans the 2.5 % to 97.5 % quantiles of the metric over these
    samples. It estimates how much the metric would vary between test sets of this size, not between
    training runs. Noise increases the ECE, especially in bootstrap samples, so that a small ECE may
    lie below its interval.

    Args:
        labels: Class indices `(n,)`, or zeros and ones `(n, C)` if an example may have any number
            of classes.
        probabilities: Probabilities of the classes `(n, C)`; rows must sum to 1 if each example has
            one class. The log loss clips probabilities at 2e-16.
        class_names: Names of the C classes; if None, their indices as strings.
        num_bootstrap: Number of bootstrap samples; 0 for no intervals.
        seed: Seed of the bootstrap samples.
        thresholds: With several labels per example, the decision threshold of each class, `(C,)`;
            0.5 if None.

    Returns:
        A `ClassificationReport`.

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If there is no example or only one class, the shapes or the number of names do
            not match, a label or a probability is out of range, a row of probabilities does not sum
            to 1 (with one class per example), or `num_bootstrap` is not an integer of 0 or more.

    Example:

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=200)
    >>> yes = np.where(rng.random(200) < 0.9, labels, 1 - labels) * 0.8 + 0.1
    >>> report = evaluate_probabilities(labels, np.stack([1 - yes, yes], 1), ["bad", "good"])
    >>> print(report)
    200 examples
                   value   95 % interval
    accuracy      0.8700   0.8200 to 0.9150
    macro F1      0.8689   0.8166 to 0.9134
    Matthews      0.7386   0.6349 to 0.8274
    AUC           0.8706   0.8197 to 0.9132
    log loss      0.3910   0.2921 to 0.5009
    ECE           0.0300   0.0000 to 0.0800
    <BLANKLINE>
    class       precision  recall      F1  examples
    bad            0.8387  0.8764  0.8571        89
    good           0.8972  0.8649  0.8807       111
    <BLANKLINE>
    true / predicted           bad        good
    bad                         78          11
    good                        15          96
    """
    labels, probabilities = _checked(labels, probabilities)
    n, num_classes = probabilities.shape
    names = tuple(map(str, range(num_classes) if class_names is None else class_names))
    if len(names) != num_classes:
        raise ValueError(
            f"Expected a name for each of the {num_classes} classes. Received: {len(names)} names."
        )
    if isinstance(num_bootstrap, bool) or not isinstance(num_bootstrap, int) or num_bootstrap < 0:
        raise ValueError(f"Expected `num_bootstrap` of 0 or more. Received: {num_bootstrap!r}.")
    limits = np.full(num_classes, 0.5) if thresholds is None else np.asarray(thresholds, "float64")
    values, confusion = _scikit_learn(labels, probabilities, limits)
    # A thousand samples of 25,000 examples take seconds; scikit-learn would take a minute.
    resampled = ResampledMetrics(labels, probabilities, limits)
    whole = resampled(np.ones(n))
    values |= {name: whole[name] for name in ("matthews", "ece")}
    rng = np.random.default_rng(seed)
    samples = [
        resampled(np.bincount(rng.integers(n, size=n), minlength=n)) for _ in range(num_bootstrap)
    ]
    estimates: dict[str, Any] = {
        name: Estimate(values[name], *(interval_of([x[name] for x in samples]) or ()))
        for name in METRICS
    }
    return ClassificationReport(
        names, n, **estimates, confusion=confusion, multi_label=labels.ndim == 2
    )


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    """Finds the temperature that best calibrates a classifier's probabilities.

    `softmax(logits / T)` has the same most probable class for any T. Temperature scaling (Guo et
    al., 2017) chooses the T that minimizes the negative log-likelihood of held-out examples:

        T = argmin_T -sum_i log softmax(logits[i] / T)[labels[i]]

    With several labels per example, `sigmoid(logits / T)` replaces the softmax, and the sum is over
    all decisions. The sum is convex in `1 / T`, and its minimum for T from 0.01 to 100 is found by
    bisection.

    Args:
        logits: Logits of validation examples `(n, C)`.
        labels: Class indices `(n,)`, or zeros and ones `(n, C)`.

    Returns:
        A float from 0.01 (if all predictions are correct) to 100 (if the logits carry no
        information); 1 if T has no effect, because the logits of each example are equal (with
        several labels, because all logits are 0). A value above 1 means that the classifier is
        overconfident.

    Raises:
        ValueError: If there is no example or only one class, the shapes do not match, a label is
            out of range, or a logit is not finite.

    Example:

    A classifier that is right in three of four cases:

    >>> temperature = fit_temperature([[0.0, 5.0]] * 4, [1, 1, 1, 0])
    >>> print(f"{1 / (1 + np.exp(-5.0 / temperature)):.4f}")
    0.7500
    """
    scores = _array(logits, "logits")
    truth = _checked_labels(labels, scores.shape)
    multi_label = truth.ndim == 2
    if not multi_label:  # softmax is invariant to this
        scores = scores - scores.max(axis=1, keepdims=True)
        truth = np.eye(scores.shape[1])[truth]

    def slope(inverse: float) -> float:
        """Derivative of the negative log-likelihood with respect to `1 / T`."""
        if multi_label:
            predicted = 0.5 * (1 + np.tanh(0.5 * inverse * scores))
        else:
            predicted = np.exp(inverse * scores)
            predicted /= predicted.sum(axis=1, keepdims=True)
        return float(((predicted - truth) * scores).sum())

    low, high = 1 / _HIGHEST, 1 / _LOWEST
    if slope(low) >= 0 >= slope(high):  # all logits are equal
        return 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
    return min(max(1 / math.sqrt(low * high), _LOWEST), _HIGHEST)


def best_thresholds(probabilities: ArrayLike, labels: ArrayLike) -> tuple[float, ...]:
    """Finds the decision threshold of each class that maximizes F1 on held-out examples.

    Args:
        probabilities: Probabilities of the classes `(n, C)`.
        labels: Zeros and ones `(n, C)`.

    Returns:
        A float for each of the C classes, which lies between two of the class's probabilities.
        Among equally good thresholds, the one nearest to 0.5 is chosen. A class with fewer than 5
        examples gets 0.5.

    Example:

    >>> best_thresholds([[0.3], [0.2], [0.4]] * 5, [[1], [0], [1]] * 5)
    (0.25,)
    """
    found = []
    for p, true in zip(np.asarray(probabilities, "float64").T, np.asarray(labels).T, strict=True):
        values = np.unique(p)
        cuts = np.array([*(values[1:] + values[:-1]) / 2, 0.5])
        below = np.sort(p), np.sort(p[true > 0])
        chosen, hits = (len(x) - np.searchsorted(x, cuts) for x in below)
        f1 = 2 * hits / np.maximum(chosen + true.sum(), 1)
        best = cuts[f1 >= f1.max() - 1e-12]
        nearest = best[np.abs(best - 0.5).argmin()]
        found.append(float(np.float32(nearest)) if true.sum() >= _FEWEST else 0.5)
    return tuple(found)


def _checked(labels: ArrayLike, probabilities: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    probabilities = _array(probabilities, "probabilities")
    labels = _checked_labels(labels, probabilities.shape)
    outside = np.argwhere((probabilities < 0) | (probabilities > 1))
    if outside.size:
        row, column = outside[0]
        raise ValueError(
            f"Expected probabilities from 0 to 1. Received: {probabilities[row, column]:.4g} "
            f"in row {row}. If these are logits, apply the softmax, or the sigmoid for "
            "several labels."
        )
    sums = probabilities.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if labels.ndim == 1 and abs(sums[worst] - 1) > 0.02:  # bfloat16's softmax may be off by 0.01
        raise ValueError(
            "Expected rows of `probabilities` that sum to 1. Received: a sum of "
            f"{sums[worst]:.4g} in row {worst}. If an example may have several classes, pass "
            "`labels` of shape (n, C)."
        )
    return labels, probabilities


def _array(values: ArrayLike, name: str) -> np.ndarray:
    """Returns finite float64 values `(n, C)`, after checks."""
    values = np.asarray(values, "float64")
    if values.ndim != 2 or not len(values) or not values.shape[1]:
        raise ValueError(
            f"Expected `{name}` of shape (n, C), for n examples and C classes. Received: "
            f"shape {values.shape}."
        )
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise ValueError(f"Expected finite `{name}`. Received: {values[row]} in row {row}.")
    return values


def _checked_labels(labels: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Returns labels as int64 `(n,)` or booleans `(n, C)`, after checks."""
    labels = np.asarray(labels)
    if shape[1] < 2:
        raise ValueError(
            "Expected at least two classes, with a column for each. Received: shape "
            f"{shape}. For one yes-or-no label, pass the probabilities of both answers."
        )
    if labels.shape == shape:
        if not ((labels == 0) | (labels == 1)).all():
            wrong = labels[(labels != 0) & (labels != 1)][0]
            raise ValueError(f"Expected only zeros and ones in `labels`. Received: {wrong}.")
        return labels.astype(bool)
    if labels.shape != shape[:1]:
        raise ValueError(
            f"Expected `labels` of shape {shape[:1]}, or {shape} if an example may have "
            f"several. Received: shape {labels.shape}."
        )
    if labels.dtype.kind not in "biu":
        raise ValueError(f"Expected class numbers as `labels`. Received: dtype {labels.dtype}.")
    if labels.min() < 0 or labels.max() >= shape[1]:
        wrong = labels[(labels < 0) | (labels >= shape[1])][0]
        raise ValueError(
            f"Expected labels from 0 to {shape[1] - 1}, as there are {shape[1]} columns. "
            f"Received: {wrong}."
        )
    return labels.astype("int64")


def _scikit_learn(
    labels: np.ndarray, probabilities: np.ndarray, thresholds: np.ndarray
) -> tuple[dict[str, float], np.ndarray]:
    """Accuracy, macro F1, AUC and log loss, and the confusion matrix."""
    with needed("A report of classes"):
        from sklearn import metrics

    n, num_classes = probabilities.shape
    classes = np.arange(num_classes)
    if labels.ndim == 2:
        predicted, members = probabilities >= thresholds, labels
        confusion = metrics.multilabel_confusion_matrix(labels, predicted, labels=classes)
        losses = [
            metrics.log_loss(labels[:, c], probabilities[:, c], labels=[False, True])
            for c in classes
        ]
        columns = classes
    else:
        predicted, members = probabilities.argmax(axis=1), labels[:, None] == classes
        confusion = metrics.confusion_matrix(labels, predicted, labels=classes)
        normal = probabilities / probabilities.sum(axis=1, keepdims=True)
        losses = [metrics.log_loss(labels, normal, labels=classes)]
        columns = classes[1:] if num_classes == 2 else classes
    areas = [
        metrics.roc_auc_score(members[:, c], probabilities[:, c])
        for c in columns
        if 0 < members[:, c].sum() < n
    ]
    values = {
        "accuracy": metrics.accuracy_score(labels, predicted),
        "macro_f1": metrics.f1_score(
            labels, predicted, labels=classes, average="macro", zero_division=np.nan
        ),
        "auc": np.mean(areas) if areas else math.nan,
        "log_loss": np.mean(losses),
    }
    return {name: float(value) for name, value in values.items()}, confusion


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan


def _number(value: float) -> str:
    return f"{'-' if math.isnan(value) else format(value, '.4f'):>8}"
