"""Normalization of texts, in Python and in TensorFlow graphs."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.hints import Tensor
from keras_attn.text.offsets import Offsets
from keras_attn.text.ragged_rows import row_numbers
from keras_attn.white_space import normalize_white_space, normalize_white_space_in_graph

if TYPE_CHECKING:
    import tensorflow as tf

# Korean syllables are composed by arithmetic (Unicode, section 3.12): a leading consonant and a
# vowel, then a trailing consonant.
_SYLLABLES, _LEADING, _VOWELS, _TRAILING = 0xAC00, 0x1100, 0x1161, 0x11A7
_NUM_LEADING, _NUM_VOWELS, _NUM_TRAILING = 19, 21, 28
_END_OF_SYLLABLES = _SYLLABLES + _NUM_LEADING * _NUM_VOWELS * _NUM_TRAILING
# A pair of code points as one number.
_SHIFT = 1 << 21


def normalize_text(text: str) -> str:
    """Normalizes white space and combining marks.

    Each run of white space becomes one space, and white space at both ends is removed. If Unicode
    has a composed character for a character and the combining mark after it, the two are composed,
    as in NFC: `e` and U+0301 become `é`. Unlike in NFC, a mark is not composed across another mark.
    Therefore, NFC text keeps its characters, and NFD text becomes NFC, except for rare sequences of
    marks.
    """
    if _marks().search(text):
        text = "".join(character for character, _ in _composed(text))
    return normalize_white_space(text)


def compose_with_offsets(text: str) -> tuple[str, Offsets]:
    """Returns the composed text, and the `(start, end)` of its characters in the original text."""
    characters, lengths = [], []
    for character, length in _composed(text) if _marks().search(text) else [(c, 1) for c in text]:
        characters.append(character)
        lengths.append(length)
    ends = list(itertools.accumulate(lengths))
    return "".join(characters), [
        (end - length, end) for end, length in zip(ends, lengths, strict=True)
    ]


def compose_in_graph(tf: ModuleType, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Composes combining marks with the characters before them, with TensorFlow ops.

    Returns:
        The composed texts, and the number of original bytes of each of their characters.
    """
    codes = tf.strings.unicode_decode(text, "UTF-8")
    sizes = 1 + sum(tf.cast(codes.flat_values > most, tf.int32) for most in (0x7F, 0x7FF, 0xFFFF))
    x, row, sizes = _composed_codes(tf, codes, sizes)
    found = tf.RaggedTensor.from_value_rowids(
        tf.cast(x, tf.int32), row, tf.size(text, tf.int64), validate=False
    )
    return tf.strings.unicode_encode(found, "UTF-8"), sizes


def normalize_with_offsets(text: str) -> tuple[str, Offsets]:
    """Returns the result of `normalize_text`, and the original position of each character."""
    characters: list[str] = []
    offsets: Offsets = []
    start = 0
    for character, length in _composed(text):
        end = start + length
        if not character.isspace():
            characters.append(character)
            offsets.append((start, end))
        elif characters and characters[-1] == " ":
            offsets[-1] = offsets[-1][0], end
        elif characters:
            characters.append(" ")
            offsets.append((start, end))
        start = end
    if characters and characters[-1] == " ":
        del characters[-1], offsets[-1]
    return "".join(characters), offsets


def normalize_text_in_graph(tf: ModuleType, text: tf.Tensor) -> tf.Tensor:
    """Normalizes texts like `normalize_text`, with TensorFlow ops."""
    text = normalize_white_space_in_graph(tf, text)
    marked = tf.strings.regex_full_match(text, f"(?s).*[{_mark_class()}].*")
    return tf.cond(tf.reduce_any(marked), lambda: compose_in_graph(tf, text)[0], lambda: text)


def _composed(text: str) -> list[tuple[str, int]]:
    """The composed characters of a text, each with its number of original characters."""
    found: list[tuple[str, int]] = []
    for character in text:
        both = _pair(ord(found[-1][0]), ord(character)) if found else None
        if both is None:
            found.append((character, 1))
        else:
            found[-1] = chr(both), found[-1][1] + 1
    return found


def _pair(first: int, second: int) -> int | None:
    """The composition of two code points, or None."""
    if second < 0x300:
        return None
    vowel, trailing = second - _VOWELS, second - _TRAILING
    if 0 <= first - _LEADING < _NUM_LEADING and 0 <= vowel < _NUM_VOWELS:
        return _SYLLABLES + ((first - _LEADING) * _NUM_VOWELS + vowel) * _NUM_TRAILING
    if _SYLLABLES <= first < _END_OF_SYLLABLES and 0 < trailing < _NUM_TRAILING:
        return None if (first - _SYLLABLES) % _NUM_TRAILING else first + trailing
    return _compositions().get((first, second))


@functools.cache
def _compositions() -> dict[tuple[int, int], int]:
    """The pairs of code points that NFC composes, without the Korean ones.

    No code point is the first of one pair and the second of another. Therefore all pairs of a text
    can be composed at once, in several rounds, with the same result as from left to right.
    """
    pairs = {}
    for code in range(0x18000):  # there are none beyond
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(code):
                pairs[first, second] = code
    return pairs


def _mark_class() -> str:
    """The characters that compose with the preceding one, as a character class of RE2."""
    ranges = [
        (_VOWELS, _VOWELS + _NUM_VOWELS - 1),
        (_TRAILING + 1, _TRAILING + _NUM_TRAILING - 1),
        *((code, code) for code in sorted({second for _, second in _compositions()})),
    ]
    return "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in ranges)


@functools.cache
def _marks() -> re.Pattern[str]:
    codes = re.sub(r"\\x\{([0-9A-F]+)\}", lambda code: chr(int(code[1], 16)), _mark_class())
    return re.compile(f"[{codes}]")


def places_in_graph(tf: ModuleType, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the original positions of normalized texts' characters, with TensorFlow ops."""
    codes = tf.strings.unicode_decode(text, "UTF-8")
    sizes = 1 + sum(tf.cast(codes.flat_values > most, tf.int32) for most in (0x7F, 0x7FF, 0xFFFF))
    x, row, sizes = _composed_codes(tf, codes, sizes)
    ends = tf.cumsum(sizes)
    before = tf.cumsum(tf.strings.length(text), exclusive=True)  # of the texts
    ends -= tf.gather(before, row)
    blank = tf.constant([code for code in range(0x3001) if chr(code).isspace()], tf.int64)
    place = tf.minimum(tf.searchsorted(blank, x), tf.size(blank) - 1)
    kept = tf.where(tf.gather(blank, place) != x)[:, 0]
    return tf.gather(ends - sizes, kept), tf.gather(ends, kept)


def _composed_codes(
    tf: ModuleType, codes: tf.RaggedTensor, sizes: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The composed code points of texts: flat values, their rows, and the sums of `sizes`."""
    pairs = sorted((a * _SHIFT + b, both) for (a, b), both in _compositions().items())
    with tf.device("CPU:0"):
        keys, values = (
            tf.constant(np.array(column, "int64")) for column in zip(*pairs, strict=True)
        )

        def composites(x: Tensor, row: Tensor) -> Tensor:
            """The code point that each one composes to with the next one, or -1: (N - 1,)."""
            first, second = x[:-1], x[1:]
            key = first * _SHIFT + second
            place = tf.minimum(tf.searchsorted(keys, key), len(pairs) - 1)
            both = tf.where(tf.gather(keys, place) == key, tf.gather(values, place), -1)
            leading, vowel = first - _LEADING, second - _VOWELS
            whole, trailing = first - _SYLLABLES, second - _TRAILING
            opens = (leading >= 0) & (leading < _NUM_LEADING) & (vowel >= 0) & (vowel < _NUM_VOWELS)
            closes = (whole >= 0) & (first < _END_OF_SYLLABLES) & (whole % _NUM_TRAILING == 0)
            closes &= (trailing > 0) & (trailing < _NUM_TRAILING)
            syllable = _SYLLABLES + (leading * _NUM_VOWELS + vowel) * _NUM_TRAILING
            both = tf.where(opens, syllable, tf.where(closes, first + trailing, both))
            return tf.where(row[:-1] == row[1:], both, -1)

        def one_round(x: Tensor, row: Tensor, sizes: Tensor, both: Tensor):
            gone = tf.concat([[False], both >= 0], axis=0)
            x = tf.concat([tf.where(both >= 0, both, x[:-1]), x[-1:]], axis=0)
            more = tf.concat([tf.where(both >= 0, sizes[1:], 0), tf.zeros_like(sizes[-1:])], axis=0)
            kept = tf.where(~gone)[:, 0]
            x, row, sizes = (tf.gather(values, kept) for values in (x, row, sizes + more))
            return x, row, sizes, composites(x, row)

        x, row = tf.cast(codes.flat_values, tf.int64), row_numbers(tf, codes)
        return tf.while_loop(
            lambda x, row, sizes, both: tf.reduce_any(both >= 0),
            one_round,
            (x, row, sizes, composites(x, row)),
            shape_invariants=(tf.TensorShape([None]),) * 4,
            parallel_iterations=1,
        )[:3]
