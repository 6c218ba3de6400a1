"""Score of a language model on a text."""

from typing import Any, NamedTuple

from keras_attn.metrics.reports import json_safe


class TextScore(NamedTuple):
    """Score of a language model on a text or on documents, in bits per character.

    Example:

    >>> print(TextScore(2.25, characters=1000, unknown=0))
    2.2500 bits per character of 1,000
    """

    bits_per_character: float
    """Sum of `-log2 p(token | earlier tokens)` over the scored tokens, divided by `characters`."""
    characters: int
    """Number of characters. The end of each document of a list counts as one."""
    unknown: int
    """Number of tokens outside of the vocabulary, which are scored as `<unknown>`."""

    def __str__(self) -> str:
        text = f"{self.bits_per_character:.4f} bits per character of {self.characters:,}"
        return text + (f", {self.unknown:,} unknown to the model" if self.unknown else "")

    def to_dict(self) -> dict[str, Any]:
        """Returns `bits_per_character` (None for NaN), `characters` and `unknown` as a dict for
        JSON."""
        return {name: json_safe(value) for name, value in self._asdict().items()}
