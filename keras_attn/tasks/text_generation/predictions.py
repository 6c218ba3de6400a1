"""Continuations of texts, and how well a text is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.batches import scoring_windows
from keras_attn.fields import checked_texts
from keras_attn.generation import CompiledFunction, Generation, row_seeds, sample
from keras_attn.generation.sampling import check_sampling
from keras_attn.tasks.checks import check_count, is_count
from keras_attn.tasks.text_generation.settings import (
    TextGenerationUse,
)
from keras_attn.text import CharacterTokenizer
from keras_attn.text.checks import well_formed
from keras_attn.training.losses import token_cross_entropy

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
    """Number of characters, each scored once."""
    unknown: int
    """How many of them the tokenizer does not know: for these it is the bits of `<unknown>`."""

    def __str__(self) -> str:
        text = f"{self.bits_per_character:.4f} bits per character of {self.characters:,}"
        return text + (f", {self.unknown:,} unknown to the model" if self.unknown else "")

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as a JSON-safe dict."""
        return self._asdict()


class TextGenerationPredictions:
    """The predictions of a text generator: a base class of `TextGenerator`."""

    tokenizer: CharacterTokenizer
    sequence_length: int
    model: keras.Model
    _decoder: Any
    _compiled: dict[Any, CompiledFunction]

    def evaluate(
        self,
        text: str,
        context: int | None = None,
        batch_size: int = TextGenerationUse.batch_size,
    ) -> TextScore:
        """Scores a text: the bits that each of its characters takes, in the mean.

        Every character is scored once, in windows of `sequence_length` characters that overlap: a
        character is predicted from at least `context` characters before it, where the text has
        them, and at most `sequence_length - 1`. The longer the context the lower the score.

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
        run = self._compile("evaluate", self._losses)
        nats = 0.0
        for i in range(0, len(windows), batch_size):
            part = windows[i : i + batch_size]
            # One shape, for backends that compile for each.
            losses = run(np.resize(part, (batch_size, T + 1)), 1)[: len(part)]
            nats += float(losses[scored[i : i + batch_size]].sum(dtype="float64"))
        unknown = int((ids == tokenizer.unknown_id).sum())
        return TextScore(nats / math.log(2) / len(ids), len(ids), unknown)

    def _losses(self, ids: Tensor, max_length: Any) -> Tensor:
        """Nats `(B, T)` of each id `(B, T + 1)` but the first."""
        logits = self.model(ids[:, :-1], training=False)
        return token_cross_entropy(ids[:, 1:], ops.cast(logits, "float32"))

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        num_characters: int = TextGenerationUse.num_characters,
        temperature: float = TextGenerationUse.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = TextGenerationUse.repetition_penalty,
        no_repeat_ngram_size: int = TextGenerationUse.no_repeat_ngram_size,
        seed: int | Sequence[int] = TextGenerationUse.seed,
        batch_size: int = TextGenerationUse.batch_size,
    ) -> Any:
        """Continues texts.

        The same prompts, settings and seed give the same texts, whatever they are batched with and
        on which backend, but for rounding; see `keras_attn.generation.sample`.

        Args:
            prompts: A string or a list of strings; `""` is the beginning of nothing in particular.
                Of each the last `sequence_length - 1` characters are read.
            num_characters: Number of new characters.
            temperature: Above 0; below 1 more sober, above 1 wilder.
            top_k: Number of most probable characters that may come, or None.
            top_p: Total probability of the characters that may come, or None.
            min_p: Smallest probability that may come, as a share of the greatest, or None.
            repetition_penalty: Above 1: characters that were there come less often. At the level
                of characters that soon spoils the spelling.
            no_repeat_ngram_size: Above 0: a sequence of so many characters never comes twice.
            seed: Integer, of which each prompt gets a seed of its own; or a list of seeds.
            batch_size: Texts generated at a time.

        Returns:
            The prompt and what follows: a string for a string, a list for a list.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If a setting is out of range.
        """
        check_count("num_characters", num_characters)
        check_count("batch_size", batch_size)
        settings = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        check_sampling(**settings)
        one = isinstance(prompts, str)
        texts = checked_texts([prompts] if one else prompts)
        seeds = np.asarray(seed)
        if seeds.ndim and len(seeds) != len(texts):
            raise ValueError(
                f"`seed` must be an integer, or one for each of the {len(texts)} prompts. "
                f"Received: {len(seeds)}."
            )
        seed = seed if seeds.ndim == 0 else seeds
        if not texts:
            return []
        seeds = ops.convert_to_numpy(row_seeds(seed, ops.arange(len(texts), dtype="int32")))
        key = ("generate", *settings.values())
        run = self._compile(key, lambda *inputs: self.continue_ids(*inputs, **settings).tokens)
        results = []
        for i in range(0, len(texts), batch_size):
            ids, rows = self._prompt_ids(texts[i : i + batch_size], batch_size)
            of_rows = np.resize(seeds[i : i + batch_size], len(ids))
            results += run(ids, num_characters, of_rows)[:rows].tolist()
        tokens = self.tokenizer.decode(results)
        results = [well_formed(t) + new for t, new in zip(texts, tokens, strict=True)]
        return results[0] if one else results

    predict = generate  # as all tasks call what they are for

    def _prompt_ids(self, texts: list[str], batch_size: int) -> tuple[np.ndarray, int]:
        """Ids `(B, P)` of prompts, padded on the right, and the number of rows that are real."""
        tokenizer, most = self.tokenizer, self.sequence_length - 1
        rows = [
            # A character that is no UTF-8 may become three: the last `most` of what is read.
            [tokenizer.start_id, *tokenizer.encode(text)[-most:]]
            for text in texts
        ]
        width, count = max(map(len, rows)), len(rows)
        if keras.backend.backend() == "jax":  # it compiles for each shape
            width, count = -(-width // 16) * 16, min(batch_size, 2 ** (count - 1).bit_length())
        ids = np.full((count, width), tokenizer.pad_id, "int32")
        ids[:, 0] = tokenizer.start_id
        for r, row in enumerate(rows):
            ids[r, : len(row)] = row
        return ids, len(rows)

    def continue_ids(
        self, ids: Tensor, max_length: Any, seeds: Tensor, **settings: Any
    ) -> Generation:
        """Samples after prompts; for any backend, and for the export.

        Args:
            ids: `(B, P)`: the start token, the prompt, padding.
            max_length: Number of new characters; an integer, or a tensor in a graph.
            seeds: int32 `(B,)`.
            **settings: Of `sample`.

        Returns:
            `Generation`.
        """
        tokenizer = self.tokenizer
        special = (tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id)
        return sample(
            self._decoder,
            ids,
            ops.not_equal(ids, tokenizer.pad_id),
            max_length=max_length,
            end_id=None,
            pad_id=tokenizer.pad_id,
            suppressed_ids=special,
            seed=seeds,
            **settings,
        )

    def _compile(self, key: Any, function: Callable) -> CompiledFunction:
        if key not in self._compiled:
            self._compiled[key] = CompiledFunction(function, self.model)
        return self._compiled[key]
