"""Words of a text with their positions, in Python and with TensorFlow ops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from keras_attn.text.ragged_rows import join_rows, masked_rows, row_numbers

if TYPE_CHECKING:
    import tensorflow as tf

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
    """A word and its position in a text.

    Example:

    >>> Word("Ada", 3, 6).text
    'Ada'
    """

    text: str
    start: int
    """Index of the word's first character in the text."""
    end: int
    """Index after the word's last character."""


def split_words(text: str) -> list[Word]:
    """Splits a text into words and punctuation marks.

    White space separates words. A punctuation mark or symbol is a separate word, unless it is one
    of ' ’ & / @ _ : , . - and stands directly between letters or digits ("don't", "AT&T", "3.5",
    "well-known"). Two or more single Latin letters that are each followed by a period form one word
    ("U.S."). Each Chinese or Japanese character is a word. The words and the white space between
    them cover the whole text.

    Args:
        text: A string.

    Returns:
        The words with their positions.

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
    """Converts character positions to byte positions in UTF-8.

    Args:
        text: A string. A lone surrogate counts as the nine bytes of the three U+FFFD that
            tokenizers and SavedModels read instead.
        places: Character positions, from 0 to the length of the text.

    Returns:
        The byte positions, in the same order.

    Example:

    >>> byte_places("año", [0, 1, 2, 3])
    [0, 1, 3, 4]
    """
    if text.isascii():
        return list(places)
    ends = [0]
    for character in text:
        code = ord(character)
        size = 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)
        ends.append(ends[-1] + (9 if 0xD800 <= code < 0xE000 else size))
    return [ends[place] for place in places]


def split_words_graph(tf: ModuleType, text: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts like `split_words`, with TensorFlow ops.

    Args:
        tf: The module `tensorflow`.
        text: Strings `(B,)` of valid UTF-8.

    Returns:
        The words, ragged strings `(B, None)`, and their start bytes, ragged int32 `(B, None)`.

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


def character_places_graph(
    tf: ModuleType, text: tf.Tensor, places: tf.Tensor, rows: tf.Tensor | None = None
) -> tf.Tensor:
    """Converts byte positions to character positions, with TensorFlow ops.

    Each text is read only once for all positions.

    Args:
        tf: The module `tensorflow`.
        text: Strings `(B,)` of valid UTF-8.
        places: Byte positions in the texts, int32 `(N,)`.
        rows: For each position, the index of its text, int32 `(N,)`. If None, N must be B, and
            position i refers to text i.

    Returns:
        Character positions, int32 `(N,)`.

    Example:

    >>> import tensorflow as tf
    >>> text, places = tf.constant(["a", "año"]), tf.constant([3, 1, 2])
    >>> character_places_graph(tf, text, places, tf.constant([1, 0, 1])).numpy().tolist()
    [2, 1, 2]
    """
    data = tf.io.decode_raw(tf.strings.reduce_join(text), tf.uint8)
    begins = tf.cumsum(tf.cast(data & 0xC0 != 0x80, tf.int32))
    before = tf.concat([[0], begins], 0)  # characters that begin before each byte
    lengths = tf.strings.length(text)
    first = tf.cumsum(lengths, exclusive=True)
    if rows is not None:
        first, lengths = tf.gather(first, rows), tf.gather(lengths, rows)
    return tf.gather(before, first + tf.minimum(places, lengths)) - tf.gather(before, first)


def cut_texts_graph(
    tf: ModuleType, text: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Returns parts of texts, given the text and the bytes of each part, with TensorFlow ops.

    Unlike `tf.strings.substr`, this function does not need a copy of the text for each part.
    """
    letters = tf.strings.bytes_split(tf.strings.reduce_join(text)[None]).flat_values
    first = tf.gather(tf.cumsum(tf.strings.length(text), exclusive=True), rows)
    places = tf.ragged.range(first + starts, first + ends)
    return join_rows(tf, places.with_flat_values(tf.gather(letters, places.flat_values)))
