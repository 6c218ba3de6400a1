"""Pre-token patterns of byte-pair encoding, in Python and in TensorFlow graphs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_attn.packages import needed
from keras_attn.text.bytes_of_text import SPLIT_PATTERN

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = {"keras_attn": SPLIT_PATTERN, "gpt2": GPT2_PATTERN, "llama3": LLAMA3_PATTERN}
"""The pre-token patterns, keyed by name."""
# The end of the last two. Of several blanks before something else the last one is left to it.
_BLANKS_LEFT = r"\s+(?!\S)|\s+"


class GraphPattern(NamedTuple):
    r"""A pattern for RE2, TensorFlow's engine, without `\p` and lookahead."""

    match: str
    """The regular expression of a pre-token."""
    mark: str | None
    """Two groups between which a separator is inserted first, or None."""
    longest: int | None
    """Maximum number of characters of a pre-token; None if there is no limit."""


def graph_pattern(name: str) -> GraphPattern:
    r"""Returns the form of a pattern for TensorFlow's regular expressions.

    RE2 has no lookahead such as `\s+(?!\S)`, which matches a run of blanks without its last blank
    if another character follows. Instead, a separator is inserted before this last blank, and runs
    of blanks are then matched completely.

    The classes `\p{L}`, `\p{N}` and `\s` are written as the code points that the `tokenizers`
    library assigns to them, because other engines and releases use other versions of Unicode.
    """
    pattern = PATTERNS[name]
    if name == "keras_attn":  # a space and the longest match of a branch
        return GraphPattern(pattern, None, 1 + max(map(int, re.findall(r"{1,(\d+)}", pattern))))
    classes = {kind: _class(_code_points(kind)) for kind in (r"\p{L}", r"\p{N}", r"\s")}
    match = pattern.replace(_BLANKS_LEFT, r"\s+")
    for kind, characters in classes.items():
        # In brackets it is a part of a class, alone it is one.
        found = re.compile(rf"(\[[^\]]*){re.escape(kind)}")
        match = found.sub(functools.partial(_with_class, characters), match)
        match = match.replace(kind, f"[{characters}]")
    every = left = classes[r"\s"]
    if name == "llama3":  # the branch before takes all blanks up to the last line break
        left = _class(_without_breaks(_code_points(r"\s")))
    return GraphPattern(match, f"([{left}]+)([{left}][^{every}])", None)


def pre_tokenizer(name: str) -> Any:
    """Returns the pre-tokenizer of the `tokenizers` library for a pattern."""
    with needed("A byte-pair tokenizer"):
        from tokenizers import Regex, pre_tokenizers

    if name == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS[name]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _with_class(characters: str, bracket: re.Match[str]) -> str:
    return bracket[1] + characters


@functools.cache
def _code_points(kind: str) -> tuple[tuple[int, int], ...]:
    """The code point ranges of a class in the `tokenizers` library."""
    with needed("A byte-pair tokenizer"):
        from tokenizers import Regex, normalizers

    text = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    others = normalizers.Replace(Regex(f"{kind}+"), "").normalize_str(text)
    belongs = np.ones(0x110000 + 2, "int8")
    belongs[[0, -1]] = 0
    belongs[1 + 0xD800 : 1 + 0xE000] = 0  # surrogates
    belongs[1 + np.frombuffer(others.encode("utf-32-le"), "<u4")] = 0
    edges = np.flatnonzero(np.diff(belongs)).reshape(-1, 2)
    return tuple((int(first), int(end) - 1) for first, end in edges)


def _without_breaks(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    codes = [code for first, last in ranges for code in range(first, last + 1)]
    return [(code, code) for code in codes if chr(code) not in "\r\n"]


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in ranges)
