"""How well a text is predicted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attn.batches import scoring_windows
from keras_attn.generation import CompiledFunction
from keras_attn.ops.token_losses import token_cross_entropy
from keras_attn.progress import report
from keras_attn.tasks.base.checks import check_count, is_count
from keras_attn.tasks.text_generation.reading import TextGenerationReading
from keras_attn.tasks.text_generation.settings import TextGenerationUse

Tensor = Any


class TextScore(NamedTuple):
    """How well a model predicts a text.

    Example:

    >>> print(TextScore(2.25, characters=1000, unknown=0))
    2.2500 bits per character of 1,000
    """

    bits_per_character: float
    """Mean of `-log2 p(character | those before it)`."""
    characters: int
    """Number of characters."""
    unknown: int
    """How many of them the tokenizer does not know: for these it is the bits of `<unknown>`."""

    def __str__(self) -> str:
        text = f"{self.bits_per_character:.4f} bits per character of {self.characters:,}"
        return text + (f", {self.unknown:,} unknown to the model" if self.unknown else "")

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as a JSON-safe dict."""
        return self._asdict()


class TextGenerationScores(TextGenerationReading):
    """The scores of a text generator: a base class of `TextGenerator`."""

    def evaluate(
        self,
        text: str,
        context: int | None = None,
        batch_size: int = TextGenerationUse.batch_size,
    ) -> TextScore:
        """Scores a text: the bits that each of its characters takes, in the mean.

        Every token is scored once, in windows of `sequence_length` tokens that overlap: a token is
        predicted from at least `context` tokens before it, where the text has them, and at most
        `sequence_length - 1`. The longer the context the lower the score. The bits of all tokens
        are divided by the number of characters, whatever the tokens are; a special token that is
        read as such counts as a character.

        Args:
            text: A string.
            context: Below `sequence_length`; half of it if None. The work grows with
                `sequence_length / (sequence_length - context)`.
            batch_size: Windows scored at a time.

        Returns:
            `TextScore`.

        Raises:
            ValueError: If the text is empty, or the context or batch size out of range.
        """
        T = self.sequence_length
        context = T // 2 if context is None else context
        if not is_count(context, 0) or context >= T:
            raise ValueError(
                f"`context` must be an integer from 0 to below `sequence_length`={T}. "
                f"Received: {context!r}."
            )
        check_count("batch_size", batch_size)
        ids = self._encode(text)
        if not len(ids):
            raise ValueError("Expected a text with at least one character. Received: ''.")
        tokenizer = self.tokenizer
        windows, scored = scoring_windows(ids, tokenizer.start_id, tokenizer.pad_id, T, context)
        run = self._compiled.get("evaluate", lambda: CompiledFunction(self._losses, self.model))
        nats = 0.0
        for i in range(0, len(windows), batch_size):
            part = windows[i : i + batch_size]
            # One shape, for backends that compile for each.
            losses = run(np.resize(part, (batch_size, T + 1)), 1)[: len(part)]
            nats += float(losses[scored[i : i + batch_size]].sum(dtype="float64"))
            report(min(i + batch_size, len(windows)), len(windows), "windows")
        unknown = ids.tolist().count(tokenizer.unknown_id)
        characters = self._length(text)
        return TextScore(nats / math.log(2) / characters, characters, unknown)

    def _losses(self, ids: Tensor, max_length: Any) -> Tensor:
        """Nats `(B, T)` of each id `(B, T + 1)` but the first."""
        logits = self.model(ids[:, :-1], training=False)
        return token_cross_entropy(ids[:, 1:], ops.cast(logits, "float32"))
