"""Texts with coloured tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from keras_attn.visualize.display import displayed_tokens
from keras_attn.visualize.web_page import escaped, page_files, web_page

_UNKNOWN = ("[UNK]", "<unk>")
_COLOURS = 4
_BACKGROUNDS = (153, 223, 157, 218)  # of a terminal with 256 colours: blue, yellow, green, pink
_POLICY = "style-src 'unsafe-inline'"


class _Piece(NamedTuple):
    text: str
    kinds: tuple[str, ...]
    """`special`, `unknown`, or `c0` to `c3`; `joined` and `goes-on` inside a word."""
    about: str

    @property
    def joined(self) -> bool:
        return "joined" in self.kinds


def coloured_tokens_html(
    tokens: Sequence[str] | Sequence[Sequence[str]],
    ids: Sequence | None = None,
    title: str = "Tokens",
) -> str:
    """Returns an HTML page that shows how a tokenizer splits texts.

    The page is a single file without scripts or external resources. The backgrounds of tokens cycle
    through four colours. Dotted lines separate the pieces of a word, and spaces separate words.
    Special tokens have a frame, and unknown tokens are underlined with a wavy line. Hovering over a
    token, or reaching it with the tab key, shows its vocabulary entry and, if given, its id.

    Args:
        tokens: Readable tokens of a text, as returned by a tokenizer's `tokens`, or a list of the
            tokens of each text.
        ids: The ids of the tokens, in the same structure. If None, no ids are shown.
        title: Heading of the page.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ValueError: If the numbers of ids and tokens differ.

    Example:

    >>> page = coloured_tokens_html(["[CLS]", "un", "##able", "<b>"], [2, 7, 8, 9])
    >>> 'title="##able, id 8, continues the word"' in page, "<b>" in page
    (True, False)
    """
    rows: Sequence[Any] = tokens
    if not tokens or isinstance(tokens[0], str):
        rows, ids = [tokens], None if ids is None else [cast(Sequence[int], ids)]
    of_rows: Sequence[Any] = [None] * len(rows) if ids is None else ids
    cards = [tokens_card(row, of_row) for row, of_row in zip(rows, of_rows, strict=True)]
    style = page_files("text_weights_page.css", "tokens.css")
    return web_page(title, "\n".join(cards), style, _POLICY)


def coloured_tokens_fragment(tokens: Sequence[str], ids: Sequence[int] | None = None) -> str:
    """Returns the coloured tokens of one text, as in `coloured_tokens_html`, as an HTML fragment.

    Args:
        tokens: Readable tokens of a text.
        ids: The ids of the tokens. If None, no ids are shown.

    Returns:
        An HTML string for a notebook or your own page: a card and a style sheet that applies only
        to the card.

    Raises:
        ValueError: If the numbers of ids and tokens differ.

    Example:

    >>> coloured_tokens_fragment(["un", "##able"]).count('class="word"')
    1
    """
    return f"<style>{page_files('tokens.css')}</style>{tokens_card(tokens, ids)}"


def coloured_tokens_text(tokens: Sequence[str], colour: bool = True) -> str:
    """Returns the tokens of a text as a line for a terminal.

    Dots separate the pieces of a word, and spaces separate words. With colours, the backgrounds of
    tokens cycle through four colours, and special and unknown tokens are inverted. Control
    characters are replaced by visible symbols, so that they do not affect the terminal.

    Args:
        tokens: Readable tokens of a text.
        colour: Whether to write ANSI codes for a terminal with 256 colours.

    Returns:
        The line, without a line break at the end.

    Example:

    >>> coloured_tokens_text(["[CLS]", "un", "##able", "!"], colour=False)
    '[CLS] un·able !'
    >>> print(repr(coloured_tokens_text(["so"])))
    '\\x1b[38;5;16;48;5;153mso\\x1b[0m'
    """
    line = ""
    for piece in _pieces(tokens, None):
        between = "" if not line else "·" if piece.joined else " "
        text = piece.text
        if colour:
            number = piece.kinds[0].removeprefix("c")
            code = f"38;5;16;48;5;{_BACKGROUNDS[int(number)]}" if number.isdigit() else "7"
            text = f"\x1b[{code}m{text}\x1b[0m"
        line += between + text
    return line


def tokens_card(tokens: Sequence[str], ids: Sequence[int] | None = None, more: str = "") -> str:
    """Returns the HTML card of one text, without the style sheet `tokens.css`."""
    pieces = _pieces(tokens, ids)
    spans = []
    for i, piece in enumerate(pieces):
        start = "" if piece.joined else f'{" " if i else ""}<span class="word">'
        about = escaped(piece.about)
        direction = ' dir="ltr"' if piece.kinds[0] in ("special", "unknown") else ""
        spans.append(
            f'{start}<span class="piece {" ".join(piece.kinds)}" tabindex="0"{direction} '
            f'title="{about}" data-about="{about}">{escaped(piece.text)}</span>'
            f"{'' if 'goes-on' in piece.kinds else '</span>'}"
        )
    return (
        f'<div class="kt" dir="ltr"><p class="tokens" dir="auto">{"".join(spans)}</p>{more}'
        f'<p class="soft">{_counts(pieces)}</p></div>'
    )


def _pieces(tokens: Sequence[str], ids: Sequence[int] | None) -> list[_Piece]:
    if ids is not None and np.shape(ids) != (len(tokens),):
        raise ValueError(
            f"Expected an id for each of the {len(tokens)} tokens. Received: ids of shape "
            f"{np.shape(ids)}."
        )
    shown = displayed_tokens(tokens)
    pieces = []
    for i, token in enumerate(shown):
        unknown = tokens[i] in _UNKNOWN
        kind = "unknown" if unknown else "special" if token.special else f"c{i % _COLOURS}"
        goes_on = i + 1 < len(shown) and shown[i + 1].joined
        kinds = (kind, *["joined"] * token.joined, *["goes-on"] * goes_on)
        about = [tokens[i] or token.text, *([] if ids is None else [f"id {int(ids[i])}"])]
        about += ["unknown to the vocabulary"] * unknown
        about += ["special token"] * (token.special and not unknown)
        about += ["continues the word"] * token.joined
        pieces.append(_Piece(token.text, kinds, ", ".join(about)))
    return pieces


def _counts(pieces: Sequence[_Piece]) -> str:
    special = sum(piece.kinds[0] == "special" for piece in pieces)
    unknown = sum(piece.kinds[0] == "unknown" for piece in pieces)
    joined = sum(piece.joined for piece in pieces)
    counts = [f"{len(pieces)} token{'' if len(pieces) == 1 else 's'}"]
    counts += [f"{joined} inside a word"] * (joined > 0)
    counts += [f"{special} special"] * (special > 0)
    counts += [f"{unknown} unknown"] * (unknown > 0)
    return ", ".join([*counts, *["no word"] * (special == len(pieces))])
