"""Word characters for regular expressions."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata


@functools.cache
def word_characters() -> str:
    r"""Returns the content of a character class `[...]` that matches a character of a word.

    It consists of Python's `\w` and of combining marks (Unicode categories Mn and Mc), which `\w`
    does not match: vowels of Hindi and Tamil, points of Hebrew and Arabic, and accents that cannot
    be composed with their letter.
    """
    every = map(chr, range(sys.maxunicode + 1))
    return r"\w" + "".join(c for c in every if unicodedata.category(c) in ("Mn", "Mc"))


@functools.cache
def word_pattern() -> re.Pattern[str]:
    """Returns a pattern that matches a word of any script, with its combining marks."""
    return re.compile(rf"\w[{word_characters()}]*")
