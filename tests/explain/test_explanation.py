"""Explanations: what they check, and what they show."""

import dataclasses

import numpy as np
import pytest

from keras_attn.explain import Explanation


def test_is_frozen_and_has_plain_parts():
    explanation = Explanation(
        "ab c", ["ab", "c"], np.array([[0, 2], [3, 4]]), [1, 2], "x", {"x": np.float32(0.5)}
    )
    assert explanation.tokens == ("ab", "c")
    assert explanation.offsets == ((0, 2), (3, 4))
    assert type(explanation.offsets[0][0]) is int
    assert type(explanation.probabilities["x"]) is float
    assert explanation.weights.dtype == "float64"
    assert repr(explanation) == "<Explanation of 2 tokens for 'x'>"
    with pytest.raises(AttributeError):
        explanation.label = "y"


def test_strongest():
    explanation = Explanation(
        "not 🙂 so good", ["[CLS]", "not", "b1", "b2", " so", " good"],
        [(0, 0), (0, 3), (3, 5), (4, 5), (5, 8), (8, 13)], [0.1, -0.9, 0.3, 0.4, 0.0, 0.5],
    )  # fmt: skip
    assert explanation.strongest(4) == [
        ("not", -0.9), ("🙂", pytest.approx(0.7)), ("good", 0.5), ("[CLS]", 0.1)
    ]  # fmt: skip
    assert len(explanation.strongest()) == 5


def test_marks_a_part_of_the_last_text():
    tokens = "Who", "<Ada", "Lee>", "codes"
    explanation = Explanation(
        "Who", tokens, [(0, 3), (0, 4), (5, 9), (10, 15)], [0, 1, 2, 3],
        second="<Ada Lee> codes", segments=[0, 1, 1, 1], marked=(0, 9),
    )  # fmt: skip
    question, text = explanation.html().split('<div class="text"')[1:]
    assert "<mark>" not in question and text.count("<mark>") == text.count("</mark>") == 1
    inside = text.split("<mark>")[1].split("</mark>")[0]
    assert "&lt;Ada" in inside and "Lee&gt;" in inside and "codes" not in inside
    plain = dataclasses.replace(explanation, marked=None)
    assert "<mark>" not in plain.html()
    for wrong in ((0, 16), (3, 3), (-1, 2)):
        with pytest.raises(ValueError, match=r"`marked` to be .* 0 <= start < end <= 15"):
            dataclasses.replace(explanation, marked=wrong)


def test_shows_itself(tmp_path):
    explanation = Explanation("<b>", ["<b>"], [(0, 3)], [0.5], "yes", {"yes": 0.9}, "attention")
    page = explanation.html()
    assert "<title>yes</title>" in page and "&lt;b&gt;" in page and "attention" in page
    assert "<title>T</title>" in explanation.html("T")
    fragment = explanation._repr_html_()
    assert "<html" not in fragment and fragment.count("<style>") == 1 and "&lt;b&gt;" in fragment
    figure = explanation.plot(tmp_path / "picture.svg", title="T")
    assert (tmp_path / "picture.svg").exists()
    assert figure.texts[0].get_text() == "T"
    assert figure._repr_png_()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            {"weights": [1.0]},
            r"each of the 2 tokens. Received: weights of shape \(1,\) and 2 offsets",
        ),
        ({"weights": [[1.0, 2.0]]}, r"shape \(1, 2\)"),
        ({"offsets": [(0, 1)]}, "1 offsets"),
        ({"weights": [1.0, np.nan]}, "finite `weights`"),
        ({"offsets": [(0, 1), (2, 5)]}, r"<= 4, the length .* Received: \(2, 5\)"),
        ({"offsets": [(0, 1), (2, 1)]}, r"Received: \(2, 1\)"),
        ({"label": "z"}, r"one of \['x'\]. Received: 'z'"),
        ({"probabilities": {"x": 1.5}}, "from 0 to 1"),
    ],
)
def test_errors(change, error):
    arguments = {
        "text": "ab c", "tokens": ["ab", "c"], "offsets": [(0, 2), (3, 4)],
        "weights": [1.0, 2.0], "label": "x", "probabilities": {"x": 0.5},
    }  # fmt: skip
    with pytest.raises(ValueError, match=error):
        Explanation(**{**arguments, **change})


def test_pairs_of_texts():
    explanation = Explanation(
        "a dog", ["dog", "[SEP]", "cats", "dog"], [(2, 5), (5, 5), (0, 4), (9, 12)],
        [0.1, 0.2, -0.9, 0.3], second="cats, no dog", segments=[0, 0, 1, 1],
    )  # fmt: skip
    assert explanation.strongest(2) == [("cats", -0.9), ("dog", 0.3)]
    page = explanation.html()
    first, second = page.split('<div class="text" dir="auto">')[1:]
    assert "a " in first
    assert "[SEP]" in first
    assert ">cats</span>" not in first
    assert ">cats</span>" in second.split('<p class="top">')[0]
    assert "no" in second
    for change in ({"segments": [0, 0, 1]}, {"segments": [0, 0, 1, 2]}, {"second": "cats"}):
        with pytest.raises(ValueError, match="Expected"):
            dataclasses.replace(explanation, **change)
