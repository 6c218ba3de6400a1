"""WordPiece with core TensorFlow ops, for `tf.data` and SavedModels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from keras_attn.text.graph_tokenizer import GraphTokenizer, graph_method, lookup_table
from keras_attn.text.ragged_rows import join_rows, row_numbers
from keras_attn.text.word_piece_engine import CONTINUATION, make_engine, removed_marks

_KEPT, _REMOVED, _ALONE, _FOLDED, _MARK = range(5)
_MASK = "\x01"
"""The placeholder of `[MASK]` while a text is split into words."""
_MASK_SPACED = " \x01    "  # as many bytes as [MASK] has


class GraphWordPiece(GraphTokenizer):
    """`WordPieceTokenizer` inside a TensorFlow graph, from strings to ids and back.

    The ids are the same as in Python, with one exception described below. The module uses only core
    TensorFlow ops and contains its tables, so a SavedModel with it needs only `import tensorflow`.
    (The ops of `tensorflow_text` use another Unicode version, and give other ids for some
    characters.) The module runs on the CPU, because TensorFlow keeps strings there.

    A table that is created from the Python object cleans each character, but cannot reorder
    characters. If accents are stripped, some marks of a character remain (BERT keeps spacing marks,
    such as the Korean tones U+302E and U+302F, and marks newer than Unicode 8). The Python object
    sorts the remaining marks into Unicode's order, whereas the graph keeps their order. For
    normalized text (NFC, NFD), the ids are the same.

    Words that are single tokens are looked up. All other distinct words of the batch are split into
    pieces in one loop.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._most = tokenizer.max_word_length
        starts, kinds, folded = _characters(tokenizer.lowercase, tokenizer.strip_accents)
        # A longer word is unknown even if the vocabulary has it.
        words = {t: i for i, t in enumerate(tokenizer.vocabulary) if len(t) <= self._most + 2}
        self._mask = tokenizer.mask_in_text
        if self._mask:
            words[_MASK] = tokenizer.mask_id
        self._longest = max(len(token.removeprefix(CONTINUATION)) for token in words)
        with tf.device("CPU:0"):
            self._starts = tf.constant(starts, tf.int32)
            self._kinds = tf.constant(kinds, tf.int32)
            # TensorFlow has no empty tables, so there is a key -1, which is not a character.
            self._places = lookup_table(
                [*folded, -1], range(len(folded) + 1), tf.int64, len(folded)
            )
            self._folded = tf.constant([*folded.values(), ""])
            self._words = lookup_table(words.keys(), words.values(), tf.string, -1)
            self._pieces = tf.constant(tokenizer.token_texts)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(B,)` to ragged int32 ids `(B, None)`, without start and end tokens."""
        with tf.device("CPU:0"):
            return self._ids(self._words_of(text)[0])[0]

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts strings `(B,)` to ids and their start and end bytes, each ragged `(B, None)`.

        `keras_attn.text.character_places_graph` converts bytes to character positions. In invalid
        UTF-8, each bad byte is a character. If accents are stripped next to marks that BERT keeps,
        the Python object reorders the marks, and its positions refer to the new order.
        """
        with tf.device("CPU:0"):
            words, owners, begins, ends = self._words_of(text, offsets=True)
            ids, sizes = self._ids(words)
            first = tf.cumsum(sizes.flat_values, exclusive=True)
            last = first + sizes.flat_values - 1
            start = tf.gather(begins, tf.gather(owners, first))
            end = tf.gather(ends, tf.gather(owners, last))
            return ids, ids.with_flat_values(start), ids.with_flat_values(end)

    def encode_start(self, text: tf.Tensor, count: int) -> tf.RaggedTensor:
        """Converts the start of strings `(B,)` to ids, like `encode(text)[:, :count]`.

        Only the first `count` words are split into pieces, because each word has at least one id.
        """
        with tf.device("CPU:0"):
            return self._ids(self._words_of(text)[0][:, :count])[0][:, :count]

    @graph_method(reduce_retracing=True, autograph=False)
    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Converts ids `(..., T)` to strings, with spaces between words and punctuation marks."""
        with tf.device("CPU:0"):
            text = tf.strings.reduce_join(tf.gather(self._pieces, ids), axis=-1)
            return tf.strings.regex_replace(text, "^ ", "")

    def _words_of(self, text: tf.Tensor, offsets: bool = False) -> tuple[Any, ...]:
        """The cleaned words of each text (B, None).

        With `offsets`, also the index of the original character of each character of all words, and
        the start and end byte of each original character.
        """
        if self._mask:  # cleaning removes control characters, so one of them is free for it
            text = tf.strings.regex_replace(text, _MASK, "\x02")
            text = tf.strings.regex_replace(text, r"\[MASK\]", _MASK_SPACED)
        if offsets:
            codes, begins = tf.strings.unicode_decode_with_offsets(text, "UTF-8", errors="replace")
        else:
            codes = tf.strings.unicode_decode(text, "UTF-8", errors="replace")  # (B, None)
        unique, index = tf.unique(codes.flat_values)
        characters = tf.strings.unicode_encode(unique[:, None], "UTF-8")
        kinds = tf.gather(self._kinds, tf.searchsorted(self._starts, unique, side="right") - 1)
        folded = tf.gather(self._folded, self._places.lookup(tf.cast(unique, tf.int64)))
        cleaned = tf.where((kinds == _REMOVED) | (kinds == _MARK), "", characters)
        cleaned = tf.where(kinds == _ALONE, " " + characters + " ", cleaned)
        cleaned = tf.where(kinds == _FOLDED, folded, cleaned)
        if self._mask:
            cleaned = tf.where(unique == ord(_MASK), _MASK, cleaned)
        joined = join_rows(tf, codes.with_flat_values(tf.gather(cleaned, index)))
        words = tf.strings.split(joined)
        if not offsets:
            return (words,)
        # The characters of all words, one after the other, are those of the text but the spaces.
        seen = tf.strings.length(tf.strings.regex_replace(cleaned, " ", ""), "UTF8_CHAR")
        owners = tf.repeat(tf.range(tf.size(index)), tf.gather(seen, index))
        begins = tf.cast(begins, tf.int32)
        behind = tf.concat([begins, tf.strings.length(text)[:, None]], axis=1)[:, 1:]
        starts, ends = begins.flat_values, behind.flat_values
        if self._mask:
            masks = codes.flat_values == ord(_MASK)
            starts = tf.where(masks, starts - 1, starts)
            ends = tf.where(masks, starts + len("[MASK]"), ends)
        # Each character ends behind the accents that follow it, in its own text.
        first = tf.gather(codes.row_starts(), row_numbers(tf, codes))
        first = tf.equal(first, tf.range(tf.size(index, tf.int64), dtype=tf.int64))
        group = tf.cumsum(tf.cast(first | (tf.gather(kinds, index) != _MARK), tf.int32)) - 1
        ends = tf.gather(tf.math.segment_max(ends, group), group)
        return words, owners, starts, ends

    def _ids(self, words: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The ids of each text, and their numbers of characters."""
        unique, index = tf.unique(words.flat_values, tf.int64)
        pieces, sizes = self._split(unique)  # (U, None)
        ids = tf.gather(pieces, index)  # (W, None)
        splits = tf.gather(ids.row_splits, words.row_splits)
        return tuple(
            tf.RaggedTensor.from_row_splits(tf.cast(values, tf.int32), splits, validate=False)
            for values in (ids.flat_values, tf.gather(sizes, index).flat_values)
        )

    def _split(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The pieces of the words (U,): ids and numbers of characters, ragged (U, None)."""
        count = tf.size(words, tf.int64)
        known = self._words.lookup(words)  # (U,), -1 if it is not one token
        length = tf.strings.length(words, "UTF8_CHAR")
        known = tf.where(length > self._most, tf.cast(self.unknown_id, tf.int64), known)
        at = tf.where(known < 0)[:, 0]  # the words that are not cut to their end yet
        lengths = tf.range(1, self._longest + 1)

        def one_round(
            at: tf.Tensor,
            rest: tf.Tensor,
            prefix: tf.Tensor,
            rows: tf.Tensor,
            ids: tf.Tensor,
            sizes: tf.Tensor,
            failed: tf.Tensor,
        ):
            # All prefixes of the rest of each word; the longest one in the vocabulary is taken.
            starts = tf.strings.substr(
                tf.repeat(rest[:, None], self._longest, axis=1),
                tf.zeros_like(lengths)[None, :] + tf.zeros_like(at, tf.int32)[:, None],
                lengths[None, :] + tf.zeros_like(at, tf.int32)[:, None],
                unit="UTF8_CHAR",
            )
            found = self._words.lookup(prefix + starts)  # (A, L)
            order = tf.where(found >= 0, lengths[None, :], 0)
            best = tf.argmax(order, axis=1)
            chosen = tf.gather(found, best, batch_dims=1)
            piece = tf.gather(starts, best, batch_dims=1)
            rest = tf.strings.substr(rest, tf.strings.length(piece), tf.fill(tf.shape(at), 1 << 30))
            rows, ids = tf.concat([rows, at], 0), tf.concat([ids, chosen], 0)
            sizes = tf.concat([sizes, tf.strings.length(piece, "UTF8_CHAR")], 0)
            failed = tf.concat([failed, tf.gather(at, tf.where(chosen < 0)[:, 0])], 0)
            left = tf.where((chosen >= 0) & (rest != ""))[:, 0]
            at, rest = tf.gather(at, left), tf.gather(rest, left)
            return at, rest, CONTINUATION, rows, ids, sizes, failed

        whole = tf.where(known >= 0)[:, 0]
        none = tf.zeros([0], tf.int64)
        vector = tf.TensorShape([None])
        sizes = tf.gather(length, whole)
        *_, rows, ids, sizes, failed = tf.while_loop(
            lambda at, *_: tf.size(at) > 0,
            one_round,
            (at, tf.gather(words, at), "", whole, tf.gather(known, whole), sizes, none),
            shape_invariants=(vector, vector, tf.TensorShape([]), *[vector] * 4),
            parallel_iterations=1,
        )
        # A word that cannot be cut to its end is unknown as a whole.
        is_failed = tf.scatter_nd(failed[:, None], tf.ones_like(failed), count[None]) > 0
        kept = tf.where(~tf.gather(is_failed, rows))[:, 0]
        rows = tf.concat([tf.gather(rows, kept), failed], 0)
        ids = tf.concat([tf.gather(ids, kept), tf.fill(tf.shape(failed), self._unknown())], 0)
        sizes = tf.concat([tf.gather(sizes, kept), tf.gather(length, failed)], 0)
        order = tf.argsort(rows, stable=True)
        return tuple(
            tf.RaggedTensor.from_value_rowids(
                tf.gather(values, order), tf.gather(rows, order), count, validate=False
            )
            for values in (ids, sizes)
        )

    def _unknown(self) -> tf.Tensor:
        return tf.constant(self.unknown_id, tf.int64)


@functools.lru_cache(maxsize=4)
def _characters(
    lowercase: bool, strip_accents: bool | None
) -> tuple[list[int], list[int], dict[int, str]]:
    """The cleaning of each character.

    Returns the first code points of ranges, the kind of each range, and the texts that replace
    `_FOLDED` characters.
    """
    engine = make_engine({"[UNK]": 0}, lowercase, strip_accents)
    separator = ","
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and chr(c) != separator]
    cleaned = engine.normalizer.normalize_str(separator.join(map(chr, codes))).split(separator)
    texts = dict(zip(codes, cleaned, strict=True))
    texts[ord(separator)] = separator
    rest = set("".join(cleaned)) - {" ", "a"} | {separator}
    # A character that is not a word of its own joins the letter before it.
    pieces = engine.pre_tokenizer.pre_tokenize_str("a" + "a".join(rest) + "a")
    alone = {piece for piece, _ in pieces} & rest
    kinds = np.full(0x110000, _REMOVED, "int32")
    folded: dict[int, str] = {}
    for code, text in texts.items():
        if text.strip() == chr(code) or text == chr(code):
            kinds[code] = _ALONE if text in alone or text != chr(code) else _KEPT
        elif text:
            kinds[code] = _FOLDED
            folded[code] = "".join(f" {c} " if c in alone else c for c in text)
    kinds[[ord(mark) for mark in removed_marks(lowercase, strip_accents)]] = _MARK
    changes = np.flatnonzero(np.diff(kinds)) + 1
    starts = [0, *changes.tolist()]
    return starts, kinds[starts].tolist(), folded
