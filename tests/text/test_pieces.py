"""Texts in pieces: whole characters, and stop strings."""

import random
import re

import pytest
import tensorflow as tf

from keras_attn.text import BytePairTokenizer, CharacterTokenizer
from keras_attn.text.pieces import (
    StopReader,
    TokenReader,
    checked_stops,
    cut_at_stop,
    stop_pattern,
)


def test_pieces_of_any_bytes_are_together_the_whole_text():
    """Valid, broken and cut UTF-8, byte by byte and some at a time."""
    tokenizer = BytePairTokenizer.train(["aé🙂b"], 259)
    of_byte = {piece[0]: i for i, piece in enumerate(tokenizer.token_bytes) if piece}
    rng = random.Random(0)
    texts = ["aé🙂\u2028b".encode(), b"\xf0\x9f\x99", b"a\xe2\x82x\xc3\xc3\xa9\xff"]
    texts += [
        bytes(rng.choices([0x61, 0xC3, 0xA9, 0xF0, 0x9F, 0x99, 0x82], k=9)) for _ in range(99)
    ]
    for text in texts:
        ids = [of_byte[byte] for byte in text]
        for size in (1, 2, 5):
            reader = TokenReader(tokenizer)
            pieces = [reader.read(ids[i : i + size]) for i in range(0, len(ids), size)]
            assert "".join(pieces) + reader.end() == text.decode("utf-8", "replace")
    reader = TokenReader(tokenizer)
    found = [reader.read([of_byte[byte]]) for byte in "é🙂".encode()]
    assert found == ["", "é", "", "", "", "🙂"]  # no half characters


def test_characters_are_pieces_by_themselves():
    tokenizer = CharacterTokenizer.train(["abc"])
    reader = TokenReader(tokenizer)
    assert [reader.read(tokenizer.encode(x)) for x in ("a", "bc", "")] == ["a", "bc", ""]
    assert reader.end() == ""


def first_stop(text, stops):
    """By regular expressions of Python: the leftmost match."""
    found = re.search("|".join(map(re.escape, stops)), text) if stops else None
    return text[: found.start()] if found else text


def test_stops_in_pieces_in_python_and_in_a_graph():
    rng = random.Random(1)
    cases = [
        ("abc", ("abc", "b")),  # what ends first does not begin first
        ("aab", ("ab",)),
        ("one\n\ntwo", ("\n\n",)),
        ("1+1=2. END", ("END", ".")),
        ("é🙂é", ("🙂",)),
        ("no stop", ()),
        ("a\x00b", ("\x00",)),
        ("ends with ab", ("abc",)),
        ("xab", ("abc", "b")),
    ]
    for _ in range(150):
        stops = tuple("".join(rng.choices("ab\n", k=rng.randint(1, 4))) for _ in range(2))
        cases.append(("".join(rng.choices("ab\nc", k=rng.randint(0, 12))), stops))
    for text, stops in cases:
        wanted = first_stop(text, stops)
        assert cut_at_stop(text, stops) == wanted
        for size in (1, 3):
            reader = StopReader(stops)
            pieces = [reader.read(text[i : i + size]) for i in range(0, len(text), size)]
            for i, _ in enumerate(pieces):  # nothing is taken back
                assert wanted.startswith("".join(pieces[: i + 1]))
            assert "".join(pieces) + reader.end() == wanted
            assert reader.stopped == (wanted != text)
        if stops:
            cut = tf.strings.regex_replace(tf.constant([text]), stop_pattern(stops), "")
            assert cut.numpy()[0].decode() == wanted


def test_only_what_may_begin_a_stop_string_is_held_back():
    reader = StopReader(("\n\n",))
    assert [reader.read(x) for x in ("a", "\n", "b", "\n", "\n", "c")] == [
        "a", "", "\nb", "", "", "",
    ]  # fmt: skip
    assert reader.stopped and reader.end() == ""


@pytest.mark.parametrize(
    ("stops", "error", "message"),
    [
        ("", ValueError, "empty string"),
        (["a", ""], ValueError, "empty string"),
        ([7], TypeError, "Received: 7"),
        (["\ud800"], ValueError, "half a character"),
    ],
)
def test_wrong_stops(stops, error, message):
    with pytest.raises(error, match=message):
        checked_stops(stops)
