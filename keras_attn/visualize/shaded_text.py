"""Texts whose tokens are coloured by weight."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from keras_attn.visualize.display import drawable, percent
from keras_attn.visualize.text_segments import TextSegment, text_segments

_FOR = (253, 141, 60)
_AGAINST = (107, 174, 214)


class TextWeights(Protocol):
    """Interface of `Explanation`, or of any object with the same fields.

    For pairs of texts, the object also has the fields `second` and `segments`.
    """

    @property
    def text(self) -> str:
        """The text."""

    @property
    def tokens(self) -> Sequence[str]:
        """The readable tokens of the text."""

    @property
    def offsets(self) -> Sequence[tuple[int, int]]:
        """The range of characters of each token."""

    @property
    def weights(self) -> np.ndarray:
        """The weight of each token."""

    @property
    def label(self) -> str | None:
        """The class that the weights explain."""

    @property
    def probabilities(self) -> Mapping[str, float]:
        """The probability of each class."""

    @property
    def method(self) -> str:
        """Name of the method that computed the weights."""


def explained_pieces(
    explanation: TextWeights, prepare: Callable[[str], str] = str
) -> list[list[TextSegment]]:
    """Splits the text of an explanation, or each text of a pair, at the borders of the tokens."""
    second = getattr(explanation, "second", None)
    texts = [explanation.text] if second is None else [explanation.text, second]
    segments = getattr(explanation, "segments", None) or [0] * len(explanation.tokens)
    found = []
    for number, text in enumerate(texts):
        own = [i for i, segment in enumerate(segments) if segment == number]
        tokens = [explanation.tokens[i] for i in own]
        offsets = [explanation.offsets[i] for i in own]
        weights = [explanation.weights[i] for i in own]
        found.append(text_segments(prepare(text), tokens, offsets, weights))
    return found


class ShadedText:
    """The pieces of an explanation's text and their colours."""

    def __init__(self, explanation: TextWeights):
        self.texts = explained_pieces(explanation, drawable)
        """The pieces of the text, and for a pair the pieces of the second text."""
        self.segments = [piece for of_text in self.texts for piece in of_text]
        """All pieces."""
        weights = [segment.weight for segment in self.segments if segment.weight is not None]
        self.largest = max((abs(weight) for weight in weights), default=0.0)
        """Largest absolute weight of a piece."""
        self.signed = any(weight < 0 for weight in weights)
        """Whether any weight is negative."""
        self.title = ""
        """The label and its probability, if they are known."""
        if explanation.label is not None:
            probability = explanation.probabilities.get(explanation.label)
            number = "" if probability is None else f" {percent(probability)}"
            self.title = f"{explanation.label}{number}"

    def share(self, weight: float) -> float:
        """Returns the intensity of a weight's colour, from 0 to 1."""
        return min(abs(weight) / self.largest, 1) if self.largest else 0.0

    def color(self, weight: float) -> tuple[int, int, int]:
        """Returns the colour of a weight, (red, green, blue) from 0 to 255."""
        share = self.share(weight)
        deepest = _FOR if weight > 0 else _AGAINST
        red, green, blue = (round(255 + share * (c - 255)) for c in deepest)
        return red, green, blue

    def scale(self) -> list[tuple[int, int, int]]:
        """Returns the colours of the lowest weight (if below 0), of 0 and of the highest weight."""
        lowest = [self.color(-self.largest)] if self.signed else []
        return [*lowest, (255, 255, 255), _FOR]
