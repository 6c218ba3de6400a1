"""Word weights from the weights of word pieces."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_attn.text import split_words


class WeightedWord(NamedTuple):
    """A word, or a part of a word, with its weight."""

    text: str
    place: tuple[int, int]
    """Index of the first character, and index after the last character."""
    weight: float


def weighted_words(
    text: str,
    places: Sequence[tuple[int, int]],
    weights: Sequence[float] | np.ndarray,
    marked: tuple[int, int] | None = None,
) -> list[WeightedWord]:
    """Returns the words of a text, each with the sum of the weights of its pieces."""
    starts = [word.start for word in split_words(text)]
    parts: dict[tuple[int, bool], list] = {}
    for (start, end), weight in zip(places, weights, strict=False):
        inside = marked is not None and start < marked[1] and end > marked[0]
        key = int(np.searchsorted(starts, start, side="right")), inside
        part = parts.setdefault(key, [start, end, 0.0])
        part[1] = max(part[1], end)
        part[2] += float(weight)
    return [WeightedWord(text[a:b], (a, b), weight) for a, b, weight in parts.values()]
