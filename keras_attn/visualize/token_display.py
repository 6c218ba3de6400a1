"""Tokens as people read them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from keras_attn.visualize.text_segments import drawable

_SPECIAL = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_SIGNS = str.maketrans({"\n": "↵", "\t": "⇥"})
_EMPTY = "∅"


class DisplayedToken(NamedTuple):
    """A token as it is shown.

    Example:

    >>> DisplayedToken("dog", joined=False, special=False).text
    'dog'
    """

    text: str
    joined: bool
    """Whether it goes on with the word of the token before it."""
    special: bool
    """Whether it looks like the name of a special token, such as `</s>` and `[CLS]`."""


def displayed_tokens(tokens: Sequence[str]) -> list[DisplayedToken]:
    """Finds out which tokens make up words, and how each is written.

    Where a token begins with `▁`, as those of `BytePairTokenizer` do, this is the space before a
    word, and the others go on with one; where one begins with `##`, as in WordPiece, it goes on
    with a word. Else each token is a word.

    Args:
        tokens: Readable tokens.

    Returns:
        A `DisplayedToken` for each. None is empty, and nothing in them breaks a line.

    Example:

    >>> [token.text for token in displayed_tokens(["A", "▁small", "er", "▁", "</s>"])]
    ['A', 'small', 'er', '▁', '</s>']
    >>> [token.joined for token in displayed_tokens(["[CLS]", "small", "##er"])]
    [False, False, True]
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
