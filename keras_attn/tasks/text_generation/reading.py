"""How a text generator reads texts: characters or byte pairs, and special tokens between them."""

from __future__ import annotations

from itertools import chain

import numpy as np

from keras_attn.fields import checked_texts
from keras_attn.text import BytePairTokenizer, CharacterTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.text.special_tokens import pattern_of, readable_tokens


class TextGenerationReading:
    """What a text generator reads: a base class of `TextGenerator`."""

    tokenizer: CharacterTokenizer | BytePairTokenizer
    special_tokens: bool

    @property
    def tokens_in_text(self) -> dict[str, int]:
        """The special tokens that are read as such where they are written in a text: their ids."""
        return readable_tokens(self.tokenizer) if self.special_tokens else {}

    def has_ends(self, text: str) -> bool:
        """Whether a text has an end of a text that is read as such.

        Args:
            text: A string.
        """
        ends = getattr(self.tokenizer, "end_ids", (self.tokenizer.end_id,))
        return any(self.tokens_in_text[token] in ends for token in self._cut(text)[1])

    def _cut(self, text: str) -> tuple[list[str], list[str]]:
        """The parts of a text, and the special tokens between them that are read as such."""
        (text,) = checked_texts([text])
        if not self.special_tokens:
            return [text], []
        parts = pattern_of(self.tokens_in_text).split(text)
        return parts[::2], parts[1::2]

    def _encode(self, text: str) -> np.ndarray:
        """The ids of a text."""
        parts, tokens = self._cut(text)
        ids_of = self.tokens_in_text
        rows = [np.array(row, "int32") for row in self.tokenizer.encode(parts)]
        between = [np.array([ids_of[token]], "int32") for token in tokens]
        return np.concatenate([rows[0], *chain.from_iterable(zip(between, rows[1:], strict=True))])

    def _length(self, text: str) -> int:
        """Number of characters of a text, of which a special token that is read as such is one."""
        parts, tokens = self._cut(text)
        return sum(len(well_formed(part)) for part in parts) + len(tokens)
