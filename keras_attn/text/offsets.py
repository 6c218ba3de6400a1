"""Offsets of tokens in texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from keras_attn.text.tokenizer import OffsetTokenizer, Tokenizer

if TYPE_CHECKING:
    import tensorflow as tf

Offsets = list[tuple[int, int]]
"""The `(start, end)` of each token, which stands for `text[start:end]`."""


def ids_and_places(
    tokenizer: OffsetTokenizer, texts: Sequence[str]
) -> tuple[list[list[int]], list[Offsets]]:
    """Converts texts to ids and the character spans of the tokens, without leading blanks."""
    ids, offsets = tokenizer.encode_with_offsets(list(texts))
    blanks = getattr(tokenizer, "leading_blanks", None)
    if blanks is None:
        return ids, offsets
    return ids, [
        [(start + blanks[i], end) for i, (start, end) in zip(row, places, strict=True)]
        for row, places in zip(ids, offsets, strict=True)
    ]


def leading_blanks_graph(
    tf: ModuleType, tokenizer: Tokenizer, ids: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Returns the number of leading blank bytes of each token, with TensorFlow ops."""
    blanks = getattr(tokenizer, "leading_blanks", None)
    if blanks is None:
        return tf.zeros_like(ids)
    return ids.with_flat_values(tf.gather(tf.constant(blanks, tf.int32), ids.flat_values))


def original_offsets(text: str, offsets: Iterable[tuple[int, int]]) -> Offsets:
    """Converts offsets in `well_formed(text)` to offsets in the text itself.

    The offsets differ only after lone surrogates, each of which becomes three U+FFFD.
    """
    given = [(start, end) for start, end in offsets]
    codes = np.array([*map(ord, text)], "int64")
    lone = (codes >= 0xD800) & (codes < 0xE000)
    if not lone.any():
        return given
    # The original character of each place.
    owners = [*np.repeat(np.arange(len(text)), np.where(lone, 3, 1)).tolist(), len(text)]
    return [(owners[s], owners[e - 1] + 1 if e > s else owners[s]) for s, e in given]


def byte_offsets(text: str, lengths: Iterable[int]) -> Offsets:
    """Returns the character offsets of consecutive parts of a text, given their UTF-8 lengths."""
    ends = np.cumsum(np.fromiter(lengths, "int64"))
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    if text.isascii():
        return list(zip(starts.tolist(), ends.tolist(), strict=True))
    data = np.frombuffer(text.encode("utf-8"), "uint8")
    character = np.cumsum((data & 0xC0) != 0x80) - 1  # of each byte
    first = character[np.minimum(starts, len(data) - 1)]
    last = character[np.maximum(ends, 1) - 1]
    return list(zip(first.tolist(), (last + 1).tolist(), strict=True))
