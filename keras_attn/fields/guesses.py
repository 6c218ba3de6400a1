"""Predictions of masked words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Guess(NamedTuple):
    """The predictions of a pretrained encoder for a text.

    Example:

    >>> Guess("a [MASK]", [[("dog", 0.5), ("cat", 0.2)]], "a dog").filled
    'a dog'
    """

    text: str
    """The text, or the first text of a pair."""
    masks: list[list[tuple[str, float]]]
    """For each `[MASK]`, the most probable words with their probabilities, the best first."""
    filled: str
    """The text (or both texts, joined by a space) with masks replaced by the best words."""
    second: str | None = None
    """The second text of a pair; None for a single text."""
    follows: float | None = None
    """Probability that the second text follows the first; None for a single text."""

    @classmethod
    def made(
        cls,
        texts: Sequence[str],
        masks: list[list[tuple[str, float]]],
        of_first: int,
        follows: float | None,
    ) -> Guess:
        """Creates the `Guess` for a text or a pair, with the masks replaced by the best words.

        Args:
            texts: One or two texts.
            masks: For each `[MASK]` that the model read, words with their probabilities, the best
                first.
            of_first: Number of these masks that are in the first text.
            follows: Probability that the second text follows the first; None for a single text.

        Example:

        >>> Guess.made(["a [MASK]", "[MASK] b"], [[("c", 0.5)], [("d", 0.25)]], 1, 0.75).filled
        'a c d b'
        """
        best = [guesses[0][0] for guesses in masks]
        parts = zip(texts, (best[:of_first], best[of_first:]), strict=False)
        filled = " ".join(_filled(text, words) for text, words in parts)
        return cls(texts[0], masks, filled, texts[1] if len(texts) > 1 else None, follows)

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict for JSON with `text`, `second`, `follows`, `filled` and `masks`: for each
        mask, a list of dicts with `word` and `probability`. Probabilities have six decimals.
        """
        return {
            "text": self.text,
            "second": self.second,
            "follows": None if self.follows is None else round(self.follows, 6),
            "filled": self.filled,
            "masks": [
                [{"word": word, "probability": round(p, 6)} for word, p in guesses]
                for guesses in self.masks
            ],
        }


def _filled(text: str, words: Sequence[str]) -> str:
    """Replaces the first masks of a text by words."""
    for word in words:
        text = text.replace("[MASK]", word, 1)
    return text
