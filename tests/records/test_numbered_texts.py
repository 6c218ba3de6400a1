"""Texts with a number: what is read, and what is refused."""

import itertools
import json

import numpy as np
import pytest

from keras_attn.records import NumberedText, read_numbered_texts, split_numbered
from keras_attn.records.numbered_texts import checked_numbered


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_tables_with_decimal_points_and_commas(tmp_path):
    point = write(tmp_path / "a.csv", "text,number\nGood.,4.5\nBad., -1e1 \n")
    comma = write(tmp_path / "b.csv", "text;number\nGood.;4,5\nBad.;-10\n")
    expected = [NumberedText("Good.", 4.5), NumberedText("Bad.", -10.0)]
    assert list(read_numbered_texts(point)) == list(read_numbered_texts(comma)) == expected
    assert read_numbered_texts(comma).summary().endswith(": 2 texts, numbers from -10 to 4.5.")


def test_pairs_and_numbers_of_json(tmp_path):
    rows = [{"a": "One.", "b": "Two.", "y": 3}, {"a": "One.", "b": "Six.", "y": 0.5}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    found = read_numbered_texts(path, "a", "y", "b")
    assert [x.input for x in found] == [("One.", "Two."), ("One.", "Six.")]
    assert [x.number for x in found] == [3.0, 0.5]


@pytest.mark.parametrize("wrong", ["good", "NaN", "inf", "", "1,5", "1e999", "1_000"])
def test_values_that_are_no_numbers(tmp_path, wrong):
    """A comma is no decimal point where commas are between cells."""
    path = write(tmp_path / "a.csv", f'text,number\nGood.,1\nBad.,"{wrong}"\n')
    with pytest.raises(ValueError, match=r"without: 1 without a number \(line 3: '.*' is not a n"):
        read_numbered_texts(path)
    assert len(read_numbered_texts(path, on_error="skip")) == 1


@pytest.mark.parametrize("wrong", ["true", "null", '"x"', "NaN", "[1]", "1" + "0" * 400])
def test_values_of_json_that_are_no_numbers(tmp_path, wrong):
    path = write(tmp_path / "a.jsonl", f'{{"text": "Good.", "number": {wrong}}}')
    with pytest.raises(ValueError, match="is not a number"):
        read_numbered_texts(path)


def test_examples_in_memory():
    given = [("a", 1), ("b", np.float32(2.5)), NumberedText("c", 3.0)]
    assert [x.number for x in checked_numbered(given)] == [1.0, 2.5, 3.0]
    pairs = [(("a", "b"), 1), ("a", "c", 2), NumberedText("a", 3.0, "d")]
    assert [x.input for x in checked_numbered(pairs)] == [("a", "b"), ("a", "c"), ("a", "d")]
    assert checked_numbered(checked_numbered(pairs)) == checked_numbered(pairs)
    for wrong in ("4", True, None, np.nan, np.inf, [1]):
        with pytest.raises(ValueError, match=r"Expected a finite number .* at position 1"):
            checked_numbered([("a", 1), ("b", wrong)])
    for wrong in [("a",), (1, 2), ("a", "b", "c", 1), "ab"]:
        with pytest.raises(ValueError, match=r"Expected .*number"):
            checked_numbered([("a", 1), wrong])
    with pytest.raises(ValueError, match="Received: both"):
        checked_numbered([("a", 1), (("a", "b"), 2)])
    with pytest.raises(ValueError, match="at least one"):
        checked_numbered([])


def test_equal_texts_are_on_one_side():
    words = ["".join(pair) for pair in itertools.product("abcdefghijklmnop", repeat=2)]
    texts = [NumberedText(word, float(i)) for i in range(2) for word in words]
    train, dev = split_numbered(texts, 0.3, seed=1)
    assert (len(train), len(dev)) == (358, 154)
    assert not {x.text for x in train} & {x.text for x in dev}
