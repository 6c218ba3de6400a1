"""Errors of predicted numbers, by hand and by scikit-learn; the coverage of intervals."""

import json

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from keras_attn.metrics import conformal_margin, evaluate_numbers

RNG = np.random.default_rng(0)
TRUE = RNG.normal(size=200) * 3 + 5
FOUND = TRUE + RNG.normal(size=200)


def test_figures_are_those_of_scikit_learn():
    report = evaluate_numbers(TRUE, FOUND, guess=4.0, margin=1.0, num_bootstrap=20)
    assert report.mean_absolute_error.value == pytest.approx(mean_absolute_error(TRUE, FOUND))
    squared = root_mean_squared_error(TRUE, FOUND)
    assert report.root_mean_squared_error.value == pytest.approx(squared)
    assert report.guess_error.value == pytest.approx(np.abs(TRUE - 4).mean())
    assert report.within.value == pytest.approx((np.abs(TRUE - FOUND) <= 1).mean())
    for estimate in (report.mean_absolute_error, report.guess_error, report.within):
        assert estimate.low < estimate.value < estimate.high
    figures = json.loads(json.dumps(report.to_dict()))
    assert figures["guess"] == 4.0 and figures["pearson"]["value"] > 0.9


def test_a_report_without_guess_margin_and_samples():
    report = evaluate_numbers([1, 2], [2, 4], num_bootstrap=0)
    assert str(report).split("\n") == [
        "2 examples",
        "Mean absolute error      1.5000",
        "Root mean squared error  1.5811",
        "Pearson                  1.0000",
        "Spearman                 1.0000",
    ]
    assert "guess" not in report.to_dict()


def test_the_margin_is_an_error_of_its_rank():
    """k = ceil((n + 1) coverage): for 9 errors and 0.9 the greatest, for 0.8 the eighth."""
    errors = np.arange(1.0, 10)
    for coverage, expected in ((0.9, 9), (0.8, 8), (0.75, 8), (0.1, 1), (0.91, None)):
        assert conformal_margin(errors, np.zeros(9), coverage) == expected
    assert conformal_margin(-errors, np.zeros(9), 0.5) == 5
    assert conformal_margin([], [], 0.9) is None


@pytest.mark.parametrize("count, coverage", [(19, 0.9), (99, 0.9), (30, 0.5)])
def test_intervals_cover_their_share_of_new_numbers(count, coverage):
    """The share is at least the coverage on average, and at most 1 / (n + 1) more."""
    rng = np.random.default_rng(1)
    errors = rng.gamma(2.0, size=(4000, count + 1))  # any distribution
    covered = [e[-1] <= conformal_margin(e[:-1], np.zeros(count), coverage) for e in errors]
    noise = 3 * np.sqrt(coverage * (1 - coverage) / len(errors))
    assert coverage - noise < np.mean(covered) < coverage + 1 / (count + 1) + noise
