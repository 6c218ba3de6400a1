import pickle

import pytest

from keras_attn.records import LineProblem, ParallelText, TranslationPair
from keras_attn.records.parallel import unique_pairs
from keras_attn.records.problems import PROBLEMS, describe_problems

PAIRS = [TranslationPair("a", "b"), TranslationPair("c", "d"), TranslationPair("a", "b")]


@pytest.fixture
def text():
    problems = [LineProblem(n, "empty", f"the target is empty, {n}") for n in range(11, 17)]
    problems += [LineProblem(12, "long", "the source has 9 characters"), problems[0]]
    return ParallelText(PAIRS, "a.tsv", 1012, 3, 1, False, problems)


def test_it_is_a_sequence_of_pairs(text):
    assert list(text) == PAIRS
    assert (len(text), text[1], text[-3:-1]) == (3, PAIRS[1], PAIRS[:2])
    assert PAIRS[1] in text
    assert text.index(PAIRS[1]) == 1
    assert pickle.loads(pickle.dumps(text)) == text
    with pytest.raises(IndexError):
        text[3]


def test_lines_with_two_problems_are_one_bad_line(text):
    assert text.counts == {
        **{"lines": 1012, "pairs": 3, "passed_over": 3, "repeated": 1, "bad_lines": 6},
        **{"empty": 6, "long": 1},
    }


def test_summary(text):
    assert text.summary() == (
        "a.tsv: 3 pairs of 1,012 lines. Left out: 6 with an empty side (lines 11, 12, 13, 14, 15, "
        "...; the first: the target is empty, 11); 1 with a side that is too long (line 12: the "
        "source has 9 characters). Passed over: 3 lines, blank or a header. Repeated: 1 pair, kept."
    )
    assert ParallelText(PAIRS[:1], "b", 1).summary() == "b: 1 pair of 1 line."
    assert ParallelText(PAIRS[:2], "b", 3, 0, 1, True).summary().endswith("1 pair, left out.")


def test_every_kind_has_words():
    for kind in PROBLEMS:
        assert describe_problems([LineProblem(4, kind, "so")]).endswith("(line 4: so)")


def test_unique_pairs_unite_their_groups():
    pairs = [TranslationPair("a", "b", ("y",)), TranslationPair("a", "c"), ("a", "b", ("x", "y"))]
    assert unique_pairs(pairs) == [("a", "b", ("x", "y")), ("a", "c", ())]
