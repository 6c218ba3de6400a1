"""One text or two as the input of an encoder: ids between special tokens, and segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.fields.text import ODD_TEXTS, checked_texts
from keras_attn.hints import Tensor
from keras_attn.text.tokenizer import OffsetTokenizer


class EncoderInput:
    """A text, or two, as BERT reads them, in Python and in a TensorFlow graph.

        one text    [CLS] text [SEP]
        two texts   [CLS] first [SEP] second [SEP]       segments 0 ... 0 1 ... 1

    RoBERTa has two end tokens `between` two texts, `<s> first </s></s> second </s>`, which are of
    segment 0. For models that do not read special tokens at the ends, `start` and `end` leave them
    out; those between two texts stay.

    If they are too long, one text loses its end, and two lose the end of the longer one until both
    fit.

    Args:
        tokenizer: Has `encode`, `pad_id`, `start_id`, `end_id` and `to_graph`.
        max_length: Largest number of ids of a row, special tokens included.
        start: Whether there is a token before the texts.
        end: Whether there is a token after them.
        between: Number of end tokens between two texts.

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
    """The inputs that exports are checked with."""

    def __init__(
        self,
        tokenizer: OffsetTokenizer,
        max_length: int,
        start: bool = True,
        end: bool = True,
        between: int = 1,
    ):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.start = [tokenizer.start_id] if start else []
        self.end = [tokenizer.end_id] if end else []
        self.between = [tokenizer.end_id] * between

    @property
    def room(self) -> int:
        """Largest number of ids of a row between the ends, those between two texts included."""
        return self.max_length - len(self.start) - len(self.end)

    def encode(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None, multiple: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns ids and segments.

        Args:
            texts: Strings.
            seconds: A second string for each of them, or None.
            multiple: The width is a multiple of this, `max_length` at most.

        Returns:
            int32 `(B, T)` each, padded on the right.

        Raises:
            TypeError: If an input is not a string.
            ValueError: If there are not as many seconds as texts.
        """
        texts = checked_texts(texts)
        pieces = [self.tokenizer.encode(texts)]
        if seconds is not None:
            seconds = checked_texts(seconds)
            if len(seconds) != len(texts):
                raise ValueError(
                    f"Expected as many second texts as texts. Received: {len(seconds)} for "
                    f"{len(texts)}."
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
        """Puts special tokens around ids.

        Args:
            *pieces: The ids of the texts; and, for pairs, those of the second ones.

        Returns:
            For each text its row of ids, and where the second segment begins.
        """
        return [self._row(parts) for parts in zip(*pieces, strict=True)]

    def _row(self, parts: Sequence[list[int]]) -> tuple[list[int], int]:
        """The ids of a row, and where its second segment begins."""
        if len(parts) == 1:
            row = [*self.start, *parts[0][: self.room], *self.end]
            return row, len(row)
        room = self.room - len(self.between)
        first = parts[0][: max(room - len(parts[1]), (room + 1) // 2)]
        second = parts[1][: room - len(first)]
        head = [*self.start, *first, *self.between]
        return [*head, *second, *self.end], len(head)

    def to_graph(self, tf: ModuleType) -> tuple[Callable[..., tuple[Tensor, Tensor]], list[Any]]:
        """Returns the same as TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from strings `(B,)`, and second ones or None, to ids and segments `(B, T)`;
            and the `tf.Module`s that it uses.
        """
        graph, tokenizer = self.tokenizer.to_graph(), self.tokenizer
        begin = len(self.start) + len(self.between)

        def cut(ids: Any, lengths: Tensor) -> Any:
            kept = tf.ragged.range(tf.cast(ids.row_lengths(), tf.int32)) < lengths[:, None]
            return tf.ragged.boolean_mask(ids, kept)

        def encode(text: Tensor, second: Tensor | None = None) -> tuple[Tensor, Tensor]:
            first = tf.cast(graph.encode(text), tf.int32)
            rows = tf.size(text)
            start, end = (tf.fill([rows, len(x)], x[0] if x else 0) for x in (self.start, self.end))
            if second is None:
                parts = [start, first[:, : self.room], end]
                lengths = None
            else:
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
