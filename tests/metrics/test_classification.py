"""Metrics of classifiers, by hand and by scikit-learn; intervals; temperatures."""

import json
import math
import warnings

import numpy as np
import pytest
from sklearn import metrics

from keras_attn.metrics import evaluate_probabilities, fit_temperature
from keras_attn.metrics.resampling import METRICS, ResampledMetrics


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def values(report):
    return {name: getattr(report, name).value for name in METRICS}


def case(kind, n=60, seed=0):
    """Labels and probabilities with ties, wrong predictions and many confidences."""
    rng = np.random.default_rng(seed)
    num_classes = 2 if kind == "two" else 4
    labels = rng.integers(num_classes, size=n)
    logits = 1.5 * np.eye(num_classes)[labels] + rng.normal(size=(n, num_classes)).round(1)
    if kind == "multi-label":
        return (rng.random((n, 4)) < 0.3) | (logits > 2), 1 / (1 + np.exp(-logits))
    return labels, softmax(logits)


def by_scikit_learn(labels, probabilities, weights=None):
    """The four metrics that it has, in its own way of calling them."""
    several = labels.ndim == 2
    given = labels, probabilities, weights
    predicted = (probabilities >= 0.5) if several else probabilities.argmax(axis=1)
    if several:
        loss = np.mean(
            [
                metrics.log_loss(labels[:, c], probabilities[:, c], sample_weight=weights)
                for c in range(labels.shape[1])
            ]
        )
        auc = metrics.roc_auc_score(labels, probabilities, average="macro", sample_weight=weights)
    else:
        loss = metrics.log_loss(labels, probabilities, sample_weight=weights)
        scores = probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
        if probabilities.shape[1] > 2 and weights is not None:
            # It refuses weights there, and says to repeat the rows.
            labels = np.repeat(labels, weights)
            scores, predicted = np.repeat(scores, weights, axis=0), np.repeat(predicted, weights)
            weights = None
        auc = metrics.roc_auc_score(labels, scores, multi_class="ovr", sample_weight=weights)
    return {
        "accuracy": metrics.accuracy_score(labels, predicted, sample_weight=weights),
        "macro_f1": metrics.f1_score(labels, predicted, average="macro", sample_weight=weights),
        "auc": auc,
        "log_loss": loss,
        **({} if several else {"matthews": _matthews(*given)}),
    }


def _matthews(labels, probabilities, weights):
    predicted = probabilities.argmax(axis=1)
    return metrics.matthews_corrcoef(labels, predicted, sample_weight=weights)


def test_two_classes_by_hand():
    report = evaluate_probabilities(
        [0, 0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], ["no", "yes"], 0
    )
    assert report.accuracy.value == 0.75
    # no: precision 1, recall 2/3, F1 0.8; yes: precision 1/2, recall 1, F1 2/3
    assert report.macro_f1.value == pytest.approx((0.8 + 2 / 3) / 2)
    # (2 * 1 - 1 * 0) / sqrt(2 * 1 * 3 * 2)
    assert report.matthews.value == pytest.approx(2 / math.sqrt(12))
    assert report.auc.value == pytest.approx(2 / 3)  # 0.6 is above two of 0.1, 0.2, 0.7
    loss = -(math.log(0.9) + math.log(0.8) + math.log(0.3) + math.log(0.6)) / 4
    assert report.log_loss.value == pytest.approx(loss)
    assert report.confusion.tolist() == [[2, 1], [0, 1]]
    assert [score.precision for score in report.per_class()] == [1.0, 0.5]
    assert [score.recall for score in report.per_class()] == pytest.approx([2 / 3, 1.0])
    assert [score.f1 for score in report.per_class()] == pytest.approx([0.8, 2 / 3])
    assert [score.examples for score in report.per_class()] == [3, 1]
    assert report.accuracy.low is None


def test_calibration_error_by_hand():
    # Bins of 1/15: 0.6 ends bin 9 and belongs to it with 0.55 (above 8/15 = 0.533); 0.61 is alone.
    confidence = np.array([0.6, 0.55, 0.61, 0.99, 0.95])
    right = np.array([1, 0, 1, 1, 0])
    expected = (abs(1 - 1.15) + abs(1 - 0.61) + abs(1 - 1.94)) / 5
    probabilities = np.stack([confidence, 1 - confidence], 1)
    report = evaluate_probabilities(1 - right, probabilities, num_bootstrap=0)
    assert report.ece.value == pytest.approx(expected)
    # Every border is in the bin below it.
    edges = np.arange(8, 16) / 15
    metrics_of = ResampledMetrics(np.zeros(8, int), np.stack([edges, 1 - edges], 1))
    assert metrics_of.bins.ravel().tolist() == list(range(7, 15))
    above = np.nextafter(edges[:-1], 1)
    metrics_of = ResampledMetrics(np.zeros(7, int), np.stack([above, 1 - above], 1))
    assert metrics_of.bins.ravel().tolist() == list(range(8, 15))


def test_calibration_error_of_a_calibrated_classifier_is_small():
    rng = np.random.default_rng(0)
    probabilities = softmax(2 * rng.normal(size=(20000, 3)))
    labels = (rng.random((20000, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    assert evaluate_probabilities(labels, probabilities, num_bootstrap=0).ece.value < 0.02
    sharper = probabilities**3 / (probabilities**3).sum(axis=1, keepdims=True)
    assert evaluate_probabilities(labels, sharper, num_bootstrap=0).ece.value > 0.1


def test_several_labels_by_hand():
    labels = [[1, 0], [1, 1], [0, 0]]
    probabilities = [[0.9, 0.2], [0.4, 0.6], [0.1, 0.7]]
    report = evaluate_probabilities(labels, probabilities, ["a", "b"], 0)
    assert report.accuracy.value == pytest.approx(1 / 3)  # only the first row is all right
    # a: one found, one missed; b: one found, one too many
    assert report.macro_f1.value == pytest.approx(2 / 3)
    assert math.isnan(report.matthews.value)
    assert report.auc.value == pytest.approx((1 + 0.5) / 2)
    right = [0.9, 0.8, 0.4, 0.6, 0.9, 0.3]
    assert report.log_loss.value == pytest.approx(-np.log(right).mean())
    # confidences 0.9 + and 0.9 + in one bin, 0.8 +, 0.6 - and 0.6 + in one, 0.7 -
    assert report.ece.value == pytest.approx((0.2 + 0.2 + 0.2 + 0.7) / 6)
    assert report.confusion.tolist() == [[[1, 0], [1, 1]], [[1, 1], [0, 1]]]
    assert report.per_class()[0][:5] == ("a", 1.0, 0.5, pytest.approx(2 / 3), 2)
    assert report.per_class()[1][:5] == ("b", 0.5, 1.0, pytest.approx(2 / 3), 1)


@pytest.mark.parametrize("kind", ["two", "several", "multi-label"])
def test_the_same_as_scikit_learn(kind):
    labels, probabilities = case(kind)
    report = evaluate_probabilities(labels, probabilities, num_bootstrap=0)
    expected = by_scikit_learn(labels, probabilities)
    assert {name: values(report)[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["two", "several", "multi-label"])
def test_samples_are_measured_as_scikit_learn_does(kind):
    labels, probabilities = case(kind)
    resampled = ResampledMetrics(np.asarray(labels), probabilities)
    rng = np.random.default_rng(1)
    for counts in (np.ones(60, int), *(np.bincount(rng.integers(60, size=60), minlength=60),) * 3):
        expected = by_scikit_learn(labels, probabilities, counts)
        found = resampled(counts)
        assert {name: found[name] for name in expected} == pytest.approx(expected)
        rows = np.repeat(np.arange(60), counts)
        repeated = ResampledMetrics(np.asarray(labels)[rows], probabilities[rows])
        assert found == pytest.approx(repeated(np.ones(len(rows))), nan_ok=True)


def test_interval_of_the_accuracy_is_that_of_the_binomial_distribution():
    """5 right of 10: P(X <= 1) = 0.011 and P(X <= 2) = 0.055, so the 2.5 % quantile is 2."""
    labels = np.array([0] * 5 + [1] * 5)
    report = evaluate_probabilities(labels, [[0.8, 0.2]] * 10, num_bootstrap=2000)
    assert report.accuracy == pytest.approx((0.5, 0.2, 0.8))
    assert report.ece.value == pytest.approx(0.3)
    assert (report.ece.low, report.ece.high) == pytest.approx((0.0, 0.6))  # |accuracy - 0.8|


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """With a true accuracy of 0.8, about 95 of 100 intervals of other test sets hold it."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        right = rng.random(200) < 0.8
        report = evaluate_probabilities(1 - right, [[0.8, 0.2]] * 200, num_bootstrap=200)
        held += report.accuracy.low <= 0.8 <= report.accuracy.high
    assert 88 <= held <= 99


def test_seeds():
    first, again, other = (
        evaluate_probabilities(*case("several"), num_bootstrap=50, seed=seed) for seed in (1, 1, 2)
    )
    assert first.to_dict() == again.to_dict()
    assert first.log_loss.low != other.log_loss.low
    assert first.log_loss.value == other.log_loss.value


@pytest.mark.parametrize("kind", ["two", "several", "multi-label"])
def test_classes_that_do_not_occur(kind):
    """No warning, no error; the metrics are those of the classes that are there."""
    labels, probabilities = case(kind)
    labels = labels * 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = evaluate_probabilities(labels, probabilities, num_bootstrap=20)
    assert math.isnan(report.auc.value) and report.auc.low is None
    assert "AUC                -\n" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["auc"] == {"value": None, "interval": None}
    assert 0 <= report.macro_f1.value <= 1


def test_macro_f1_leaves_out_what_is_neither_true_nor_predicted():
    probabilities = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1]]
    report = evaluate_probabilities([0, 1], probabilities, num_bootstrap=10)
    assert report.macro_f1 == (1.0, 1.0, 1.0)
    assert report.confusion.shape == (3, 3)
    assert math.isnan(report.per_class()[2].f1)
    empty = evaluate_probabilities(np.zeros((2, 2)), np.full((2, 2), 0.1), num_bootstrap=10)
    assert math.isnan(empty.macro_f1.value) and empty.accuracy.value == 1


def test_certain_and_wrong_is_finite():
    report = evaluate_probabilities([0, 1], [[0.0, 1.0], [0.0, 1.0]], num_bootstrap=0)
    assert report.log_loss.value == pytest.approx(-math.log(np.finfo("float64").eps) / 2)


def test_low_precision_probabilities_are_accepted():
    labels, probabilities = case("several")
    report = evaluate_probabilities(labels, probabilities.astype("float16"), num_bootstrap=0)
    exact = evaluate_probabilities(labels, probabilities, num_bootstrap=0)
    assert values(report) == pytest.approx(values(exact), abs=2e-3)


def test_the_printed_table():
    report = evaluate_probabilities(*case("several"), ["a", "b", "<c>", "long name"], 10)
    text = str(report)
    assert "60 examples" in text and "95 % interval" in text
    for name in ("accuracy", "macro F1", "AUC", "log loss", "ECE", "true / predicted", "long name"):
        assert name in text
    assert f"{report.accuracy.value:.4f}   {report.accuracy.low:.4f} to" in text
    assert "true / predicted" not in str(evaluate_probabilities(*case("multi-label")))


@pytest.mark.parametrize(
    ("labels", "probabilities", "error"),
    [
        ([0, 1], [[0.5, 0.5]], r"shape \(1,\), or \(1, 2\) if an example.*Received: shape \(2,\)"),
        ([0, 2], [[0.5, 0.5]] * 2, "from 0 to 1, as there are 2 columns. Received: 2"),
        ([0, -1], [[0.5, 0.5]] * 2, "Received: -1"),
        ([0.0, 1.0], [[0.5, 0.5]] * 2, "class numbers.*float64"),
        ([0, 1], [[2.5, -1.5]] * 2, "Received: 2.5 in row 0. If these are logits"),
        ([0, 1], [[0.5, 0.5], [0.9, 0.9]], "sum of 1.8 in row 1"),
        ([0], [[math.nan, 0.5]], "finite `probabilities`"),
        ([0], [0.5], r"shape \(n, C\).*Received: shape \(1,\)"),
        ([], np.zeros((0, 2)), r"Received: shape \(0, 2\)"),
        ([[1], [0]], [[0.5], [0.4]], "at least two classes"),
        ([[1, 3]], [[0.5, 0.4]], "zeros and ones in `labels`. Received: 3"),
    ],
)
def test_errors(labels, probabilities, error):
    with pytest.raises(ValueError, match=error):
        evaluate_probabilities(labels, probabilities)


def test_errors_of_options():
    with pytest.raises(ValueError, match=r"each of the 2 classes\. Received: 1 names"):
        evaluate_probabilities([0], [[0.5, 0.5]], ["a"])
    with pytest.raises(ValueError, match=r"`num_bootstrap` of 0 or more\. Received: -1"):
        evaluate_probabilities([0], [[0.5, 0.5]], num_bootstrap=-1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("multi_label", [False, True])
def test_finds_the_temperature_that_the_labels_were_drawn_with(temperature, multi_label):
    rng = np.random.default_rng(0)
    true = 2 * rng.normal(size=(20000, 3))
    if multi_label:
        labels = rng.random(true.shape) < 1 / (1 + np.exp(-true))
    else:
        labels = (rng.random((20000, 1)) > softmax(true).cumsum(axis=1)).sum(axis=1)
    found = fit_temperature(true * temperature, labels)
    assert found == pytest.approx(temperature, rel=0.03)
    # Logits count up to a number added to a row.
    if not multi_label:
        shifted = true * temperature + 1000 * rng.normal(size=(20000, 1))
        assert fit_temperature(shifted, labels) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("multi_label", [False, True])
def test_no_other_temperature_is_more_likely(multi_label):
    rng = np.random.default_rng(3)
    labels = rng.integers(2, size=(50, 3)) if multi_label else rng.integers(3, size=50)
    logits = 4 * rng.normal(size=(50, 3)) + 2 * (labels if multi_label else np.eye(3)[labels])

    def loss(temperature):
        if multi_label:
            signs = 2 * labels - 1
            return np.log1p(np.exp(-signs * logits / temperature)).sum()
        return -np.log(softmax(logits / temperature)[np.arange(50), labels]).sum()

    best = fit_temperature(logits, labels)
    assert 0.01 < best < 100
    assert all(loss(best) < loss(best * factor) for factor in (0.5, 0.98, 1.02, 2))


def test_temperatures_at_the_ends():
    assert fit_temperature([[0.0, 5.0], [4.0, 0.0]], [1, 0]) == pytest.approx(0.01)
    assert fit_temperature([[0.0, 500.0], [400.0, 0.0]], [1, 0]) == pytest.approx(0.01)
    assert fit_temperature([[0.0, 5.0], [4.0, 0.0]], [0, 1]) == pytest.approx(100)
    assert fit_temperature([[2.0, 2.0], [0.0, 0.0]], [0, 1]) == 1.0
    with pytest.raises(ValueError, match="finite `logits`"):
        fit_temperature([[math.inf, 0.0]], [0])
