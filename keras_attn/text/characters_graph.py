"""Character tokenizer with core TensorFlow ops, for `tf.data` and SavedModels."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from keras_attn.text.graph_tokenizer import GraphTokenizer, graph_method, lookup_table


class GraphCharacters(GraphTokenizer):
    """`CharacterTokenizer` inside a TensorFlow graph, from strings to ids and back.

    For every text, the ids are the same as in Python. Bytes that are not UTF-8 are read as U+FFFD,
    as by Python's `bytes.decode("utf-8", "replace")`. The module uses only core TensorFlow ops and
    contains its table, so a SavedModel with it needs only `import tensorflow`. The module runs on
    the CPU, because TensorFlow keeps strings there.
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        every = range(tokenizer.vocabulary_size)
        codes = [ord(character) for character in tokenizer.vocabulary[4:]]
        pieces = [tokenizer.decode([i]).encode("utf-8") for i in every]
        with tf.device("CPU:0"):
            self._pieces = tf.constant(pieces)
            ids = range(4, tokenizer.vocabulary_size)
            self._ids = lookup_table(codes, ids, tf.int64, tokenizer.unknown_id)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(B,)` to ragged int32 ids `(B, None)`, without start and end tokens."""
        with tf.device("CPU:0"):
            codes = tf.strings.unicode_decode(text, "UTF-8", errors="replace")
            ids = self._ids.lookup(tf.cast(codes.flat_values, tf.int64))
            return codes.with_flat_values(tf.cast(ids, tf.int32)).with_row_splits_dtype(tf.int64)

    def encode_start(self, text: tf.Tensor, count: int) -> tf.RaggedTensor:
        """Converts the start of strings `(B,)` to ids, like `encode(text)[:, :count]`.

        Only the bytes that `count` characters can have are read.
        """
        with tf.device("CPU:0"):
            # A character has at most four bytes; one that is cut comes after the last needed one.
            return self.encode(tf.strings.substr(text, 0, 4 * (count + 1)))[:, :count]

    @graph_method(reduce_retracing=True, autograph=False)
    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Converts ids `(..., T)` to strings `(...)` without padding, start and end tokens.

        `<unknown>` becomes U+FFFD.
        """
        with tf.device("CPU:0"):
            return tf.strings.reduce_join(tf.gather(self._pieces, ids), axis=-1)
