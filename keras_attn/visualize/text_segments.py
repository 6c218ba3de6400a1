"""The pieces of a text that weights are shown on, and their colours."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

_FOR = (253, 141, 60)
_AGAINST = (107, 174, 214)
_JOINER = "\u200d"
_SURROGATE = re.compile("[\ud800-\udfff]")


class TextSegment(NamedTuple):
    """A piece of a text and what it weighs.

    Example:

    >>> TextSegment("good", 0.9, 0, 4).text
    'good'
    """

    text: str
    weight: float | None
    """None where no token covers it: white space, and what was not read."""
    start: int
    """First character; where it equals `end` the token has no place in the text."""
    end: int


def text_segments(
    text: str, tokens: Sequence[str], offsets: Sequence[tuple[int, int]], weights: Any
) -> list[TextSegment]:
    """Cuts a text at the borders of its tokens.

    Tokens that share a character, as the bytes of an emoji do, are one piece, and its weight is
    their sum. So are tokens that meet within what is seen as one character: a letter and its
    accent, two halves of a flag, what a zero-width joiner joins. A token without a place in the
    text, such as `[CLS]`, is a piece of its own, before the text or after it as among the tokens.

    Args:
        text: The text.
        tokens: T readable tokens; read only where they have no place.
        offsets: T `(start, end)` ranges of characters.
        weights: T numbers.

    Returns:
        `TextSegment`s in the order of the text; together they are all of it.

    Example:

    >>> pieces = text_segments("so good!", ["so", " go", "od"], [(0, 2), (3, 5), (5, 7)], [1, 2, 4])
    >>> [(piece.text, piece.weight) for piece in pieces]
    [('so', 1.0), (' ', None), ('go', 2.0), ('od', 4.0), ('!', None)]
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


def drawable(text: str) -> str:
    """Returns a text that any file can hold and any browser shows, of the same length.

    Args:
        text: Any string.

    Returns:
        The text with lone surrogates as U+FFFD, control characters as their pictures, and one
        newline for each kind of line end.

    Example:

    >>> drawable("a\\x00b\\n")
    'a␀b\\n'
    """
    text = _SURROGATE.sub("\ufffd", text).replace("\r\n", "\u200b\n").replace("\r", "\n")
    controls = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
    return text.translate({**controls, 0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)})


class TextWeights(Protocol):
    """What is drawn: an `Explanation` of the tasks, or anything that has the same fields.

    Example:

    >>> from keras_attn.tasks import Explanation
    >>> explanation = Explanation("good", ["good"], [(0, 4)], [0.5])
    >>> ShadedText(explanation).largest
    0.5
    """

    text: str
    tokens: Sequence[str]
    offsets: Sequence[tuple[int, int]]
    weights: np.ndarray
    label: str | None
    probabilities: Mapping[str, float]
    method: str


class ShadedText:
    """The pieces of an explanation's text and how each is coloured.

    Args:
        explanation: An `Explanation`.

    Example:

    >>> from keras_attn.tasks import Explanation
    >>> explanation = Explanation("so bad", ["so", "bad"], [(0, 2), (3, 6)], [0.25, -0.5])
    >>> shaded = ShadedText(explanation)
    >>> shaded.largest, shaded.signed, shaded.color(-0.5), shaded.color(0.0)
    (0.5, True, (107, 174, 214), (255, 255, 255))
    """

    def __init__(self, explanation: TextWeights):
        self.segments = text_segments(
            drawable(explanation.text), explanation.tokens, explanation.offsets, explanation.weights
        )
        weights = [segment.weight for segment in self.segments if segment.weight is not None]
        self.largest = max((abs(weight) for weight in weights), default=0.0)
        """Largest weight of a piece, without its sign."""
        self.signed = any(weight < 0 for weight in weights)
        """Whether there are weights below zero."""
        self.title = ""
        """The label and its probability, where there is one."""
        if explanation.label is not None:
            probability = explanation.probabilities.get(explanation.label)
            number = "" if probability is None else f" {percent(probability)}"
            self.title = f"{explanation.label}{number}"

    def color(self, weight: float) -> tuple[int, int, int]:
        """Gives the colour of a weight.

        Args:
            weight: Of a piece.

        Returns:
            Red, green and blue from 0 to 255: white to orange, or to blue below zero. Black
            letters can be read on each.
        """
        share = min(abs(weight) / self.largest, 1) if self.largest else 0.0
        deepest = _FOR if weight > 0 else _AGAINST
        red, green, blue = (round(255 + share * (c - 255)) for c in deepest)
        return red, green, blue

    def scale(self) -> list[tuple[int, int, int]]:
        """Gives the colours of the scale.

        Returns:
            Those of the lowest weight, of 0, and of the highest; without signs the last two.
        """
        lowest = [self.color(-self.largest)] if self.signed else []
        return [*lowest, (255, 255, 255), _FOR]


def percent(probability: float) -> str:
    """Writes a probability for people; it is 100 % or 0 % only where it is that exactly.

    Args:
        probability: 0 to 1.

    Returns:
        One decimal.

    Example:

    >>> percent(0.5), percent(0.9999), percent(1.0)
    ('50.0 %', '> 99.9 %', '100.0 %')
    """
    if 0.9995 <= probability < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < probability < 0.0005 else f"{100 * probability:.1f} %"


def _one_character(text: str, border: int) -> bool:
    """Whether a border lies within what is seen as one character (a part of Unicode's UAX 29)."""
    left, right = text[border - 1], text[border]
    if right == _JOINER or left == _JOINER or unicodedata.category(right) in ("Mn", "Me"):
        return not left.isspace()
    if "\U0001f3fb" <= right <= "\U0001f3ff":  # tones of skin
        return True
    flags = 0
    while flags < border and "\U0001f1e6" <= text[border - 1 - flags] <= "\U0001f1ff":
        flags += 1
    return flags % 2 == 1 and "\U0001f1e6" <= right <= "\U0001f1ff"
