"""Words of a text and their places: the rule by hand, and the graph against Python."""

import random
import sys

import pytest
import tensorflow as tf

from keras_attn.fields import ODD_TEXTS
from keras_attn.text import byte_places, split_words, split_words_graph
from keras_attn.text.checks import well_formed

CASES = {
    "": [],
    " \n\t ": [],
    "Ada codes.": ["Ada", "codes", "."],
    "The U.S. and U.N.-backed e.g. J. Smith": [
        "The", "U.S.", "and", "U.N.", "-", "backed", "e.g.", "J", ".", "Smith",
    ],
    "don't don’t 'tis dogs' AT&T/IBM": ["don't", "don’t", "'", "tis", "dogs", "'", "AT&T/IBM"],
    "(3.5%), 1,000-2,000; 1996-12-06 10:30": [
        "(", "3.5", "%", ")", ",", "1,000-2,000", ";", "1996-12-06", "10:30",
    ],
    "well...ok :-) a@b.com a_b -x-": [
        "well", ".", ".", ".", "ok", ":", "-", ")", "a@b.com", "a_b", "-", "x", "-",
    ],
    "東京タワー is 高い。": ["東", "京", "タ", "ワ", "ー", "is", "高", "い", "。"],
    "¿Qué tal, Zoë?\u00a0«sí»": ["¿", "Qué", "tal", ",", "Zoë", "?", "«", "sí", "»"],
    "5€ $7 x=y": ["5", "€", "$", "7", "x", "=", "y"],
    "مرحبا بالعالم": ["مرحبا", "بالعالم"],
    "a\x00b": ["a\x00b"],
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_the_rule(text):
    words = split_words(text)
    assert [word.text for word in words] == CASES[text]
    end = 0
    for word in words:  # all that is between words is white space
        assert text[word.start : word.end] == word.text and not text[end : word.start].strip()
        end = word.end
    assert not text[end:].strip()


def test_places_of_bytes():
    text = "a\u00e9\u20ac\U0001f600\u05d0b"
    places = byte_places(text, range(len(text) + 1))
    assert places == [len(text[:n].encode()) for n in range(len(text) + 1)]
    assert byte_places("plain", [0, 3, 5]) == [0, 3, 5]
    assert byte_places("", [0]) == [0]
    odd = "x\ud800y"  # read as three U+FFFD, also from bytes in a graph
    assert byte_places(odd, [1, 2, 3]) == [1, 10, 11]
    assert len(well_formed(odd).encode()) == 11
    assert byte_places("\U0001f600" * 3, [3, 0]) == [12, 0]


def drawn_texts(count):
    rng = random.Random(0)
    pool = [chr(c) for c in range(0x3000)]
    pool += [chr(rng.randrange(0x3000, sys.maxunicode + 1)) for _ in range(3000)]
    pool += list("abcZ .,-'’&/@_:U.S.1234567890 \n\t\r\x00\x01") * 60
    pool = [c for c in pool if not 0xD800 <= ord(c) < 0xE000]
    return ["".join(rng.choices(pool, k=rng.randrange(40))) for _ in range(count)]


def test_the_graph_cuts_as_python_does():
    texts = [*CASES, *ODD_TEXTS, "x" * 3000, "a.b. c.d", "U.N.'s", *drawn_texts(4000)]
    words, starts = split_words_graph(tf, tf.constant([text.encode() for text in texts]))
    for text, found, begins in zip(texts, words.to_list(), starts.to_list(), strict=True):
        expected = split_words(text)
        assert found == [word.text.encode() for word in expected], repr(text)
        assert begins == byte_places(text, [word.start for word in expected]), repr(text)


def test_every_white_space_of_python_parts_words():
    """Beside the BOM and invisible marks, which are no white space for Python either."""
    for code in range(sys.maxunicode + 1):
        if chr(code).isspace():
            assert [w.text for w in split_words(f"a{chr(code)}b")] == ["a", "b"], hex(code)


def test_bytes_that_are_not_utf8():
    """The export transcodes; each maximal wrong part is U+FFFD, as `errors="replace"` gives it."""
    raw = [b"a\xffb \xc3", b"\xe2\x82 x", b"ok \xf0\x9f\x98\x80\xff\xfe", b"\xff\xff"]
    clean = tf.strings.unicode_transcode(raw, "UTF-8", "UTF-8")
    words, starts = split_words_graph(tf, clean)
    for data, found, begins in zip(raw, words.to_list(), starts.to_list(), strict=True):
        text = data.decode("utf-8", "replace")
        expected = split_words(text)
        assert found == [word.text.encode() for word in expected]
        assert begins == byte_places(text, [word.start for word in expected])
