"""Neighbours, analogies and pairs of words, against loops and by hand."""

import numpy as np
import pytest

from keras_attn.metrics import WordSpace
from keras_attn.records import read_analogies, read_word_pairs

WORDS = [f"w{i}" for i in range(40)]
VECTORS = np.random.default_rng(0).normal(size=(40, 6))
SPACE = WordSpace(WORDS, VECTORS)


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_nearest_words_are_those_of_a_sort():
    units = [v / np.sqrt(v @ v) for v in VECTORS]
    wanted = units[3] + units[8] - units[5]
    expected = sorted((-cosine(wanted, v), w) for w, v in zip(WORDS, VECTORS, strict=True)
                      if w not in ("w3", "w5", "w8"))[:7]  # fmt: skip
    found = SPACE.nearest(["w3", "W8"], "w5", top_k=7)
    assert [n.word for n in found] == [w for _, w in expected]
    assert [n.similarity for n in found] == pytest.approx([-c for c, _ in expected], abs=1e-5)
    assert len(SPACE.nearest("w1", top_k=100)) == 39


@pytest.mark.parametrize("twin", [0, 3, 5])
def test_words_with_one_vector_share_an_answer(twin):
    """Wherever the twin of the right word stands."""
    words, vectors = (
        ["king", "queen", "man", "woman", "it"],
        [[2, 1], [2, -1], [1, 1], [1, -1], [-1, 0]],
    )
    words.insert(twin, "twin")
    vectors.insert(twin, [2, -1])
    report = WordSpace(words, vectors).analogies(
        {"family": [("man", "woman", "king", "queen")] * 2}
    )
    assert report.sections == {"family": (1.0, 2)}


def test_analogies_are_answered_by_a_loop(tmp_path):
    rng = np.random.default_rng(1)
    rows = [tuple(f"w{i}" for i in rng.permutation(40)[:4]) for _ in range(60)]
    units = [v / np.sqrt(v @ v) for v in VECTORS]
    right = {}
    for first in (0, 30):
        words, count, asked = WORDS[: first or 40], 0, 0
        for row in rows:
            if not set(row) <= set(words):
                continue
            a, b, c, d = (WORDS.index(word) for word in row)
            others = [i for i in range(len(words)) if i not in (a, b, c)]
            best = max(others, key=lambda i: cosine(units[b] - units[a] + units[c], units[i]))
            count, asked = count + (best == d), asked + 1
        right[first] = count, asked
    # Some questions whose answer is right, so that there is something to find.
    more = [(*r[:3], SPACE.nearest([r[1], r[2]], r[0], 1)[0].word) for r in rows[:10]]
    for first, (count, asked) in right.items():
        report = SPACE.analogies({"gram1": rows}, first)
        assert report.sections == {"gram1": (count, asked)}
        assert report.left_out == len(rows) - asked
    report = SPACE.analogies({"gram1": rows, "family": more}, 0)
    assert report.share(False) == 1.0 and report.share(True) == right[0][0] / 60
    assert "semantic 100.00 %" in str(report)


def test_questions_in_files(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text("a b c d\n: gram1-x y\nA B C D\n\n: family\ne f g h\n")
    found = read_analogies(path)
    assert list(found) == ["analogies", "gram1-x y", "family"]
    assert found["gram1-x y"] == [("A", "B", "C", "D")]
    path.write_text(": family\na b c\n")
    with pytest.raises(ValueError, match=r"four words.*'a b c' in line 2"):
        read_analogies(path)


@pytest.mark.parametrize(
    "text",
    [
        "# WordSim\n# Word 1\tWord 2\tHuman\nold\tnew\t1.58\nbig\tlarge\t9\n",
        "word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2\nbig\tlarge\tA\t9\t3\n",
        "Word 1,Word 2,Human (mean)\nold,new,1.58\nbig,large,9\n",
        "word1\tword2\trating\nold\tnew\t1.58\nbig\tlarge\t9\n",
    ],
)
def test_pairs_in_files(text, tmp_path):
    (tmp_path / "pairs").write_text(text)
    assert read_word_pairs(tmp_path / "pairs") == [("old", "new", 1.58), ("big", "large", 9.0)]


def test_pairs_that_cannot_be_read(tmp_path):
    (tmp_path / "pairs").write_text("old\tnew\t1\nbig\tlarge\tmuch\n")
    with pytest.raises(ValueError, match=r"two words and a number.*line 2"):
        read_word_pairs(tmp_path / "pairs")


def test_agreement_with_people_by_hand():
    """Ranks 3 1 2 against 3 2 1: Spearman 1 - 6 * 2 / (3 * 8) = 0.5."""
    angles = np.deg2rad([0, 10, 80, 40])
    space = WordSpace(list("abcd"), np.stack([np.cos(angles), np.sin(angles)], axis=1) * 7)
    pairs = [("a", "b", 9.0), ("a", "c", 5.0), ("A", "d", 1.0), ("a", "x", 3.0)]
    report = space.word_pairs(pairs)
    assert (round(report.spearman, 6), report.pairs, report.left_out) == (0.5, 3, 1)


def test_what_cannot_be():
    with pytest.raises(ValueError, match="'dog', which is not in the vocabulary of 40 words"):
        SPACE.nearest("dog")
    with pytest.raises(ValueError, match=r"each of the 2 words.*\(1, 1\)"):
        WordSpace(["a", "b"], [[1.0]])
