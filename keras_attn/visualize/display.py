"""Conversion of text, tokens and probabilities for display."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥"})
_EMPTY = "∅"


def drawable(text: str) -> str:
    """Replaces characters that some files or browsers do not support."""
    text = _SURROGATE.sub("\ufffd", text).replace("\r\n", "\u200b\n").replace("\r", "\n")
    controls = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
    return text.translate({**controls, 0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)})


def percent(probability: float) -> str:
    """Formats a probability as a percentage; 100 % and 0 % appear only if they are exact."""
    if 0.9995 <= probability < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < probability < 0.0005 else f"{100 * probability:.1f} %"


class DisplayedToken(NamedTuple):
    """The displayed form of a token, and whether it continues a word."""

    text: str
    joined: bool
    """Whether the token continues the word of the previous token."""
    special: bool
    """Whether the token looks like a special token, such as `</s>` or `[CLS]`."""


def displayed_tokens(tokens: Sequence[str]) -> list[DisplayedToken]:
    """Determines which tokens form words, and how each token is displayed.

    If any token begins with `▁`, as in `BytePairTokenizer`, then `▁` stands for the space before a
    word, and tokens without `▁` continue a word. If any token begins with `##`, as in WordPiece,
    such tokens continue a word. Otherwise, each token is a word.
    """
    spaces = any(token.startswith("▁") for token in tokens)
    pieces = any(token.startswith("##") and len(token) > 2 for token in tokens)
    shown: list[DisplayedToken] = []
    for token in tokens:
        special = bool(_SPECIAL.fullmatch(token))
        after_special = not shown or shown[-1].special
        text, joined = token, False
        if spaces:
            text = token.removeprefix("▁") or token
            joined = not token.startswith("▁") and not special and not after_special
        elif pieces and token.startswith("##") and len(token) > 2:
            text, joined = token[2:], bool(shown)
        text = drawable(text).translate(_SIGNS).replace("\u200b", "") or _EMPTY
        shown.append(DisplayedToken(text, joined, special))
    return shown
