"""Mean reciprocal rank, average precision and recall."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from keras_attn.metrics.ranking import ranks_of, score_ranking


def test_by_hand():
    scores = [[3, 1, 2, 0], [0.1, 0.4, 0.2, 0.3]]
    report = score_ranking(scores, [[2, 3], [1]], at=(1, 2, 4), num_bootstrap=0)
    assert report.reciprocal_rank == pytest.approx((1 / 2 + 1) / 2)
    assert report.average_precision == pytest.approx(((1 / 2 + 2 / 4) / 2 + 1) / 2)
    assert report.recall == pytest.approx({1: 0.5, 2: 0.75, 4: 1.0})
    assert report.questions == 2
    assert report.interval is None


def test_equal_scores_help_nobody():
    assert ranks_of([1, 1, 1], [0]).tolist() == ranks_of([1, 1, 1], [2]).tolist() == [2.0]
    assert score_ranking([[0] * 9], [[4]], num_bootstrap=0).reciprocal_rank == pytest.approx(1 / 5)
    both = score_ranking([[0.9, 0.9, 0.1]], [[0, 1]], num_bootstrap=0)
    assert (both.reciprocal_rank, both.average_precision, both.recall[1]) == (1.0, 1.0, 0.5)


def test_equal_scores_have_their_mean_ranks_over_all_orders():
    scores, relevant = [3, 1, 1, 1, 2, 1, 0], [1, 3, 4, 6]
    orders = []
    for order in itertools.permutations(range(len(scores))):
        if sorted(scores, reverse=True) == [scores[i] for i in order]:
            orders.append([rank + 1 for rank, i in enumerate(order) if i in relevant])
    assert len(orders) == 24
    np.testing.assert_allclose(ranks_of(scores, relevant), np.mean(orders, axis=0))


def test_average_precision_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = rng.permutation(12).astype(float)  # it counts equal scores differently
        relevant = rng.choice(12, rng.integers(1, 6), replace=False).tolist()
        truth = np.isin(np.arange(12), relevant)
        found = score_ranking([scores], [relevant], num_bootstrap=0)
        assert found.average_precision == pytest.approx(average_precision_score(truth, scores))
        best = truth[np.argsort(-scores)]
        assert found.reciprocal_rank == pytest.approx(1 / (1 + int(np.argmax(best))))
        assert found.recall[5] == pytest.approx(best[:5].sum() / len(relevant))


def test_interval():
    rng = np.random.default_rng(0)
    relevant = [[int(i)] for i in rng.integers(2, size=200)]
    report = score_ranking([[1.0, 0.0]] * 200, relevant)
    low, high = report.interval
    error = np.std([1.0 if right == [0] else 0.5 for right in relevant]) / 200**0.5
    assert low < report.reciprocal_rank < high
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert report == score_ranking([[1.0, 0.0]] * 200, relevant)
    assert report.to_dict()["recall"]["1"] == report.recall[1]


@pytest.mark.parametrize(
    ("scores", "relevant"),
    [([], []), ([[1.0]], []), ([[1.0]], [[]]), ([[1.0]], [[1]]), ([[1.0]], [[-1]]),
     ([[float("nan")]], [[0]]), ([1.0], [[0]])],
)  # fmt: skip
def test_what_cannot_be_measured(scores, relevant):
    with pytest.raises(ValueError, match="Expected"):
        score_ranking(scores, relevant)
