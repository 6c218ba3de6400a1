"""Scores of answers to questions about pictures, by hand."""

from itertools import combinations

import numpy as np
import pytest

from keras_attn.metrics import (
    agreement,
    attention_share,
    majority_answers,
    visual_question_scores,
)


@pytest.mark.parametrize("same", range(11))
def test_agreement_is_the_mean_over_all_nine_of_ten(same):
    """The official figure: min(1, n / 3) over each choice of nine people."""
    people = ["red"] * same + [f"other {i}" for i in range(10 - same)]
    by_nine = [min(1, nine.count("red") / 3) for nine in combinations(people, 9)]
    assert agreement("Red", people) == pytest.approx(np.mean(by_nine))


def test_scores_by_hand():
    people = [["yes"] * 10, ["red"] * 4 + ["pink"] * 6, ["2"] * 2 + ["3"] * 8]
    found = visual_question_scores(
        ["yes", "red", "2"], ["yes", "pink", "3"], people, ["y/n", "other", ""]
    )
    assert found == pytest.approx(
        {"accuracy": 1 / 3, "vqa_accuracy": (1 + 1 + (2 / 3 * 8 + 1 / 3 * 2) / 10) / 3,
         "accuracy of other": 0, "accuracy of y/n": 1}
    )  # fmt: skip
    assert visual_question_scores(["a"], ["a"], [()]) == {"accuracy": 1.0}
    with pytest.raises(ValueError, match="lists of equal length"):
        visual_question_scores(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="at least one"):
        visual_question_scores([], [])
    with pytest.raises(ValueError, match="answer of a person"):
        agreement("a", [])


def test_majority():
    train = [("a?", "x"), ("a?", "y"), ("b?", "y"), ("c?", "z"), ("c?", "z")]
    assert majority_answers(train, ["a?", "b?", "c?", "d?"]) == ["x", "y", "z", "y"]
    with pytest.raises(ValueError, match="Received: none"):
        majority_answers([], ["a?"])


def test_share_by_hand():
    """An object on the border of two rows of regions touches both."""
    weights = np.arange(1.0, 7.0).reshape(2, 3)
    assert attention_share(weights, (3, 0, 5, 2), (8, 6)) == pytest.approx((5 / 21, 2 / 6))
    assert attention_share(weights, (4, 4, 8, 6), (8, 6)) == pytest.approx((6 / 21, 1 / 6))
    assert attention_share(weights, (0, 1, 4, 3), (8, 6)) == pytest.approx((3 / 21, 2 / 6))
    with pytest.raises(ValueError, match="a box with pixels"):
        attention_share(weights, (3, 3, 3, 5), (8, 6))
