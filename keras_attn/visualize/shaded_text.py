"""Texts with the weights of their tokens as colours."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from keras_attn.visualize.display import drawable, percent
from keras_attn.visualize.text_segments import text_segments

_FOR = (253, 141, 60)
_AGAINST = (107, 174, 214)


class TextWeights(Protocol):
    """What is drawn: an `Explanation`, or any object with the same fields.

    Example:

    >>> from keras_attn.explain import Explanation
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
    """The pieces of an explanation's text and their colours.

    Args:
        explanation: An `Explanation`.

    Example:

    >>> from keras_attn.explain import Explanation
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
        """Whether a weight is below zero."""
        self.title = ""
        """The label and its probability, if they are known."""
        if explanation.label is not None:
            probability = explanation.probabilities.get(explanation.label)
            number = "" if probability is None else f" {percent(probability)}"
            self.title = f"{explanation.label}{number}"

    def color(self, weight: float) -> tuple[int, int, int]:
        """Returns the colour of a weight.

        Args:
            weight: Weight of a piece.

        Returns:
            Red, green and blue from 0 to 255: white to orange, or white to blue if the weight is
            below zero. Black letters are readable on every colour.
        """
        share = min(abs(weight) / self.largest, 1) if self.largest else 0.0
        deepest = _FOR if weight > 0 else _AGAINST
        red, green, blue = (round(255 + share * (c - 255)) for c in deepest)
        return red, green, blue

    def scale(self) -> list[tuple[int, int, int]]:
        """Returns the colours of the scale.

        Returns:
            The colours of the lowest weight, of 0 and of the highest weight. The first is left
            out if no weight is below zero.
        """
        lowest = [self.color(-self.largest)] if self.signed else []
        return [*lowest, (255, 255, 255), _FOR]
