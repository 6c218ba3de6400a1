"""SentencePiece with TensorFlow Text's ops, for `tf.data` and SavedModels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import chain
from typing import Any

import tensorflow as tf
import tensorflow_text

from keras_attn.text.graph_tokenizer import GraphTokenizer, graph_method, lookup_table
from keras_attn.text.ragged_rows import join_rows, row_numbers
from keras_attn.text.sentence_piece_model import SPACE

_ROWS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
_BLANKS = [code for code in range(0x3001) if chr(code).isspace()]


class GraphSentencePiece(GraphTokenizer):
    """`SentencePieceTokenizer` inside a TensorFlow graph, from strings to ids and back.

    The module uses `tensorflow_text.SentencepieceTokenizer`, whose ids are the same as in Python,
    except where two segmentations of a text have the same probability up to rounding.
    (`FastSentencepieceTokenizer` gives other ids for byte-pair models and byte fallback.) A
    SavedModel with this module needs `import tensorflow_text`. The module runs on the CPU, because
    TensorFlow keeps strings there.

    Example:

    >>> import tempfile
    >>> import tensorflow as tf
    >>> from keras_attn.text import SentencePieceTokenizer
    >>> tokenizer = SentencePieceTokenizer.train(["a rose is a rose is a rose"] * 9, 268)
    >>> with tempfile.TemporaryDirectory() as path:
    ...     tf.saved_model.save(tokenizer.to_graph(), path)
    ...     loaded = tf.saved_model.load(path)
    >>> ids = loaded.encode(tf.constant(["is a  rose"]))
    >>> ids.to_list() == [tokenizer.encode("is a rose")], loaded.texts(ids).numpy().tolist()
    (True, [b'is a rose'])
    """

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self._renumbered = tokenizer.renumbered
        self._dropped_spaces = tokenizer.dropped_spaces
        kind = tf.string if self._renumbered else tf.int32
        flat = [piece.encode("utf-8") for piece in chain.from_iterable(tokenizer.spelled)]
        with tf.device("CPU:0"):
            # A SavedModel knows models by these names: two of one name would become one.
            name = f"sentence_piece_{hashlib.sha256(tokenizer.model).hexdigest()[:16]}"
            self._encoder = tensorflow_text.SentencepieceTokenizer(
                tokenizer.model, out_type=kind, name=name
            )
            self._spelled = tf.RaggedTensor.from_row_lengths(
                tf.constant(flat, tf.string), [*map(len, tokenizer.spelled)]
            )
            ids_of = tokenizer.text_ids
            self._ids_of = lookup_table(
                [piece.encode("utf-8") for piece in ids_of], ids_of.values(), tf.string,
                self.unknown_id,
            )  # fmt: skip
            self._is_byte = tf.constant(tokenizer.is_byte)
            self._is_text = tf.constant(tokenizer.is_text)
            self._blanks = tf.constant(_BLANKS, tf.int32)

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Converts strings `(B,)` to ragged int32 ids `(B, None)`, without start and end tokens."""
        with tf.device("CPU:0"):
            return self._numbers(self._encoder.tokenize(_valid(text)))

    @graph_method(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
    def encode_with_offsets(
        self, text: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Converts strings `(B,)` to ids and their start and end bytes, each ragged `(B, None)`.

        Leading blanks are not a part of a token. A token that is a part of a character has the
        position of the whole character. Bytes that are not UTF-8 are read as U+FFFD, and positions
        refer to the resulting text.
        """
        with tf.device("CPU:0"):
            text = _valid(text)
            found, starts, ends = self._encoder.tokenize_with_offsets(text)
            ids = self._numbers(found)
            # Places in all texts, one behind the other, with a byte between two of them.
            before = tf.cumsum(tf.strings.length(text) + 1, exclusive=True)
            before = tf.gather(before, row_numbers(tf, ids))
            start, end = (tf.cast(x.flat_values, tf.int32) + before for x in (starts, ends))
            of_byte = tf.gather(self._is_byte, ids.flat_values) & (start == end)
            start, end = _filled(start, end, of_byte)
            start = tf.minimum(end, self._behind_blanks(text, start))
            of_text = tf.gather(self._is_text, ids.flat_values) & (start == end)
            start, end = _filled(start, end, of_text)
            return ids, ids.with_flat_values(start - before), ids.with_flat_values(end - before)

    def decode(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Converts ids `(..., T)` to strings `(...)` without special tokens.

        Bytes that are not UTF-8 become U+FFFD.
        """
        with tf.device("CPU:0"):
            if isinstance(ids, tf.RaggedTensor):
                if ids.ragged_rank > 1:
                    return ids.with_values(self.decode(ids.values))
                return self.texts(tf.cast(ids, tf.int32).with_row_splits_dtype(tf.int64))
            return _for_rows(self.texts, ids)

    # Rows alone: a function of any rank would lose the rank of what it returns.
    @graph_method(input_signature=[_ROWS], autograph=False)
    def texts(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Converts rows of ids to strings; SavedModels use this method instead of `decode`.

        Args:
            ids: Ragged int32 `(B, None)`, all in the vocabulary.

        Returns:
            Strings of shape `(B,)`.
        """
        with tf.device("CPU:0"):
            pieces = self._pieces_of(ids)
            if self._dropped_spaces != 1:
                return self._encoder.detokenize(pieces)
            # These ops drop the space of every piece at the start, the Python library that of one.
            text = self._whole(pieces)
            begins = tf.strings.regex_full_match(join_rows(tf, pieces[:, :1]), f"(?s){SPACE}.*")
            return tf.strings.substr(text, tf.cast(begins, tf.int32), tf.strings.length(text))

    def continuation(self, ids: tf.Tensor) -> tf.Tensor:
        """Converts ids `(..., T)` that continue texts to strings `(...)`, with leading spaces."""
        with tf.device("CPU:0"):
            return _for_rows(lambda rows: self._whole(self._pieces_of(rows)), ids)

    def _pieces_of(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        return ids.with_values(tf.gather(self._spelled, ids.values)).merge_dims(-2, -1)

    def _whole(self, pieces: tf.RaggedTensor) -> tf.Tensor:
        """The text of pieces with the leading space, which a dummy piece preserves."""
        guard = tf.RaggedTensor.from_tensor(tf.fill([pieces.nrows(), 1], "."))
        text = self._encoder.detokenize(tf.concat([guard, pieces], 1))
        return tf.strings.substr(text, tf.ones_like(text, tf.int32), tf.strings.length(text))

    def _numbers(self, found: tf.RaggedTensor) -> tf.RaggedTensor:
        """Converts the results of the op to ids: strings if ids are renumbered, ids otherwise."""
        if not self._renumbered:
            return found
        return found.with_values(tf.cast(self._ids_of.lookup(found.values), tf.int32))

    def _behind_blanks(self, text: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        """The first non-blank positions at or after given positions in all texts."""
        codes, starts = tf.strings.unicode_decode_with_offsets(text, "UTF-8")
        before = tf.cumsum(tf.strings.length(text) + 1, exclusive=True)
        starts = tf.cast(starts.flat_values, tf.int32) + tf.gather(before, row_numbers(tf, codes))
        codes = codes.flat_values
        blank = tf.minimum(tf.searchsorted(self._blanks, codes), len(_BLANKS) - 1)
        starts = tf.boolean_mask(starts, tf.gather(self._blanks, blank) != codes)
        starts = tf.concat([starts, [tf.int32.max]], 0)
        return tf.gather(starts, tf.searchsorted(starts, places))


def _for_rows(texts_of: Callable[[tf.RaggedTensor], tf.Tensor], ids: tf.Tensor) -> tf.Tensor:
    """The texts `(...)` of dense ids `(..., T)`, by a function of rows `(B, None)`."""
    shape = tf.shape(ids)
    rows = tf.reshape(tf.cast(ids, tf.int32), [tf.reduce_prod(shape[:-1]), shape[-1]])
    texts = texts_of(tf.RaggedTensor.from_tensor(rows))
    return tf.ensure_shape(tf.reshape(texts, shape[:-1]), ids.shape[:-1])


def _valid(text: tf.Tensor) -> tf.Tensor:
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def _filled(start: tf.Tensor, end: tf.Tensor, empty: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Replaces empty spans by the span of the next piece if it begins at the same position."""
    full = tf.cast(tf.where(~empty)[:, 0], tf.int32)
    numbers = tf.range(tf.size(start))
    # An empty piece at the end has no next one, and keeps its place.
    after = tf.gather(tf.concat([full, [-1]], 0), tf.searchsorted(full, numbers))
    after = tf.where(after < 0, numbers, after)
    begins, stops = tf.gather(start, after), tf.gather(end, after)
    taken = empty & (begins == start)
    return tf.where(taken, begins, start), tf.where(taken, stops, end)
