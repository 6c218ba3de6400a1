"""Words of a text with their places: one rule, in Python and as TensorFlow ops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_attn.text.ragged_rows import masked_rows, row_numbers

Tensor = Any

_SPACES = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = (
    "!-/:-@\\[-`{-~\xa1-\xa9\xab-\xb1\xb4\xb6-\xb8\xbb\xbf\xd7\xf7\u2010-\u2027\u2030-\u205e"
    "\u20a0-\u20cf\u2190-\u23ff\u3001-\u3020\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_LETTER = f"[^{_SPACES}{_MARKS}{_IDEOGRAPHS}]"
_DIGIT = "[0-9]"
# The first of these that fits at a place is taken: abbreviations such as U.S., words and numbers
# with marks inside, spaces, and any other character alone. Python's `re` and RE2 read it alike.
WORD = (
    f"[A-Za-z][.](?:[A-Za-z][.])+"
    f"|{_LETTER}+(?:['\u2019&/@_:,.\u2010-]{_LETTER}+)*"
    f"|[{_SPACES}]+"
    f"|(?s:.)"
)
_CUT = "\xff"
_WORD = re.compile(WORD)
_SPACE = re.compile(f"[{_SPACES}]")


class Word(NamedTuple):
    """A word with its place.

    Example:

    >>> Word("Ada", 3, 6).text
    'Ada'
    """

    text: str
    start: int
    """Place of its first character in the text."""
    end: int
    """Place behind its last character."""


def split_words(text: str) -> list[Word]:
    """Cuts a text into words and punctuation marks.

    White space parts words. A punctuation mark or symbol is a word of its own, unless letters or
    digits are right before and behind it, and it is one of ' ’ & / @ _ : , . - ("don't", "AT&T",
    "3.5", "well-known"). Single letters with a full stop behind each are one word ("U.S."). Each
    Chinese or Japanese character is a word. The words and the white space between them are the
    whole text.

    Args:
        text: A string.

    Returns:
        The words with their places.

    Example:

    >>> [word.text for word in split_words("U.S. shares fell 3.5%, didn't they?")]
    ['U.S.', 'shares', 'fell', '3.5', '%', ',', "didn't", 'they', '?']
    """
    return [
        Word(found.group(), found.start(), found.end())
        for found in _WORD.finditer(text)
        if not _SPACE.match(found.group())
    ]


def byte_places(text: str, places: Sequence[int]) -> list[int]:
    """Converts places of characters to places of bytes in UTF-8.

    Args:
        text: A string. A lone surrogate counts as the three bytes of U+FFFD.
        places: Places of characters, 0 to the length of the text.

    Returns:
        Places of bytes.

    Example:

    >>> byte_places("año", [0, 1, 2, 3])
    [0, 1, 3, 4]
    """
    if text.isascii():
        return list(places)
    ends = [0]
    for character in text:
        code = ord(character)
        ends.append(ends[-1] + 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF))
    return [ends[place] for place in places]


def split_words_graph(tf: Any, text: Tensor) -> tuple[Any, Any]:
    """Does the same as TensorFlow ops.

    Args:
        tf: The module `tensorflow`.
        text: Strings `(B,)` of valid UTF-8.

    Returns:
        The words, a ragged string tensor `(B, None)`, and the bytes where they begin, int32.

    Example:

    >>> import tensorflow as tf
    >>> words, starts = split_words_graph(tf, tf.constant(["¿Qué tal?"]))
    >>> [word.decode() for word in words.to_list()[0]], starts.to_list()
    (['¿', 'Qué', 'tal', '?'], [[0, 2, 7, 10]])
    """
    # No byte of UTF-8 is 0xFF, so it can part the words.
    cut = tf.strings.regex_replace(text, f"({WORD})", b"\\1\xff")
    parts = tf.strings.split(cut, b"\xff")
    # An empty string stands behind the last separator of each text.
    parts = masked_rows(tf, parts, tf.strings.length(parts.flat_values) > 0)
    lengths = tf.strings.length(parts.flat_values)
    starts = tf.cumsum(lengths, exclusive=True)
    before = tf.concat([starts, tf.reduce_sum(lengths)[None]], 0)  # an empty row may be the last
    starts -= tf.gather(tf.gather(before, parts.row_starts()), row_numbers(tf, parts))
    is_word = ~tf.strings.regex_full_match(parts.flat_values, f"[{_SPACES}]+")
    starts = parts.with_flat_values(starts)
    return masked_rows(tf, parts, is_word), masked_rows(tf, starts, is_word)


def character_places_graph(tf: Any, text: Tensor, places: Tensor) -> Tensor:
    """Converts places of bytes to places of characters, as TensorFlow ops.

    Args:
        tf: The module `tensorflow`.
        text: Strings `(N,)` of valid UTF-8.
        places: A place of bytes in each of them, int32 `(N,)`.

    Returns:
        Places of characters, int32 `(N,)`.

    Example:

    >>> import tensorflow as tf
    >>> character_places_graph(tf, tf.constant(["año"]), tf.constant([3])).numpy().tolist()
    [2]
    """
    before = tf.strings.substr(text, tf.zeros_like(places), places)
    return tf.strings.length(before, "UTF8_CHAR")
