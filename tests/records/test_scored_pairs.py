"""Readers of pairs with numbers: what they take, and what they say of bad lines."""

import itertools

import pytest

from keras_attn.records import ScoredPair, read_scored_pairs, split_scored_pairs
from keras_attn.records.scored_pairs import checked_scored_pairs


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def test_formats(tmp_path):
    table = write(tmp_path / "a.csv", 'score,sentence1,sentence2\n2,"a, b",c\n 1.5e0 ,d,e\n')
    expected = [ScoredPair("a, b", "c", 2.0), ScoredPair("d", "e", 1.5)]
    assert list(read_scored_pairs(table)) == expected
    objects = '{"a": "x", "b": "y", "n": 3}\n{"a": "x", "b": "y", "n": "4.5"}\n'
    lines = write(tmp_path / "a.jsonl", objects)
    assert [pair.score for pair in read_scored_pairs(lines, "a", "b", "n")] == [3.0, 4.5]
    # Columns by number: no header, quotation marks as they are, and further cells.
    tabs = write(tmp_path / "b.csv", 'x\t0.5\t"a\tb"\nx\t5\tc\td\tmore\tand more\n')
    found = read_scored_pairs(tabs, 2, 3, 1, "tsv")
    assert list(found) == [ScoredPair('"a', 'b"', 0.5), ScoredPair("c", "d", 5.0)]
    assert found.summary() == f"{tabs}: 2 pairs, scores from 0.5 to 5."
    semicolons = write(tmp_path / "c.csv", "a;b;1\n")
    assert len(read_scored_pairs(semicolons, 0, 1, 2, delimiter=";")) == 1


def test_bad_lines_are_named(tmp_path):
    rows = ["a,b,1", "a,,1", "a,b,much", "a,b,nan", "a,b", "c,d,2"]
    path = write(tmp_path / "a.csv", "\n".join(["sentence1,sentence2,score", *rows]))
    with pytest.raises(ValueError, match="4 of 7 lines") as error:
        read_scored_pairs(path)
    for words in ("line 3", "lines 4, 5; the first: 'much' is not a number", "line 6"):
        assert words in str(error.value)
    found = read_scored_pairs(path, on_error="skip")
    assert [pair.score for pair in found] == [1.0, 2.0]
    assert [problem.kind for problem in found.problems] == ["empty", "score", "score", "columns"]
    assert "Left out" in found.summary()
    null = write(tmp_path / "a.jsonl", '{"sentence1": "a", "sentence2": "b", "score": null}\n')
    with pytest.raises(ValueError, match="not a number"):
        read_scored_pairs(null)
    huge = '{"sentence1": "a", "sentence2": "b", "score": %s}\n' % ("9" * 401)
    huge = write(tmp_path / "b.jsonl", huge + huge.replace("9" * 401, "1"))
    found = read_scored_pairs(huge, on_error="skip")
    assert [p.kind for p in found.problems] == ["score"] and found[0].score == 1.0
    with pytest.raises(ValueError, match="no such column"):
        read_scored_pairs(path, "first")
    with pytest.raises(FileNotFoundError, match="Expected a file of scored pairs"):
        read_scored_pairs(tmp_path / "none.csv")


def test_checks():
    assert checked_scored_pairs([(("a", "b"), 1), ("c", "d", 2.5)]) == [
        ScoredPair("a", "b", 1.0), ScoredPair("c", "d", 2.5)
    ]  # fmt: skip
    numbers = [(("a", "b"), "1"), (("a", "b"), True)]
    for wrong in (("a", 1), ("a", "b"), (("a", 2), 1), "abc", *numbers):
        with pytest.raises(ValueError, match="at position 0"):
            checked_scored_pairs([wrong])
    for wrong in (float("nan"), None):
        with pytest.raises(ValueError, match="finite"):
            checked_scored_pairs([(("a", "b"), wrong)])
    with pytest.raises(ValueError, match="at least one pair"):
        checked_scored_pairs([])


def test_a_pair_that_is_turned_around_stays_on_its_side():
    letters = "abcdefghijklmnopqrst"
    pairs = [
        ScoredPair(f"word {one}", f"word {other}", float(i))
        for i, (one, other) in enumerate(itertools.permutations(letters, 2))
    ]
    train, dev = split_scored_pairs(pairs, 0.2, seed=2)
    assert sorted([*train, *dev], key=lambda pair: pair.score) == pairs
    assert len(dev) == 76
    sides = [{frozenset(pair[:2]) for pair in side} for side in (train, dev)]
    assert not sides[0] & sides[1]
