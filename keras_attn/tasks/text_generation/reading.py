"""How a text generator reads texts: characters or byte pairs, and special tokens between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_attn.fields import checked_texts
from keras_attn.generation import Recent, WindowDecoder
from keras_attn.models import TokenDecoder, language_decoder
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.text_generation.settings import TextGenerationData
from keras_attn.tasks.text_generation.starting import GeneratorLearned
from keras_attn.text import BytePairTokenizer, CharacterTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.text.special_tokens import pattern_of, readable_tokens

Tensor = Any


class Text(str):
    """A text with a line that sums it up.

    Args:
        text: The text.
        where: Where it is from.

    Example:

    >>> Text("to be", "hamlet.txt").summary()
    'hamlet.txt: 5 characters'
    """

    where: str

    def __new__(cls, text: str, where: str = "given") -> Self:
        """Makes a text that knows where it is from."""
        made = super().__new__(cls, text)
        made.where = where
        return made

    def summary(self) -> str:
        """Returns where it is from, and how long it is."""
        return f"{self.where}: {len(self):,} characters"


class TextGenerationReading(Task[str]):
    """What a text generator reads: a base class of `TextGenerator`."""

    data: TextGenerationData
    learned: GeneratorLearned

    @property
    def tokenizer(self) -> CharacterTokenizer | BytePairTokenizer:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def sequence_length(self) -> int:
        """Tokens of a window."""
        return self.data.sequence_length or self.learned.sequence_length

    @property
    def special_tokens(self) -> bool:
        """Whether special tokens that are written in a text are read as tokens."""
        return self.data.special_tokens

    @property
    def ends(self) -> bool:
        """Whether the model knows where texts end."""
        return self.learned.ends

    @ends.setter
    def ends(self, ends: bool) -> None:
        self.relearn(ends=bool(ends))

    @property
    def _compiled(self) -> Recent[Any]:
        return self.kept(Recent, "compiled")

    @property
    def _decoder(self) -> TokenDecoder | WindowDecoder:
        return self.kept(self._make_decoder, "decoder")

    def _make_decoder(self) -> TokenDecoder | WindowDecoder:
        decoder = language_decoder(self.model)
        if not hasattr(self.config, "sequence_length"):
            return decoder
        # It reads so many tokens at a time.
        return WindowDecoder(decoder, self.sequence_length, self.tokenizer.start_id)

    @property
    def longest_prompt(self) -> int:
        """Number of tokens that are read of a prompt, the last ones.

        For a recurrent model `sequence_length - 1`. A model that reads a limited number of tokens
        needs room for new ones: three quarters of that.
        """
        if isinstance(self._decoder, WindowDecoder):
            return self._decoder.longest_prompt - 1
        return self.sequence_length - 1

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

    def _prompt_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of prompts that are read, after the start token."""
        tokenizer, most = self.tokenizer, self.longest_prompt
        # A character that is no UTF-8 may become three: the last `most` of what is read.
        return [[tokenizer.start_id, *tokenizer.encode(text)[-most:]] for text in texts]

    def _padded(self, rows: Sequence[Sequence[int]], batch_size: int) -> np.ndarray:
        """Ids `(B, P)` of prompts, padded on the right; rows that only fill it come last."""
        tokenizer = self.tokenizer
        width, count = max(map(len, rows)), len(rows)
        if keras.backend.backend() == "jax":  # it compiles for each shape
            width, count = -(-width // 16) * 16, min(batch_size, 2 ** (count - 1).bit_length())
            width = min(width, self.longest_prompt + 1)
        ids = np.full((count, width), tokenizer.pad_id, "int32")
        ids[:, 0] = tokenizer.start_id
        for r, row in enumerate(rows):
            ids[r, : len(row)] = row
        return ids

    def _mask(self, ids: Tensor) -> Tensor:
        # The start token is read, though some vocabularies have one token for it and for padding.
        first = ops.cumsum(ops.ones_like(ids), axis=1) == 1
        return ops.logical_or(ops.not_equal(ids, self.tokenizer.pad_id), first)
