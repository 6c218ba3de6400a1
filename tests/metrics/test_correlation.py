"""Correlations against SciPy, and what they say of odd data."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from keras_attn.metrics import average_ranks, evaluate_scores, pearson, spearman

RNG = np.random.default_rng(0)
CASES = {
    "plain": (RNG.normal(size=50), RNG.normal(size=50)),
    "ties": (RNG.integers(0, 5, 200), RNG.integers(0, 7, 200) / 2),
    "far from zero": (1e6 + RNG.normal(size=30), 1e-9 * RNG.normal(size=30)),
    "two": (np.array([1.0, 2.0]), np.array([5.0, 3.0])),
}


@pytest.mark.parametrize("name", CASES)
def test_correlations_are_those_of_scipy(name):
    x, y = CASES[name]
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    np.testing.assert_array_equal(average_ranks(x), stats.rankdata(x))


@pytest.mark.parametrize("scale", [1e160, 3e307, 1e-160, 1e-200, 1e-310])
def test_numbers_whose_squares_overflow_or_vanish(scale):
    x, y = [1, 2, 3, 5], [1, 2, 4, 4]
    expected = stats.pearsonr(x, y).statistic
    assert pearson(np.array(x) * scale, np.array(y) * scale) == pytest.approx(expected, rel=1e-9)
    assert pearson(x, np.array(y) * scale) == pytest.approx(expected, rel=1e-9)


def test_a_constant_side_has_no_correlation():
    for x, y in (([1, 1, 1], [1, 2, 3]), ([0.1] * 3, [0.1] * 3), ([1], [2])):
        assert math.isnan(pearson(x, y))
        assert math.isnan(spearman(x, y))
    report = evaluate_scores([1, 1], [1, 2], num_bootstrap=5)
    assert report.to_dict()["pearson"] == {"value": None, "interval": None}
    assert str(report).count("undefined, as all scores are the same") == 2


def test_intervals_are_of_resampled_examples():
    x = RNG.normal(size=400)
    y = x + RNG.normal(size=400)
    report = evaluate_scores(x, y, num_bootstrap=400, seed=1)
    interval = stats.pearsonr(x, y).confidence_interval(0.95)  # Fisher's, by a formula
    assert report.pearson.low == pytest.approx(interval.low, abs=0.02)
    assert report.pearson.high == pytest.approx(interval.high, abs=0.02)
    assert report.spearman.low < report.spearman.value < report.spearman.high
    assert report == evaluate_scores(x, y, num_bootstrap=400, seed=1)
    assert json.loads(json.dumps(report.to_dict()))["num_examples"] == 400
    assert evaluate_scores(x, y, num_bootstrap=0).pearson.low is None


@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1]), ([], []), ([1, math.nan], [1, 2]), ([[1]], [[1]])]
)
def test_wrong_scores(x, y):
    with pytest.raises(ValueError, match="Expected"):
        evaluate_scores(x, y)
