"""Deletion curves of a model of which the best order is known."""

import itertools
import json

import numpy as np
import pytest

from keras_attn.explain import deletion_curve

GOOD = np.array([0.0, -1.0, 0.3, 2.0, 1.0, -0.5, 3.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, float)))


def predict(rows):
    """A linear model: the sum of what each token is worth."""
    positive = sigmoid([GOOD[np.asarray(row, int)].sum() for row in rows])
    return np.stack([1 - positive, positive], axis=1)


def test_by_hand():
    curve = deletion_curve(predict, [[3, 1, 4, 2]], [[2.0, -1.0, 1.0, 0.3]], [0.25, 0.5, 0.75, 1])
    heights = sigmoid([2.3, 0.3, -0.7, -1.0, 0.0])
    np.testing.assert_allclose(curve.probabilities, heights[None])
    assert curve.fractions == (0, 0.25, 0.5, 0.75, 1)
    by_trapezoids = (heights[0] / 2 + heights[1:4].sum() + heights[4] / 2) / 4
    assert curve.area == pytest.approx(by_trapezoids)
    half = deletion_curve(predict, [[3, 1, 4, 2]], [[2.0, -1.0, 1.0, 0.3]], [0.25, 0.5])
    assert half.area == pytest.approx((heights[0] / 2 + heights[1] + heights[2] / 2) / 2)
    assert curve.comprehensiveness == pytest.approx((heights[0] - heights[1:]).mean())


def test_the_worth_of_the_tokens_is_the_best_order():
    """No other order has a smaller area, and the class that is asked for may be any."""
    for ids in ([3, 1, 4, 2], [1, 5, 2, 1]):  # positive, negative
        sign = 1 if predict([ids])[0, 1] > 0.5 else -1
        fractions = [0.25, 0.5, 0.75]
        best = deletion_curve(predict, [ids], [sign * GOOD[ids]], fractions).area
        others = [
            deletion_curve(predict, [ids], [order], fractions, num_random=1).area
            for order in itertools.permutations(range(4))
        ]
        assert best == pytest.approx(min(others))
        assert max(others) > best + 0.1


def test_random_deletions_have_the_mean_of_all_orders():
    ids = [3, 1, 4, 2]
    expected = np.mean([predict([np.delete(ids, i)])[0, 1] for i in range(4)])
    curve = deletion_curve(predict, [ids], [GOOD[ids]], [0.25], num_random=2000)
    assert curve.random_probabilities[0, 1] == pytest.approx(expected, abs=0.01)
    assert curve.random_probabilities[0, 0] == pytest.approx(curve.probabilities[0, 0])


def test_equal_weights_are_no_order():
    """Tokens at the start decide here, and weights that are all equal must not know of it."""
    ids = [[3, 1, 2, 2]] * 200
    expected = np.mean([predict([np.delete(ids[0], i)])[0, 1] for i in range(4)])
    whole, first = (predict([row])[0, 1] for row in (ids[0], ids[0][1:]))
    curve = deletion_curve(predict, ids, [np.zeros(4)] * 200, [0.25])
    assert abs(curve.probabilities[:, 1].mean() - expected) < abs(first - whole) / 5
    again = deletion_curve(predict, ids, [np.zeros(4)] * 200, [0.25])
    assert np.array_equal(again.probabilities, curve.probabilities)


def test_tells_good_weights_from_noise():
    rng = np.random.default_rng(0)
    ids = [rng.integers(1, 7, size=rng.integers(5, 30)).tolist() for _ in range(60)]
    signs = [1 if p[1] > 0.5 else -1 for p in predict(ids)]
    good = deletion_curve(
        predict, ids, [sign * GOOD[row] for sign, row in zip(signs, ids, strict=True)]
    )
    noise = deletion_curve(predict, ids, [rng.random(len(row)) for row in ids], num_random=20)
    assert good.advantage().low > 0.05
    assert noise.advantage().low < 0 < noise.advantage().high
    assert good.advantage().value == pytest.approx(good.random_area - good.area)
    assert good.comprehensiveness > good.random_comprehensiveness + 0.05
    assert "60 texts" in str(good)
    assert json.loads(json.dumps(good.to_dict()))["num_texts"] == 60


def test_what_is_left_out():
    """Each call has the texts without their ceil(f * T) highest tokens, the rest in order."""
    asked = []

    def spy(rows):
        asked.append(rows)
        return predict(rows)

    ids = [[6, 1, 2, 3, 6], [6, 4, 6], [6, 6]]
    weights = [[9.0, 0.1, 0.3, 0.2, 8.0], [0.0, 0.5, 0.0], [1.0, 1.0]]
    deletion_curve(spy, ids, weights, [0.34, 1], num_random=1, keep=[6])
    assert asked[0] == ids
    ranked = asked[-2:]
    assert ranked == [[[6, 1, 6], [6, 6], [6, 6]], [[6, 6], [6, 6], [6, 6]]]
    assert all(isinstance(index, int) for row in ranked[0] for index in row)
    asked.clear()
    deletion_curve(spy, [[1] * 100], [range(100)], [0.07], num_random=1)
    assert len(asked[-1][0]) == 93  # 0.07 * 100 is 7.000000000000001
    asked.clear()
    deletion_curve(spy, [[1, 2, 3]], [[3.0, 2.0, 1.0]], [0.1, 1.0], num_random=1)
    assert asked[-2:] == [[[2, 3]], [[]]]


def test_seeds():
    ids = [[3, 1, 4, 2, 5, 6]]
    random = [
        deletion_curve(predict, ids, [GOOD[ids[0]]], seed=seed).random_area for seed in (0, 0, 1)
    ]
    assert random[0] == random[1] != random[2]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"ids": [], "weights": []}, "at least one. Received: 0 texts"),
        ({"weights": []}, "Received: 1 texts and 0 rows"),
        ({"weights": [[1.0]]}, r"each of the 2 ids of text 0. Received: shape \(1,\)"),
        ({"weights": [[1.0, np.nan]]}, "finite weights"),
        ({"fractions": [0.5, 0.2]}, "ascending `fractions`"),
        ({"fractions": [0.5, 1.2]}, "up to 1"),
        ({"fractions": [0]}, "above 0"),
        ({"fractions": []}, "above 0"),
        ({"num_random": 0}, "`num_random` must be an integer of at least 1"),
        ({"predict": lambda rows: [0.5]}, r"shape \(1, C\). Received: shape \(1,\)"),
        ({"predict": lambda rows: [[np.nan, 1]]}, "finite probabilities"),
    ],
)
def test_errors(change, error):
    arguments = {"predict": predict, "ids": [[3, 1]], "weights": [[1.0, 0.0]], **change}
    with pytest.raises(ValueError, match=error):
        deletion_curve(**arguments)
