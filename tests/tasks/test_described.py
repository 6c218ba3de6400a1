"""What tells examples apart, so that a run does not go on with others."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from keras_attn.tasks.base.described import described
from keras_attn.tasks.base.fitted import Fitted


@dataclasses.dataclass
class Record:
    text: str
    labels: dict


class Row(NamedTuple):
    text: str
    score: float


class Silent:
    pass


class Pair(Silent):
    def __iter__(self):
        return iter(("a", "b"))


def digest(*examples):
    return Fitted.__new__(Fitted).digest(examples, [])  # which asks nothing of the task


DIFFERENT = [
    ({"text": "a"}, {"text": "b"}),
    ({"text": "a"}, {"other": "a"}),
    ({"text": {"deep": [1]}}, {"text": {"deep": [2]}}),
    (Record("a", {"x": 1}), Record("a", {"x": 2})),
    (Record("a", {}), Record("b", {})),
    (Row("a", 1.0), Row("a", 2.0)),
    ((Row("a", 1.0),), (Row("a", 2.0),)),
    # NumPy's `repr` leaves out the middle of long arrays.
    (("a", np.zeros(2000)), ("a", np.eye(1, 2000, 1000)[0])),
    ((np.zeros(2, "int32"),), (np.zeros(2, "int64"),)),
    ((np.zeros((2, 1)),), (np.zeros((1, 2)),)),
    ((np.array(["a", {"b": 1}], object),), (np.array(["a", {"b": 2}], object),)),
    (({"a", "b"},), ({"a", "c"},)),
    ((1,), ("1",)),
    (("ab", "c"), ("a", "bc")),
    ((True,), (1,)),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_examples_have_different_digests(one, other):
    assert digest(one) != digest(other)
    assert digest(one) == digest(one) and digest(one, other) != digest(other, one)


def test_the_same_examples_have_the_same_digest():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert described({"b", "a", "c"}) == described({"c", "b", "a"}) == "set('a', 'b', 'c')"
    assert described((Path("a/b"),)) == "('a/b',)"
    # What runs before had: the values of a named tuple, as `repr` shows them.
    for example in (("a", "b"), ("a", ["b", ("c", 1.5)], None), Row("a", 0.5), Pair(), ("a",), ()):
        assert digest(example) == digest_before(example)
    assert described((Row("a", 0.5),)) == repr((Row("a", 0.5),))


def digest_before(example):
    import hashlib

    return hashlib.sha256(f"{tuple(example)!r}\x00".encode() + b"\x01\x01").hexdigest()[:16]


def test_what_cannot_be_told_apart():
    with pytest.raises(TypeError, match=r"Received: Silent. Give its class a `__repr__`"):
        digest({"text": Silent()})
