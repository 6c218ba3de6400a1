"""White space: every character, in Python and in the graph."""

import sys

import pytest
import tensorflow as tf

from keras_attn.white_space import normalize_white_space, normalize_white_space_in_graph


def in_graph(text):
    return normalize_white_space_in_graph(tf, tf.constant(text)).numpy().decode()


@pytest.mark.slow
def test_every_character():
    """Each alone between two letters; a space or itself."""
    characters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    texts = [f"a{c}b" for c in characters]
    found = normalize_white_space_in_graph(tf, tf.constant([t.encode() for t in texts])).numpy()
    for character, text, graph in zip(characters, texts, found, strict=True):
        expected = "a b" if character.isspace() else text
        assert normalize_white_space(text) == expected
        assert graph.decode() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \n\t\u3000 ", ""),
        ("  one \u00a0\u2009 two\r\n three ", "one two three"),
        ("a \x00 b\x00", "a \x00 b\x00"),
        ("\u200b x \ufeff", "\u200b x \ufeff"),
    ],
)
def test_runs_and_ends(text, expected):
    assert normalize_white_space(text) == expected
    assert in_graph(text.encode()) == expected


def test_broken_bytes():
    assert in_graph(b"a \xff\x85 b") == "a \ufffd\ufffd b"
