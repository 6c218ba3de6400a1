"""Scores of answers, by hand; and that one dull answer does not help."""

import math

import pytest

from keras_attn.metrics import (
    answer_scores,
    answer_words,
    commonest_share,
    distinct,
    embedding_average,
    nearest_answers,
    random_answers,
)


def test_distinct_by_hand():
    texts = ["I do not know", "i do it"]  # 7 words: i do not know it; 5 pairs: 4 of them different
    assert distinct(texts, 1) == 5 / 7
    assert distinct(texts, 2) == 4 / 5
    assert distinct(texts, 3) == 3 / 3
    assert distinct(["one"], 2) == distinct([], 1) == 0.0


def test_words_of_other_scripts():
    assert answer_words("Cafe\u0301, हिन्दी!") == ["caf\u00e9", ",", "हिन्दी", "!"]
    assert answer_words("שָׁלוֹם \u0301x") == ["שָׁלוֹם", "\u0301", "x"]


def test_the_commonest_answer():
    texts = ["I don't know.", "i DON'T  know .", "No.", "Yes.", "yes"]
    assert commonest_share(texts) == 2 / 5
    assert commonest_share(["a"] * 4) == 1.0


def test_embedding_average_by_hand():
    vectors = {"a": [3.0, 0.0], "b": [0.0, 4.0], "c": [-1.0, 0.0]}
    # (1.5, 2) and (3, 0): 1.5 / 2.5
    assert embedding_average(["A b?"], ["a"], vectors) == pytest.approx(0.6)
    # opposite, unknown, and a mean of length 0
    pairs = [("a", "c"), ("what", "a"), ("a a c c c c c c", "b")]
    found = embedding_average([p[0] for p in pairs], [p[1] for p in pairs], vectors)
    assert found == pytest.approx(-1 / 3)


def test_all_scores():
    scores, signature = answer_scores(["a b c d e", "x"], ["a b c d f", "y"], {"a": [1.0]})
    # 6 and 5 words; n-grams right: 4/6, 3/4, 2/3, 1/2
    assert scores["BLEU"] == pytest.approx(100 * (4 / 6 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert scores["embedding_average"] == 0.5
    assert (scores["distinct_1"], scores["commonest"]) == (1.0, 0.5)
    assert "tok:13a" in signature
    assert "embedding_average" not in answer_scores(["a"], ["a"])[0]
    with pytest.raises(ValueError, match="0 answers"):
        answer_scores([], [])


def test_a_dull_answer_is_seen():
    references = [f"This is answer {i} about {i * 7}." for i in range(20)]
    dull = answer_scores(["I don't know."] * 20, references)[0]
    right = answer_scores(references, references)[0]
    assert dull["commonest"] == 1.0 and right["commonest"] == 1 / 20
    assert dull["distinct_2"] < 0.1 < right["distinct_2"]


def test_training_contexts_without_a_word():
    assert nearest_answers(["hi", "?"], ["", " ."], ["a", "b"]) == ["a", "a"]


def test_baselines_by_hand():
    learnt = ["the red car", "the blue car", "the tea"]
    answers = ["one", "two", "three"]
    # "blue" and "tea" are rarer than "car"; nothing in common: the first.
    asked = ["a blue car", "car and tea", "zzz", ""]
    assert nearest_answers(asked, learnt, answers) == ["two", "three", "one", "one"]
    drawn = random_answers(answers, 300, seed=1)
    assert drawn == random_answers(answers, 300, seed=1) != random_answers(answers, 300, seed=2)
    for answer in answers:
        assert math.isclose(drawn.count(answer), 100, abs_tol=30)
