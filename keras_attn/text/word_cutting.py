"""Patterns that split texts into words, for Python and TensorFlow graphs.

Both regular expression engines get the same patterns, which therefore have no lookaround, and no
classes that depend on the Unicode version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from keras_attn.text.bytes_of_text import SYMBOL_RANGES, UNSPACED_RANGES

_APOSTROPHE = r"['\u2019]"
_CLITICS = "s|S|m|M|d|D|re|RE|ve|VE|ll|LL"


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in ranges)


def _word_pattern() -> str:
    symbols, unspaced = _class(SYMBOL_RANGES), _class(UNSPACED_RANGES)
    letter = f"[^ 0-9{symbols}{unspaced}]"
    run = rf"(?:[0-9]+(?:[.,:][0-9]+)*|{letter})+"
    return "|".join(
        (
            rf"(?:{letter}\.){{2,}}",  # u.s.
            rf"{_APOSTROPHE}?{run}(?:(?:{_APOSTROPHE}|-){run})*",
            f"[{unspaced}]",
            r"\.\.\.|--|''|``",
            rf"[{symbols}][\u200c\u200d\ufe00-\ufe0f]*",
        )
    )


WORD = _word_pattern()
"""A word or mark in a text with normalized white space; only spaces remain between matches."""
ENDING = rf"^([^ ]+)([nN]{_APOSTROPHE}[tT]|{_APOSTROPHE}(?:{_CLITICS}))( |$)"
"""A word with a contraction at its end, of which one may already be split off."""
CLITIC = rf"{_APOSTROPHE}(?:{_CLITICS})"
"""An ending after an apostrophe."""
QUOTED = rf"{_APOSTROPHE}[^ ]+"
"""A word with an apostrophe before it."""
ROUNDS = 2
"""The maximum number of endings that are split off a word, such as two for "couldn't've"."""

_WORD, _ENDING, _CLITIC = re.compile(WORD), re.compile(ENDING), re.compile(CLITIC)


def in_graph(pattern: str) -> str:
    """Returns a pattern in the syntax of TensorFlow's engine, RE2."""
    return re.sub(r"\\U([0-9a-f]{8})|\\u([0-9a-f]{4})", r"\\x{\1\2}", pattern)


def cut_words(text: str) -> list[tuple[int, int]]:
    """Returns the spans of words and punctuation marks in a text, by `WordTokenizer`'s rules."""
    found = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        if end - start > 1 and ("'" in match[0] or "\u2019" in match[0]):
            found += _parts(match[0], start)
        else:
            found.append((start, end))
    return found


def _parts(word: str, start: int) -> list[tuple[int, int]]:
    """The spans of a word's parts, split at contractions and after an opening quotation mark."""
    ends = [len(word)]
    for _ in range(ROUNDS):
        ending = _ENDING.match(word[: ends[0]])
        if ending is None:
            break
        ends.insert(0, ending.end(1))
    first = word[: ends[0]]
    if first[0] in "'\u2019" and len(first) > 1 and not _CLITIC.fullmatch(first) and first != "''":
        ends.insert(0, 1)
    return [(start + a, start + b) for a, b in zip([0, *ends], ends, strict=False)]
