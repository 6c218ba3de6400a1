"""Texts and pairs as inputs of an encoder: ids with special tokens, and segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from keras import ops

from keras_attn.fields.text import ODD_TEXTS, checked_texts, sides_of
from keras_attn.hints import Tensor
from keras_attn.text.tokenizer import OffsetTokenizer
from keras_attn.text.truncation import truncate, truncate_graph

T = TypeVar("T")


class ReadText(NamedTuple):
    """The tokens of a text or pair after truncation, and their positions."""

    tokens: list[str]
    offsets: list[tuple[int, int]]
    """The character span of each token; empty for separators."""
    segments: list[int]
    """The segment of each token: 0 in the first text, 1 in the second text."""


class EncoderInput:
    """Converts texts and pairs to BERT's inputs, in Python and in a TensorFlow graph.

        one text    [CLS] text [SEP]
        two texts   [CLS] first [SEP] second [SEP]       segments 0 ... 0 1 ... 1

    RoBERTa has two end tokens `between` two texts: `<s> first </s></s> second </s>`. Its models do
    not read the segments. For models without special tokens at the ends, set `start` and `end` to
    False; the tokens between two texts remain.

    If a single text is too long, `truncation` determines which part is kept. In a pair, tokens are
    removed from the end of the longer text until both fit.

    Args:
        tokenizer: A tokenizer with `encode`, `pad_id`, `start_id`, `end_id` and `to_graph`; for
            `read`, also with `encode_with_offsets` and `tokens`.
        max_length: Maximum number of ids of a row, including special tokens.
        start: Whether there is a start token before the texts.
        end: Whether there is an end token after the texts.
        between: Number of end tokens between two texts.
        truncation: Which part of a single text is kept: `"head"`, `"tail"` or `"head_tail"`, as in
            `keras_attn.text.truncation.truncate`.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
    >>> ids, segments = EncoderInput(tokenizer, max_length=8).encode(["a b", "a"], ["b", "b b"])
    >>> ids.tolist()
    [[2, 4, 5, 3, 5, 3], [2, 4, 3, 5, 5, 3]]
    >>> segments.tolist()
    [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    """

    examples = ODD_TEXTS
    """Example inputs for checking exports."""

    def __init__(
        self,
        tokenizer: OffsetTokenizer,
        max_length: int,
        start: bool = True,
        end: bool = True,
        between: int = 1,
        truncation: str = "head",
    ):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.start = [tokenizer.start_id] if start else []
        self.end = [tokenizer.end_id] if end else []
        self.between = [tokenizer.end_id] * between
        self.truncation = truncation

    @cached_property
    def module(self) -> Any:
        """The tokenizer as a `tf.Module`."""
        return self.tokenizer.to_graph()

    @property
    def room(self) -> int:
        """Maximum number of ids of a row between the special tokens at the ends."""
        return self.max_length - len(self.start) - len(self.end)

    def encode(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None, multiple: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the ids and segments of B texts or pairs.

        Args:
            texts: The B texts, or the first texts of the pairs.
            seconds: The second texts of the pairs; None for single texts.
            multiple: The width T, the length of the longest row, is rounded up to a multiple of
                this number, but is at most `max_length`.

        Returns:
            A tuple of ids and segments, int32 `(B, T)` each. The ids are padded on the right with
            `pad_id`, the segments with 0.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If there are not as many second texts as first texts.
        """
        texts = checked_texts(texts)
        pieces = [self.tokenizer.encode(texts)]
        if seconds is not None:
            seconds = checked_texts(seconds)
            if len(seconds) != len(texts):
                raise ValueError(
                    f"Expected as many second texts as texts. Received: {len(seconds)} "
                    f"second texts for {len(texts)} texts."
                )
            pieces.append(self.tokenizer.encode(seconds))
        rows = self.rows(*pieces)
        width = max([1, len(self.start) + len(self.end), *(len(ids) for ids, _ in rows)])
        width = min(-(-width // multiple) * multiple, max(self.max_length, width))
        ids = np.full((len(rows), width), self.tokenizer.pad_id, "int32")
        segments = np.zeros_like(ids)
        for i, (row, start) in enumerate(rows):
            ids[i, : len(row)] = row
            segments[i, start : len(row)] = 1
        return ids, segments

    def rows(self, *pieces: Sequence[list[int]]) -> list[tuple[list[int], int]]:
        """Truncates the ids of texts or pairs, and adds special tokens.

        Args:
            *pieces: A list with the ids of each text; for pairs, two lists, with the ids of the
                first texts and of the second texts.

        Returns:
            For each text or pair, a tuple of the row of ids and the index in it where the second
            segment starts; for a single text, this index is the number of ids.
        """
        return [self._row(parts) for parts in zip(*pieces, strict=True)]

    def kept(self, parts: Sequence[Sequence[T]]) -> list[Sequence[T]]:
        """Truncates one text, or the two texts of a pair, to fit in a row.

        Args:
            parts: A sequence for each of the one or two texts, with a value for each id of the
                text, such as the id itself or its position.

        Returns:
            A list of the truncated sequences.
        """
        if len(parts) == 1:
            return [truncate(parts[0], self.room, self.truncation)]
        room = self.room - len(self.between)
        first = parts[0][: max(room - len(parts[1]), (room + 1) // 2)]
        return [first, parts[1][: room - len(first)]]

    def read(self, texts: Sequence[str | tuple[str, str]]) -> Iterator[ReadText]:
        """Yields a `ReadText` (tokens, character positions and segments) for each text or pair.

        Texts are truncated as in `encode`. The special tokens at the ends of a row are left out,
        but not the tokens between two texts.

        Args:
            texts: Strings, or tuples of two strings.
        """
        encoded = [self.tokenizer.encode_with_offsets(side) for side in sides_of(texts)]
        for i, text in enumerate(texts):
            (ids, *more), (offsets, *others) = (
                self.kept([side[part][i] for side in encoded]) for part in (0, 1)
            )
            ids, offsets, segments = [*ids], [*offsets], [0] * len(ids)
            if more:
                end = len(text[0])
                ids += [*self.between, *more[0]]
                offsets += [*[(end, end)] * len(self.between), *others[0]]
                segments += [0] * len(self.between) + [1] * len(more[0])
            yield ReadText(self.tokenizer.tokens(ids), offsets, segments)

    def between_ends(self, ids: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        """Removes the special tokens at the ends of rows from values of the ids.

        Args:
            ids: Padded ids of B rows, `(B, T)`.
            *values: Tensors `(B, T)` with a value for each id, such as attention weights.

        Returns:
            A tuple: the number of ids of each row without the special tokens at the ends, int32
            `(B,)`; the ids without the start token, still followed by the end token and padding;
            and each of the `values` without the start token, with 0 after the last of these ids.
        """
        first = len(self.start)
        real = ops.cast(ops.not_equal(ids, self.tokenizer.pad_id), "int32")
        sizes = ops.sum(real, axis=1) - first - len(self.end)
        ids = ids[:, first:]
        places = ops.cumsum(ops.ones_like(ids), axis=1) - 1
        inside = ops.less(places, ops.expand_dims(sizes, 1))
        own = (ops.where(inside, x[:, first:], ops.zeros_like(x[:, first:])) for x in values)
        return sizes, ids, *own

    def _row(self, parts: Sequence[list[int]]) -> tuple[list[int], int]:
        """The ids of a row, and the start of its second segment."""
        first, *second = self.kept(parts)
        head = [*self.start, *first, *(self.between if second else self.end)]
        return [*head, *(chain(*second, self.end) if second else ())], len(head)

    def to_graph(self, tf: ModuleType) -> tuple[Callable[..., tuple[Tensor, Tensor]], list[Any]]:
        """Returns a function that computes `encode` with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from strings `(B,)` and optional second strings `(B,)` to ids and segments,
            int32 `(B, T)`; and a list of the `tf.Module`s that the function uses.
        """
        graph, tokenizer = self.module, self.tokenizer
        begin = len(self.start) + len(self.between)

        def cut(ids: Any, lengths: Tensor) -> Any:
            kept = tf.ragged.range(tf.cast(ids.row_lengths(), tf.int32)) < lengths[:, None]
            return tf.ragged.boolean_mask(ids, kept)

        def encode(text: Tensor, second: Tensor | None = None) -> tuple[Tensor, Tensor]:
            first = graph.encode(text)
            rows = tf.size(text)
            start, end = (tf.fill([rows, len(x)], x[0] if x else 0) for x in (self.start, self.end))
            if second is None:
                first = truncate_graph(tf, first, self.room, self.truncation)
                parts = [start, tf.cast(first, tf.int32), end]
                lengths = None
            else:
                first = tf.cast(first, tf.int32)
                behind = tf.cast(graph.encode(second), tf.int32)
                room = self.room - len(self.between)
                left = room - tf.cast(behind.row_lengths(), tf.int32)
                first = cut(first, tf.maximum(left, (room + 1) // 2))
                lengths = tf.cast(first.row_lengths(), tf.int32)
                between = tf.fill([rows, len(self.between)], tokenizer.end_id)
                parts = [start, first, between, cut(behind, room - lengths), end]
            ids = tf.concat(parts, axis=1).to_tensor(tokenizer.pad_id)
            missing = tf.maximum(0, 1 - tf.shape(ids)[1])
            ids = tf.pad(ids, [[0, 0], [0, missing]], constant_values=tokenizer.pad_id)
            if lengths is None:
                return ids, tf.zeros_like(ids)
            places = tf.range(tf.shape(ids)[1])[None]
            later = (places >= lengths[:, None] + begin) & (ids != tokenizer.pad_id)
            return ids, tf.cast(later, tf.int32)

        return encode, [graph]
