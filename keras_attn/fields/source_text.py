"""Texts as sources of an encoder-decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.arrays import Array
from keras_attn.fields.signature import Encode
from keras_attn.fields.text import checked_texts
from keras_attn.text.language_marks import (
    IN_FRONT,
    checked_mark,
    encode_marked,
    ended,
    language_marks,
    parted,
    unknown_mark,
)
from keras_attn.text.tokenizer import Tokenizer
from keras_attn.white_space import normalize_white_space, normalize_white_space_in_graph


class SourceText:
    """Converts the source texts of an encoder-decoder to ids, in Python and in a TensorFlow graph.

    Args:
        tokenizer: A tokenizer with `encode`, `end_id`, `pad_id` and `to_graph`.
        max_length: Maximum number of ids of a row, including the end token; longer rows are cut.
        graph: Function that returns the tokenizer's graph, which other fields may share;
            `tokenizer.to_graph` if None.
        prefix: Text that is put before each text.
        one_line: Whether white space at both ends is removed, and each other run of white space,
            including line breaks, becomes one space.
        language: Target language of texts that do not begin with a language mark, if the tokenizer
            has language marks (`keras_attn.text.language_marks`).
        ends: Whether an end token is added to each text. If False, it is only added to texts
            without ids.

    Raises:
        ValueError: If `language` is given, but the tokenizer has no mark for this language.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> field = SourceText(BytePairTokenizer.train(["ab"], 259), max_length=2)
    >>> rows = field.encode(["ab", " "])
    >>> [len(row) for row in rows["source_ids"]], rows["cut"].tolist(), rows["some"].tolist()
    ([2, 1], [True, False], [True, False])
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        graph: Callable[[], Any] | None = None,
        *,
        prefix: str = "",
        one_line: bool = False,
        language: str = "",
        ends: bool = True,
    ):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.prefix = prefix
        self.one_line = one_line
        self.ends = ends
        self.marks = language_marks(tokenizer)
        self.language = checked_mark(language, self.marks)
        self._graph = graph or tokenizer.to_graph

    def read(self, text: str) -> str:
        """Returns the string that `encode` tokenizes: the prefix and the text, whose white space is
        normalized if `one_line` is True."""
        return self.prefix + (normalize_white_space(text) if self.one_line else text)

    def encode(self, texts: Sequence[str]) -> dict[str, Any]:
        """Returns the ids of texts.

        Args:
            texts: Strings.

        Returns:
            A dict with `source_ids`, a list with the list of ids of each text, and two boolean
            arrays with a value for each of the B texts: `cut (B,)`, True for truncated texts; and
            `some (B,)`, False for texts that are blank (after a language mark, if there is one).

        Raises:
            TypeError: If an input is not a string.
            ValueError: If the tokenizer has language marks, but not the mark at the beginning of a
                text.
        """
        texts, most = checked_texts(texts), self.max_length - self.ends
        read = [*map(self.read, texts)]
        rows, end = encode_marked(self.tokenizer, read, self.language), self.tokenizer.end_id
        return {
            "source_ids": [ended(row, end, self.ends, self.max_length) for row in rows],
            "cut": np.array([len(row) > most for row in rows], bool),
            "some": np.array([bool(parted(x, self.marks)[1].strip()) for x in texts], bool),
        }

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with strings `(B,)`. It returns a dict as in `encode`, with
        `source_ids` as an int32 table `(B, S)`, padded on the right.

        Args:
            tf: The module `tensorflow`.
        """
        tokenizer, most = self._graph(), self.max_length - self.ends

        def encode(text: Array) -> dict[str, Array]:
            clean = normalize_white_space_in_graph(tf, text)
            read = clean if self.one_line else text
            read = tf.strings.join([self.prefix, read]) if self.prefix else read
            marks = []
            if self.marks:
                mark, read = self._parted_in_graph(tf, read)
                rest = self._parted_in_graph(tf, text)[1] if self.prefix else read
                clean, marks = normalize_white_space_in_graph(tf, rest), [mark]
            ids = tf.concat([*marks, tokenizer.encode_start(read, most + 1)], axis=1)
            end = tf.fill([tf.shape(text)[0], 1], tokenizer.end_id)
            if not self.ends:
                end = tf.ragged.boolean_mask(end, ids.row_lengths()[:, None] == 0)
            return {
                "source_ids": tf.concat([ids[:, :most], end], axis=1).to_tensor(tokenizer.pad_id),
                "cut": ids.row_lengths() > most,
                "some": clean != "",
            }

        return encode, [tokenizer]

    def _parted_in_graph(self, tf: ModuleType, text: Array) -> tuple[Array, Array]:
        """The ids of leading language marks, `(B, 0 or 1)`, and the rest of each text.

        Raises an error for a mark that the model lacks.
        """
        named = tf.strings.regex_full_match(text, IN_FRONT)
        mark = tf.where(
            named, tf.strings.regex_replace(text, f"^{IN_FRONT}$", r"\1"), self.language
        )
        rest = tf.where(named, tf.strings.regex_replace(text, f"^{IN_FRONT}$", r"\2"), text)
        names = tf.constant(list(self.marks))
        equal = tf.expand_dims(mark, 1) == tf.expand_dims(names, 0)  # (B, M)
        known = tf.reduce_any(equal, axis=1) | (mark == "")
        message = unknown_mark("that a text has", self.marks)
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(known), [message, mark])]):
            place = tf.argmax(tf.cast(equal, tf.int32), axis=1)
        ids = tf.gather(tf.constant(list(self.marks.values()), tf.int32), place)
        return tf.ragged.boolean_mask(tf.expand_dims(ids, 1), tf.expand_dims(mark != "", 1)), rest
