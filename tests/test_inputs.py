"""One check for all that is read: what a list may be, and what no task learns from or reads."""

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from keras_attn.inputs import check_listed, listed, read_twice


class DataFrame:
    """As those of pandas and polars: its iterator gives the names of its columns."""

    columns = ("text", "label", 3)

    def __iter__(self):
        return iter(self.columns)


class Table:
    """As Arrow's, and data sets of Hugging Face."""

    column_names = ("text",)

    def __getitem__(self, name):
        return [name]

    def __len__(self):
        return 1


class Series:
    def __iter__(self):
        return iter(["a", "b"])


class ArrowArray(Series):
    def to_pylist(self):
        return ["c", "d"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["a", "b"], ["a", "b"]),
        (("a", "b"), ["a", "b"]),
        (iter(["a", "b"]), ["a", "b"]),
        ((x for x in "ab"), ["a", "b"]),
        (deque(["a", "b"]), ["a", "b"]),
        ({"b": 0, "a": 1}.keys(), ["b", "a"]),
        ({0: "b", 1: "a"}.values(), ["b", "a"]),
        (Series(), ["a", "b"]),
        (ArrowArray(), ["c", "d"]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([["a", "b"], ["c", "d"]], object), [["a", "b"], ["c", "d"]]),
        ([], []),
    ],
)
def test_lists(given, found):
    listed_now = listed(given, "texts")
    assert listed_now == found and {*map(type, listed_now)} <= {str, list}


REFUSED = [
    (DataFrame(), r"DataFrame, a table with the columns \['text', 'label', '3'\]. Give one column, "
     r"such as table\['text'\]"),
    (Table(), r"Table, a table with the columns \['text'\]. Give one column"),
    ({"text": ["a"]}, r"dict with the keys \['text'\]. Give a list, such as one of its values"),
    ({"a", "b"}, r"set, which has no order. Give a list"),
    (frozenset(["a"]), "frozenset, which has no order"),
    (b"abc", "bytes. Decode bytes first"),
    (bytearray(b"abc"), "bytearray. Decode"),
    (Path("a.csv"), r"the path 'a.csv'. Wrap"),
    (7, "7 of type int"),
    (None, "None of type NoneType"),
    (np.array("a"), ".*of type ndarray"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_is_no_list(given, message):
    if given is None:
        assert read_twice(given, "texts") is None  # there are no examples
        given = 7.5
        message = "7.5 of type float"
    for check in (listed, check_listed):
        with pytest.raises(TypeError, match=f"^Expected a list of texts. Received: (a )?{message}"):
            check(given, "texts")
    with pytest.raises(TypeError, match=f"Received: (a )?{message.split('. Give')[0]}"):
        read_twice(given, "texts")


def test_advice():
    with pytest.raises(TypeError, match=r"list\(zip\(table\['text'\], table\['label'\]\)\)"):
        listed(DataFrame(), "pairs", 2)
    with pytest.raises(TypeError, match=r"path 'a.csv'. Read the file: read\(path\)."):
        listed("a.csv", "pairs", 2, "read(path)")
    with pytest.raises(TypeError, match=r"'x+\.{4} Wrap it in a list"):
        listed("x" * 100_000, "texts")
    waiting = iter("ab")
    check_listed(waiting, "texts")
    assert list(waiting) == ["a", "b"]


def test_examples_are_read_more_than_once():
    assert read_twice("a whole text", "characters") == "a whole text"
    own = deque(["a"])
    assert read_twice(own, "texts") is own
    for given in (iter(["a"]), np.array(["a"]), ArrowArray()):
        assert read_twice(given, "texts") in (["a"], ["c", "d"])
