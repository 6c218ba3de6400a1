"""Exact matches and F1 of answers, as SQuAD's official script counts them."""

import numpy as np
import pytest

from keras_attn.metrics import answer_f1, common_words_answer, normalized_answer, score_answers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  U.S.\nArmy!", "us army"),
        ("a an the", ""),
        ("theory of an atom", "theory of atom"),
        ("well-known", "wellknown"),
        ("", ""),
        ("«Ünïcode»", "«ünïcode»"),
    ],
)
def test_normalized(text, expected):
    assert normalized_answer(text) == expected


def test_f1_by_hand():
    assert answer_f1("Oslo", "the Oslo") == 1
    assert answer_f1("in Oslo city", "Oslo") == pytest.approx(2 * 1 / (3 + 1))
    assert answer_f1("x x y", "x y y") == pytest.approx(2 * 2 / 6)
    assert answer_f1("Oslo", "Rome") == 0
    assert answer_f1("", "Oslo") == 0 == answer_f1("Oslo", "")
    assert answer_f1("", "the") == 1


def test_the_best_of_the_right_answers_counts():
    report = score_answers(
        ["in Oslo", "Rome", ""], [["Bergen", "Oslo"], ["Rome", "Milan"], ["Paris"]], 0
    )
    assert report.exact == pytest.approx(1 / 3)
    assert report.f1 == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert report.questions == 3 and report.without == 0 and report.without_right is None


def test_questions_without_an_answer():
    report = score_answers(["", "Oslo", "Rome"], [[], [], ["Rome"]], 0)
    assert (report.exact, report.f1) == pytest.approx((2 / 3, 2 / 3))
    assert (report.without, report.without_right) == (2, 0.5)
    assert "without an answer: 50.0 % right of 2" in str(report)
    assert (report.with_exact, report.with_f1) == (1, 1)
    assert "with an answer: exact match 100.0 %, F1 100.0 % of 1" in str(report)
    assert score_answers([""], [[]], 0).with_exact is None


def official(best, margins, right, threshold):
    """What `evaluate-v2.0.py` of SQuAD computes, in its own words."""
    has_ans = {k: bool(golds) for k, golds in right.items()}
    raw = {}
    for k, pred in best.items():
        golds = [a for a in right[k] if normalized_answer(a)] or [""]
        exact = max(int(normalized_answer(a) == normalized_answer(pred)) for a in golds)
        raw[k] = exact, max(answer_f1(pred, a) for a in golds)
    found = {}
    for i, name in enumerate(("exact", "f1")):
        scores = {
            k: float(not has_ans[k]) if margins[k] > threshold else s[i] for k, s in raw.items()
        }
        found[name] = sum(scores.values()) / len(scores)
        for kind, wanted in (("HasAns", True), ("NoAns", False)):
            some = [scores[k] for k in scores if has_ans[k] == wanted]
            found[f"{kind}_{name}"] = sum(some) / len(some)
    current = best_score = sum(not x for x in has_ans.values())
    best_threshold = None
    for k in sorted(margins, key=lambda k: margins[k]):
        current += raw[k][1] if has_ans[k] else (-1 if best[k] else 0)
        if current > best_score:
            best_score, best_threshold = current, margins[k]
    return {**found, "best_f1": best_score / len(raw), "best_f1_thresh": best_threshold}


def test_figures_are_those_of_the_official_script():
    rng = np.random.default_rng(0)
    words = "Oslo Rome Bern Kiel".split()
    thresholds = set()
    for _ in range(20):
        right = {k: [*rng.choice(words[:3], rng.integers(0, 3))] for k in range(30)}
        best = {k: " ".join(rng.choice(words, rng.integers(0, 3))) for k in range(30)}
        margins = {k: rng.normal() - bool(right[k]) for k in range(30)}
        threshold = float(rng.normal())
        expected = official(best, margins, right, threshold)
        given = ["" if margins[k] > threshold else best[k] for k in range(30)]
        report = score_answers(
            given, [*right.values()], 0, 0, [*best.values()], [*margins.values()]
        )
        assert report.exact == pytest.approx(expected["exact"])
        assert report.f1 == pytest.approx(expected["f1"])
        assert report.with_exact == pytest.approx(expected["HasAns_exact"])
        assert report.with_f1 == pytest.approx(expected["HasAns_f1"])
        assert report.without_right == pytest.approx(expected["NoAns_f1"])
        assert report.best_f1 == pytest.approx(expected["best_f1"])
        if expected["best_f1_thresh"] is None:
            assert report.best_threshold < min(margins.values())
        else:
            assert report.best_threshold == expected["best_f1_thresh"]
        thresholds.add(report.best_threshold)
        again = ["" if margins[k] > report.best_threshold else best[k] for k in range(30)]
        assert score_answers(again, [*right.values()], 0).f1 == pytest.approx(report.best_f1)
    assert len(thresholds) > 10


def test_questions_of_one_margin_are_answered_together():
    report = score_answers(["", ""], [["Oslo"], []], 0, 0, ["Oslo", "Rome"], [1.0, 1.0])
    assert report.best_f1 == 0.5 and report.best_threshold < 1
    assert "best F1 of these questions: 50.0 %" in str(report)
    text = score_answers(["", ""], [["Oslo"], []], 0, 0, ["Oslo", ""], [1.0, np.inf])
    assert (text.best_f1, text.best_threshold) == (1.0, 1.0)
    with pytest.raises(ValueError, match=r"Received: None values of `best` and 1"):
        score_answers(["x"], [["x"]], margins=[1.0])


def test_interval():
    report = score_answers(["x", "y"] * 100, [["x"]] * 200)
    low, high = report.interval
    assert low == pytest.approx(0.43, abs=0.015) and high == pytest.approx(0.57, abs=0.015)
    assert report.exact_interval == report.interval
    assert report.to_dict()["interval"] == report.interval


def test_a_right_answer_alone_is_not_read_letter_by_letter():
    with pytest.raises(TypeError, match=r"a list of right answers for each.*'Oslo'"):
        score_answers(["Oslo"], ["Oslo"])


def test_unequal_numbers():
    with pytest.raises(ValueError, match="2 answers to 1 questions"):
        score_answers(["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="at least one question"):
        score_answers([], [])


def test_answers_by_counting():
    text = "It rained in May. The first ship left Oslo in June. Nobody saw it come back."
    assert common_words_answer("When did the first ship leave?", text, 4) in text
    found = common_words_answer("Which ship left Oslo first?", text, 6)
    assert set(found.split()) & {"The", "in", "June"}
    assert common_words_answer("Where?", "") == ""
    assert common_words_answer("कहाँ?", "राम घर गया", 2) == "राम घर"  # vowels belong to words
    assert common_words_answer("", "one word", 8) == "one word"
