"""Byte-pair encoding with core TensorFlow ops, for `tf.data` and SavedModels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_attn.text.byte_pair_patterns import graph_pattern
from keras_attn.text.bytes_of_text import BYTE_ALPHABET
from keras_attn.text.graph_tokenizer import GraphTokenizer, graph_method, lookup_table
from keras_attn.text.normalization import compose_in_graph, normalize_text_in_graph
from keras_attn.text.ragged_rows import row_numbers

# UTF-8 never contains this byte, so it can separate the pre-tokens of any text.
_SEPARATOR = b"\xff"


class GraphBytePair(GraphTokenizer):
    """`BytePairTokenizer` inside a TensorFlow graph, from strings to ids and back.

    For every text, the ids are the same as in Python. The module uses only core TensorFlow ops and
    contains its tables, so a SavedModel with it needs only `import tensorflow`. The module runs on
    the CPU, because TensorFlow keeps strings there.

    Pre-tokens that are single tokens are looked up. All other distinct pre-tokens of the batch are
    merged in one loop, each round of which merges the best pair in every pre-token. Pre-tokens are
    short, so few rounds are needed for texts of any length.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        size = tokenizer.vocabulary_size
        ids_of = {token: index for index, token in enumerate(tokenizer.vocabulary)}
        self._normalize, self._compose = tokenizer.normalize, tokenizer.compose
        self._whole = _any_of(tokenizer.whole_tokens)
        self._pattern = graph_pattern(tokenizer.pattern)
        # The separator has the id after the last one, which is in no merge.
        byte_ids = [ids_of[character] for character in BYTE_ALPHABET]
        byte_ids[ord(_SEPARATOR)] = size
        pairs = [ids_of[left] * (size + 1) + ids_of[right] for left, right in tokenizer.merges]
        products = [ids_of[left + right] for left, right in tokenizer.merges]
        pieces = list(tokenizer.token_bytes)
        words = _single_tokens(tokenizer, pieces)
        self._none = len(pairs)  # the rank of a pair that is not merged
        with tf.device("CPU:0"):
            self._byte_ids = tf.constant(byte_ids, tf.int64)
            self._products = tf.constant([*products, 0], tf.int64)
            self._pieces = tf.constant(pieces)
            self._sizes = tf.constant([len(piece) for piece in pieces], tf.int32)
            # TensorFlow has no empty tables, so the last key is not a pair.
            self._ranks = lookup_table([*pairs, -1], range(len(pairs) + 1), tf.int64, self._none)
            self._words = lookup_table(words.keys(), words.values(), tf.string, -1)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(B,)` to ragged int32 ids `(B, None)`, without start and end tokens."""
        with tf.device("CPU:0"):
            return self._ids(self._words_of(self._read(text)))

    # Without a signature: what cannot be traced for texts that are normalized is not saved.
    @graph_method(reduce_retracing=True, autograph=False)
    def encode_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts strings `(B,)` to ids and their start and end bytes, each ragged `(B, None)`.

        A token that is a part of a character has the position of the whole character. Bytes that
        are not UTF-8 are read as U+FFFD, and positions refer to the resulting text. Tokenizers with
        `normalize=True` are not supported.
        """
        if self._normalize:
            raise ValueError(
                "Finding the places of tokens in a text requires a tokenizer that keeps "
                "every byte of it. Received: a tokenizer with normalize=True. Train a "
                "tokenizer with normalize=False."
            )
        with tf.device("CPU:0"):
            given = text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
            sizes = None
            if self._compose:
                text, sizes = compose_in_graph(tf, text)
            ids = self._ids(self._words_of(text))
            # The tokens of all texts, one after the other, are their bytes.
            ends = tf.cumsum(tf.gather(self._sizes, ids.flat_values))
            starts = ends - tf.gather(self._sizes, ids.flat_values)
            data = tf.io.decode_raw(tf.strings.reduce_join(text), tf.uint8)
            begins = tf.concat([data & 0xC0 != 0x80, [True]], 0)  # of characters, and the end
            number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
            first = tf.cast(tf.where(begins)[:, 0], tf.int32)  # its byte
            if sizes is not None:
                first = tf.concat([[0], tf.cumsum(sizes)], 0)
            starts = tf.gather(first, tf.gather(number, starts))
            ends = tf.gather(first, tf.gather(number, ends - 1) + 1)
            before = tf.cumsum(tf.strings.length(given), exclusive=True)
            before = tf.gather(before, row_numbers(tf, ids))
            return ids, ids.with_flat_values(starts - before), ids.with_flat_values(ends - before)

    def encode_start(self, text: tf.Tensor, count: int) -> tf.RaggedTensor:
        """Converts the start of strings `(B,)` to ids, like `encode(text)[:, :count]`.

        Only the bytes that `count` pre-tokens can have are read, because each pre-token has at
        least one id.
        """
        with tf.device("CPU:0"):
            text = self._read(text)
            if self._pattern.longest is not None:
                # A character has at most four bytes; one that is cut comes after the last needed.
                text = tf.strings.substr(text, 0, 4 * (self._pattern.longest * count + 1))
            return self._ids(self._words_of(text)[:, :count])[:, :count]

    @graph_method(reduce_retracing=True, autograph=False)
    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Converts ids `(..., T)` to strings `(...)` without special tokens.

        Bytes that are not UTF-8 become U+FFFD.
        """
        with tf.device("CPU:0"):
            text = tf.strings.reduce_join(tf.gather(self._pieces, ids), axis=-1)
            return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")

    def _read(self, text: tf.Tensor) -> tf.Tensor:
        if self._normalize:
            return normalize_text_in_graph(tf, text)
        return compose_in_graph(tf, text)[0] if self._compose else text

    def _words_of(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The pre-tokens and whole tokens of each text; empty ones have no ids."""
        if self._whole is None:
            return self._pre_tokens(text)
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
        text = tf.strings.regex_replace(text, self._whole, _SEPARATOR + rb"\1" + _SEPARATOR)
        parts = tf.strings.split(text, _SEPARATOR)  # (B, None), every second one is whole
        place = tf.range(tf.size(parts.flat_values, tf.int64)) - tf.gather(
            parts.row_starts(), row_numbers(tf, parts)
        )
        whole = place % 2 == 1
        other = self._pre_tokens(tf.where(whole, "", parts.flat_values))  # (P, None)
        one = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(parts.flat_values, whole), tf.cast(whole, tf.int64), validate=False
        )
        words = tf.concat([other, one], 1)
        splits = tf.gather(words.row_splits, parts.row_splits)
        return tf.RaggedTensor.from_row_splits(words.flat_values, splits, validate=False)

    def _pre_tokens(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The pre-tokens of each text, possibly followed by an empty one, which has no ids."""
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")
        mark, match = self._pattern.mark, self._pattern.match
        if mark is not None:
            text = tf.strings.regex_replace(text, mark, rb"\1" + _SEPARATOR + rb"\2")
        text = tf.strings.regex_replace(text, match, rb"\0" + _SEPARATOR)
        words = tf.strings.split(text, _SEPARATOR)  # (B, None)
        # A marked place has two separators.
        return words if mark is None else tf.ragged.boolean_mask(words, words != "")

    def _ids(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        ids, lengths = self._encode_words(words.flat_values)
        ends = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        splits = tf.gather(ends, words.row_splits)
        return tf.RaggedTensor.from_row_splits(tf.cast(ids, tf.int32), splits, validate=False)

    def _encode_words(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The concatenated ids of pre-tokens (W,), and the number of ids of each."""
        known = self._words.lookup(words)  # (W,), -1 if not one token
        is_known = known >= 0
        known_at = tf.where(is_known)[:, 0]
        other_at = tf.where(~is_known)[:, 0]
        unique, index = tf.unique(tf.gather(words, other_at), tf.int64)
        others = tf.gather(self._merge(unique), index)  # (W', None)
        lengths = tf.tensor_scatter_nd_update(
            tf.ones_like(known), other_at[:, None], others.row_lengths()
        )
        starts = tf.cumsum(lengths, exclusive=True)
        # The ids of the others go to start, start + 1, ...
        shift = tf.gather(starts, other_at) - others.row_starts()
        places = tf.gather(shift, row_numbers(tf, others)) + tf.range(
            tf.size(others.flat_values, tf.int64)
        )
        ids = tf.dynamic_stitch(
            [tf.cast(tf.gather(starts, known_at), tf.int32), tf.cast(places, tf.int32)],
            [tf.gather(known, known_at), others.flat_values],
        )
        return ids, lengths

    def _merge(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Byte-pair encoding of the pre-tokens (U,): ragged ids (U, None)."""
        separator = tf.constant(self.vocabulary_size, tf.int64)
        gone = tf.constant(-1, tf.int64)
        data = tf.io.decode_raw(tf.strings.reduce_join(words + _SEPARATOR), tf.uint8)
        x = tf.gather(self._byte_ids, tf.cast(data, tf.int32))  # (M,), a separator ends each word
        row = tf.cumsum(tf.cast(x == separator, tf.int64), exclusive=True)  # (M,)
        width = tf.size(x, tf.int64) + 1

        def best_pairs(x: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
            # The smallest rank in each word at its leftmost place, as rank * width + place.
            rank = self._ranks.lookup(x[:-1] * (separator + 1) + x[1:])
            best = tf.math.segment_min(rank * width + tf.range(tf.size(rank, tf.int64)), row[:-1])
            return tf.gather(best, tf.where(best < self._none * width)[:, 0])

        def one_round(x: tf.Tensor, row: tf.Tensor, best: tf.Tensor):
            # The product replaces the left half of each pair; the right half is removed.
            left, product = best % width, tf.gather(self._products, best // width)
            x = tf.tensor_scatter_nd_update(x, left[:, None], product)
            x = tf.tensor_scatter_nd_update(x, left[:, None] + 1, tf.fill(tf.shape(left), gone))
            kept = tf.where(x != gone)[:, 0]
            x, row = tf.gather(x, kept), tf.gather(row, kept)
            return x, row, best_pairs(x, row)

        x, row, _ = tf.while_loop(
            lambda x, row, best: tf.size(best) > 0,
            one_round,
            (x, row, best_pairs(x, row)),
            shape_invariants=(tf.TensorShape([None]),) * 3,
            parallel_iterations=1,
        )
        kept = tf.where(x != separator)[:, 0]
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(x, kept), tf.gather(row, kept), tf.size(words, tf.int64), validate=False
        )


def _any_of(tokens: Sequence[str]) -> str | None:
    """A regular expression for any of some tokens, the longest first; None if there are none."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return f"({'|'.join(map(re.escape, longest_first))})" if tokens else None


def _single_tokens(tokenizer: Any, pieces: list[bytes]) -> dict[bytes, int]:
    """The texts that the tokenizer encodes as one token, with their ids."""
    texts = {}
    for index, piece in enumerate(pieces):
        if not piece:  # a special token
            continue
        try:
            texts[piece.decode("utf-8")] = index
        except UnicodeDecodeError:  # a part of a character
            continue
    exact = type(tokenizer).from_config(
        {**tokenizer.get_config(), "normalize": False, "compose": False}
    )
    encoded = zip(texts.items(), exact.encode(list(texts)), strict=True)
    return {text.encode("utf-8"): index for (text, index), ids in encoded if ids == [index]}
