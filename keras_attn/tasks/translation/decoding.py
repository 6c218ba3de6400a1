"""From source texts to the n best translations and their alignments."""

import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_attn.explain.alignment import END, Alignment
from keras_attn.generation import CompiledFunction, Generation, Recent, beam_search
from keras_attn.generation.numbers import columns
from keras_attn.layers import RecurrentEncoder, attention_maps
from keras_attn.models import SequenceDecoder
from keras_attn.tasks.families.decoding_batches import DecodingBatches
from keras_attn.text import BytePairTokenizer

Tensor = Any


class NBestTranslations(NamedTuple):
    """The R best translations of one text, the best first."""

    translations: list[str]
    scores: list[float]
    """Log-probability divided by the length penalty `((5 + length) / 6) ** alpha`."""
    truncated: list[bool]
    """Whether a translation was cut at its greatest length, without an end."""
    source_truncated: bool
    """Whether the text was longer than `max_source_length`: the rest of it was not read."""
    alignments: list[Alignment]
    """Of each: the mean over the heads of the last cross-attention; zeros without attention."""

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        cells = "<td style='text-align:right'>{:.3f}</td><td style='text-align:left'>{}{}</td>"
        rows = [
            cells.format(score, html.escape(text), " <i>(cut)</i>" if cut else "")
            for text, score, cut in zip(self.translations, self.scores, self.truncated, strict=True)
        ]
        note = "<caption>The source was cut.</caption>" if self.source_truncated else ""
        head = "<tr><th>score</th><th style='text-align:left'>translation</th></tr>"
        return f"<table>{note}{head}<tr>{'</tr><tr>'.join(rows)}</tr></table>"


class TranslationSearch:
    """Reads texts, searches their translations with the layers of a model, and aligns them.

    It has no weights of its own: train, load or change the model, and it follows.

    Args:
        model: A model that one of `ENCODER_DECODERS` built.
        source_tokenizer: Tokenizer of the sources.
        target_tokenizer: Tokenizer of the targets; it may be the same object.
        max_source_length: Longest source in tokens that is read, its end included.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> tokenizer = BytePairTokenizer.train(["one dog, one cat"], 259)
    >>> sizes = {"dim": 16, "num_layers": 1, "intermediate_dim": 32}
    >>> model = TransformerEncoderDecoderConfig(259, **sizes).build()
    >>> search = TranslationSearch(model, tokenizer, tokenizer, max_source_length=8)
    >>> sources, cut = search.read(["one", "one dog, one cat"])
    >>> [len(ids) for ids in sources], cut
    ([4, 8], [False, True])
    >>> best = search.best(sources, beams=2, alpha=1.0, batch_size=2)
    >>> len(best)
    2
    """

    def __init__(
        self,
        model: keras.Model,
        source_tokenizer: BytePairTokenizer,
        target_tokenizer: BytePairTokenizer,
        max_source_length: int,
    ):
        self.model = model
        self.layers = SequenceDecoder(model)
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.max_source_length = max_source_length
        self._batches = DecodingBatches(
            source_tokenizer.pad_id,
            source_tokenizer.end_id,
            recurrent=isinstance(self.layers.encoder, RecurrentEncoder),
        )
        self._compiled: Recent[CompiledFunction] = Recent()

    # Texts and ids

    def read(self, texts: Sequence[str]) -> tuple[list[list[int]], list[bool]]:
        """Returns the ids of each text with its end, and whether the text had to be cut."""
        most = self.max_source_length - 1
        rows = self.source_tokenizer.encode(texts) if len(texts) else []
        ids = [[*row[:most], self.source_tokenizer.end_id] for row in rows]
        return ids, [len(row) > most for row in rows]

    def best(
        self,
        sources: Sequence[list[int]],
        beams: int,
        alpha: float,
        batch_size: int,
        jit_compile: bool | None = None,
    ) -> list[list[int]]:
        """Returns the ids of the best translation of each source, its end included."""
        results: list[list[int]] = [[] for _ in sources]
        for rows, ids, compiled in self._batches(sources, batch_size, jit_compile):
            run = self._compile(compiled, self.search, beams)
            found = run(ids, most_tokens(ids.shape[1]), *columns({"alpha": alpha}, len(ids)))
            for r, i in enumerate(rows):
                results[i] = found.tokens[r, 0, : found.lengths[r, 0]].tolist()
        return results

    def n_best(
        self,
        texts: Sequence[str],
        beams: int,
        alpha: float,
        count: int,
        batch_size: int,
        jit_compile: bool | None = None,
    ) -> list[NBestTranslations]:
        """Returns the `count` best translations of each text, with what is known of them.

        Those of a text without a word are empty.
        """
        texts = [self.source_tokenizer.normalized(text) for text in texts]
        sources, cut = self.read(texts)
        results: list[Any] = [None] * len(sources)
        for rows, ids, compiled in self._batches(sources, batch_size, jit_compile):
            # Of fixed shapes, those of the longest that may be found.
            run = self._compile(compiled, self.search_and_align, beams, count, not compiled)
            of_rows = columns({"alpha": alpha}, len(ids))
            found, weights = run(ids, most_tokens(ids.shape[1]), *of_rows)
            for r, i in enumerate(rows):
                row = Generation(*(part[r] for part in found))
                results[i] = self._readable(row, weights[r], texts[i], sources[i], cut[i])
        return results

    def _readable(
        self, found: Generation, weights: np.ndarray, text: str, source: list[int], cut: bool
    ) -> NBestTranslations:
        """Turns what was found for one text, `(R, ...)`, into texts and alignments."""
        # Where there is no such one, the length is 0.
        lengths = [int(length) for length in np.asarray(found.lengths) if length]
        ids = [found.tokens[r, :length].tolist() for r, length in enumerate(lengths)]
        return NBestTranslations(
            [self.target_tokenizer.decode(tokens) if text.strip() else "" for tokens in ids],
            [float(score) for score in found.scores[: len(ids)]],
            [not finished for finished in found.finished[: len(ids)]],
            cut,
            [
                self._alignment(source, tokens, weights[r, : len(tokens), : len(source)], text)
                for r, tokens in enumerate(ids)
            ],
        )

    def _alignment(
        self, source: list[int], target: list[int], weights: np.ndarray, text: str
    ) -> Alignment:
        translation = self.target_tokenizer.decode(target)
        return Alignment(
            readable_tokens(self.source_tokenizer, source),
            readable_tokens(self.target_tokenizer, target),
            weights.copy(),  # of the batch's array
            text,
            None if "\ufffd" in translation else translation,  # broken bytes: not its tokens
        )

    def _compile(
        self, compiled: bool, function: Callable, beams: int, *settings: Any
    ) -> CompiledFunction:
        """`(ids, max_length, alpha)`, compiled for all values of alpha."""
        return self._compiled.get(
            (compiled, function.__name__, beams, *settings),
            lambda: CompiledFunction(
                lambda ids, length, alpha: function(ids, length, beams, alpha, *settings),
                self.model,
                jit_compile=compiled,
            ),
        )

    # Tensors: for any backend, and for the export

    def search(
        self,
        ids: Tensor,
        max_length: Any,
        beams: int,
        alpha: float | Tensor,
        count: int = 1,
        encoded: tuple[Tensor, Tensor] | None = None,
    ) -> Generation:
        """Beam search from source ids `(B, S)`: the `count` best. `alpha` may be `(B,)`.

        `encoded` is what `layers.encode(ids)` returns, if the caller has it.
        """
        memory, mask = encoded or self.layers.encode(ids)
        tokenizer = self.target_tokenizer
        start = ops.zeros_like(ids[:, :1]) + ops.cast(tokenizer.start_id, ids.dtype)
        return beam_search(
            self.layers.decoder,
            start,
            None,
            memory,
            mask,
            num_beams=beams,
            max_length=max_length,
            max_lengths=most_tokens(ops.sum(ops.cast(mask, "int32"), axis=1)),
            num_return_sequences=count,
            alpha=alpha,
            end_id=tokenizer.end_id,
            pad_id=tokenizer.pad_id,
            suppressed_ids=(tokenizer.pad_id, tokenizer.start_id),
        )

    def search_and_align(
        self,
        ids: Tensor,
        max_length: Any,
        beams: int,
        alpha: float | Tensor,
        count: int,
        trim: bool = True,
    ) -> tuple[Generation, Tensor]:
        """As `search`, with the weights `(B, R, T, S)` of `SequenceDecoder.align_found`.

        With `trim`, which XLA does not know, T is the length of the longest that was found.
        """
        memory, mask = self.layers.encode(ids)
        found = self.search(ids, max_length, beams, alpha, count, (memory, mask))
        if trim:
            found = found._replace(tokens=found.tokens[:, :, : ops.max(found.lengths)])
        return found, self.layers.align_found(memory, mask, found, self.target_tokenizer.start_id)

    def align(
        self, text: str, source: list[int], target: list[int] | None, layer: int
    ) -> Alignment:
        """Aligns a source and a target, ids with their ends, by one cross-attention.

        Args:
            text: The source.
            source: Its ids.
            target: Ids; those that the search finds if None.
            layer: Number of the cross-attention.

        Returns:
            `Alignment`.

        Raises:
            ValueError: If there is no such attention, or the target is longer than any translation.
        """
        blocks = self.layers.num_attentions
        if not blocks:
            raise ValueError("A model with attention='none' aligns nothing.")
        if not isinstance(layer, int) or not -blocks <= layer < blocks:
            raise ValueError(
                f"`layer` must be the number of one of the {blocks} cross-attentions, {-blocks} to "
                f"{blocks - 1}. Received: {layer!r}."
            )
        if target is None:
            target = self.best([source], beams=4, alpha=1.0, batch_size=1)[0]
        most = most_tokens(self.max_source_length)
        if len(target) > most:
            raise ValueError(
                f"`target` must have at most {most} tokens, the end included, the most of a "
                f"translation with `max_source_length`={self.max_source_length}. Received: "
                f"{len(target)} tokens."
            )
        inputs = {
            "source_ids": np.array([source], "int32"),
            "target_ids": np.array([[self.target_tokenizer.start_id, *target[:-1]]], "int32"),
        }
        weights = attention_maps(self.model, inputs).select(role="cross")[layer][0]
        weights = weights.mean(axis=0) if weights.ndim == 3 else weights
        return self._alignment(source, target, weights, text)


def readable_tokens(tokenizer: BytePairTokenizer, ids: Sequence[int]) -> list[str]:
    """Returns `tokenizer.tokens(ids)`, with `</s>` for the end."""
    tokens = tokenizer.tokens(list(ids))
    return [END if i == tokenizer.end_id else t for i, t in zip(ids, tokens, strict=True)]


def most_tokens(length: Any) -> Any:
    """The greatest length of a translation of `length` source tokens."""
    return 2 * length + 16
