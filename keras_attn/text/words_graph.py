"""Word tokenizer with core TensorFlow ops, for `tf.data` and SavedModels."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_attn.text.graph_tokenizer import GraphTokenizer, graph_method, lookup_table
from keras_attn.text.normalization import normalize_text_in_graph, places_in_graph
from keras_attn.text.ragged_rows import join_rows
from keras_attn.text.word_cutting import CLITIC, ENDING, QUOTED, ROUNDS, WORD, in_graph


class GraphWords(GraphTokenizer):
    """`WordTokenizer` inside a TensorFlow graph, from strings to ids and back.

    For every text, the words and ids are the same as in Python. Bytes that are not UTF-8 are read
    as U+FFFD, as by Python's `bytes.decode("utf-8", "replace")`. The module uses only core
    TensorFlow ops and contains its tables, so a SavedModel with it needs only `import tensorflow`.
    The module runs on the CPU, because TensorFlow keeps strings there.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._lowercase = tokenizer.lowercase
        self._buckets = tokenizer.hash_buckets
        self._first_bucket = len(tokenizer.vocabulary)
        every = tokenizer.tokens(list(range(tokenizer.vocabulary_size)))
        skipped = (self.pad_id, self.start_id, self.end_id)
        texts = ["" if i in skipped else f" {token}" for i, token in enumerate(every)]
        lowered = tokenizer.lower_case
        with tf.device("CPU:0"):
            self._texts = tf.constant(texts)
            words = tokenizer.vocabulary
            self._ids = lookup_table(words, range(len(words)), tf.string, -1)
            self._lower = lookup_table(lowered, range(len(lowered)), tf.int64, -1)
            self._lowered = tf.constant(list(lowered.values()))
            self._factors = tf.constant(tokenizer.hash_factors, tf.int64)
            self._modulus = tf.constant(tokenizer.hash_modulus, tf.int64)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(B,)` to ragged int32 ids `(B, None)`, without start and end tokens."""
        with tf.device("CPU:0"):
            words = self.words(text)
            unique, index = tf.unique(words.flat_values)
            ids = tf.cast(tf.gather(self._known(unique), index), tf.int32)
            return words.with_flat_values(ids)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts strings `(B,)` to ids and their start and end bytes, each ragged `(B, None)`.

        `keras_attn.text.character_places_graph` converts bytes to character positions. Bytes that
        are not UTF-8 are read as U+FFFD, and positions refer to the resulting text.
        """
        with tf.device("CPU:0"):
            text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
            words = self._words_as_written(text)
            starts, ends = places_in_graph(tf, text)
            # Together the words are all characters but the spaces.
            behind = tf.cumsum(tf.strings.length(words.flat_values, "UTF8_CHAR"))
            first = tf.concat([tf.zeros_like(behind[:1]), behind[:-1]], axis=0)
            places = tf.gather(starts, first), tf.gather(ends, behind - 1)
            return self.encode(text), *map(words.with_flat_values, places)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def words(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits strings `(B,)` into the words that are looked up, ragged strings `(B, None)`."""
        with tf.device("CPU:0"):
            words = self._words_as_written(text)
            unique, again = tf.unique(words.flat_values, tf.int64)
            return words.with_flat_values(tf.gather(self._readable(unique), again))

    @graph_method(reduce_retracing=True, autograph=False)
    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Converts ids `(..., T)` to strings, with spaces between words and punctuation marks."""
        with tf.device("CPU:0"):
            text = tf.strings.reduce_join(tf.gather(self._texts, ids), axis=-1)
            return tf.strings.regex_replace(text, "^ ", "")

    def _words_as_written(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The words of normalized strings (B,) in their original case: ragged (B, None)."""
        text = normalize_text_in_graph(tf, text)
        found = tf.strings.split(tf.strings.regex_replace(text, in_graph(WORD), r"\0 "))
        unique, index = tf.unique(found.flat_values, tf.int64)
        parts = tf.strings.split(self._cut(unique))  # (U, None)
        some = tf.gather(parts, index)  # (W, None)
        splits = tf.gather(some.row_splits, found.row_splits)
        return tf.RaggedTensor.from_row_splits(some.flat_values, splits, validate=False)

    def _cut(self, words: tf.Tensor) -> tf.Tensor:
        """Puts spaces between the parts of words (U,)."""
        for _ in range(ROUNDS):
            words = tf.strings.regex_replace(words, in_graph(ENDING), r"\1 \2\3")
        rest = "(?: .*)?"
        quoted = tf.strings.regex_full_match(words, in_graph(QUOTED) + rest)
        whole = tf.strings.regex_full_match(words, f"(?:{in_graph(CLITIC)}|''){rest}")
        apart = tf.strings.regex_replace(words, in_graph(r"^(['\u2019])"), r"\1 ")
        return tf.where(quoted & ~whole, apart, words)

    def _readable(self, words: tf.Tensor) -> tf.Tensor:
        """Converts words (U,) to the form of the vocabulary: straight apostrophes, lower case."""
        straight = tf.strings.regex_replace(words, in_graph(r"\u2019"), "'")
        words = tf.where(tf.strings.length(words, "UTF8_CHAR") > 1, straight, words)
        if not self._lowercase:
            return words
        codes = tf.strings.unicode_decode(words, "UTF-8")
        unique, index = tf.unique(codes.flat_values)
        place = self._lower.lookup(tf.cast(unique, tf.int64))
        plain = tf.strings.unicode_encode(unique[:, None], "UTF-8")
        lowered = tf.where(place < 0, plain, tf.gather(self._lowered, tf.maximum(place, 0)))
        return join_rows(tf, codes.with_flat_values(tf.gather(lowered, index)))

    def _known(self, words: tf.Tensor) -> tf.Tensor:
        """The ids of words (U,)."""
        ids = self._ids.lookup(words)
        if not self._buckets:
            return tf.where(ids < 0, tf.cast(self.unknown_id, tf.int64), ids)
        codes = tf.strings.unicode_decode(words, "UTF-8")
        start = tf.cast(codes[:, : tf.size(self._factors)].to_tensor(), tf.int64)
        factors = self._factors[: tf.shape(start)[1]]
        hashed = tf.reduce_sum(start * factors, axis=1) % self._modulus % self._buckets
        return tf.where(ids < 0, hashed + self._first_bucket, ids)
