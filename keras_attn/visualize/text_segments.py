"""Pieces of a text and their weights."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

_JOINER = "\u200d"


class TextSegment(NamedTuple):
    """A piece of a text and its weight."""

    text: str
    weight: float | None
    """None if no token covers the piece, because it is white space or was not read."""
    start: int
    """Index of the first character. If it equals `end`, the token is not in the text."""
    end: int


def text_segments(
    text: str, tokens: Sequence[str], offsets: Sequence[tuple[int, int]], weights: Iterable[float]
) -> list[TextSegment]:
    """Splits a text at the borders of its tokens.

    Tokens that share a character, such as the bytes of an emoji, form one piece, whose weight is
    the sum of the tokens' weights. Tokens with a border within one visible character also form one
    piece: a letter and its accent, two halves of a flag, or characters with a zero-width joiner
    between them. A token that is not in the text, such as `[CLS]`, is a separate piece before or
    after the text, in the order of the tokens.
    """
    before: list[TextSegment] = []
    after: list[TextSegment] = []
    spans: list[list[Any]] = []
    for token, (start, end), weight in zip(tokens, offsets, weights, strict=True):
        if start < end:
            spans.append([int(start), int(end), float(weight)])
        elif spans:
            after.append(TextSegment(token, float(weight), len(text), len(text)))
        else:
            before.append(TextSegment(token, float(weight), 0, 0))
    spans.sort(key=lambda span: span[:2])
    merged: list[list[Any]] = []
    for start, end, weight in spans:
        if merged and (
            start < merged[-1][1] or (start == merged[-1][1] and _one_character(text, start))
        ):
            merged[-1][1] = max(end, merged[-1][1])
            merged[-1][2] += weight
        else:
            merged.append([start, end, weight])
    pieces, position = before, 0
    for start, end, weight in merged:
        if position < start:
            pieces.append(TextSegment(text[position:start], None, position, start))
        pieces.append(TextSegment(text[start:end], weight, start, end))
        position = end
    if position < len(text):
        pieces.append(TextSegment(text[position:], None, position, len(text)))
    return pieces + after


def strongest_pieces(segments: Iterable[TextSegment]) -> list[tuple[str, float]]:
    """Returns the pieces that have a weight, sorted by its absolute value, the greatest first."""
    weighed = [(s.text.strip() or s.text, s.weight) for s in segments if s.weight is not None]
    return sorted(weighed, key=lambda piece: -abs(piece[1]))


def _one_character(text: str, border: int) -> bool:
    """Whether a border lies within one visible character (simplified from Unicode's UAX 29)."""
    left, right = text[border - 1], text[border]
    if right == _JOINER or left == _JOINER or unicodedata.category(right) in ("Mn", "Me"):
        return not left.isspace()
    if "\U0001f3fb" <= right <= "\U0001f3ff":  # skin tones
        return True
    flags = 0
    while flags < border and "\U0001f1e6" <= text[border - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1 and "\U0001f1e6" <= right <= "\U0001f1ff"
