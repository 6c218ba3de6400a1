"""Word characters for regular expressions."""

from __future__ import annotations

import functools
import sys
import unicodedata


@functools.cache
def word_characters() -> str:
    r"""The content of a regular expression's brackets that matches a character of a word.

    It is Python's `\w` plus combining marks (Unicode categories Mn and Mc), which `\w` does not
    match: the vowels of Hindi and Tamil, the points of Hebrew and Arabic, and accents that Unicode
    does not compose.
    """
    every = map(chr, range(sys.maxunicode + 1))
    return r"\w" + "".join(c for c in every if unicodedata.category(c) in ("Mn", "Mc"))
