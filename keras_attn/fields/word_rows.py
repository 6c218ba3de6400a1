"""Words as inputs of an encoder, given as lists or split from texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import ModuleType
from typing import Any, cast

import numpy as np

from keras_attn.arrays import (
    Array,
    ArrayModule,
    joined,
    owners,
    row_sums,
    starts_of,
    window_numbers,
    windows,
)
from keras_attn.fields.signature import Encode
from keras_attn.fields.text import ODD_TEXTS
from keras_attn.text import (
    BytePairTokenizer,
    split_words,
    split_words_graph,
)
from keras_attn.text.tokenizer import OffsetTokenizer


def int32_of(numbers: Sequence[int]) -> np.ndarray:
    """Returns numbers as an int32 array, which may be empty."""
    return np.array(numbers, "int32")


class WordRows:
    """Converts sentences of words to overlapping rows of ids.

    The pieces of the words of a sentence are split into windows (`keras_attn.arrays.windows`), each
    of which becomes a row `[CLS] pieces [SEP]`. A byte-pair tokenizer reads each word with a
    preceding space. A word whose characters are all removed by the tokenizer becomes the unknown
    token, or the padding token if the tokenizer has no unknown token.

    Args:
        tokenizer: A tokenizer with `encode`, `pad_id`, `start_id`, `end_id`, `unknown_id` and
            `to_graph`, such as a `WordPieceTokenizer`.
        max_length: Maximum number of ids of a row, special tokens included.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b"])
    >>> words = WordRows(tokenizer, max_length=6)
    >>> given = words.encode([["ab", "a"], []])
    >>> words.rows(np, given)["row_ids"].tolist()
    [[2, 4, 5, 4, 3], [2, 3, 0, 0, 0]]
    """

    def __init__(self, tokenizer: OffsetTokenizer, max_length: int):
        self.tokenizer = tokenizer
        self.lead = " " if isinstance(tokenizer, BytePairTokenizer) else ""
        self.unknown_id = tokenizer.unknown_id or tokenizer.pad_id
        self.room = max_length - 2
        self.margin = self.room // 8

    def encode(self, sentences: Sequence[Sequence[str]]) -> dict[str, Array]:
        """Returns the ids of the pieces of words.

        Args:
            sentences: For each sentence, a list of its words.

        Returns:
            A dict of int32 arrays: `ids`, the concatenated ids of the pieces of all words;
            `pieces`, the number of pieces of each word; and `words`, the number of words of each
            sentence.
        """
        words = [self.lead + word for word in chain.from_iterable(sentences)]
        encoded = cast("list[list[int]]", self.tokenizer.encode(words))
        pieces = [ids or [self.unknown_id] for ids in encoded]
        return {
            "ids": int32_of([*chain.from_iterable(pieces)]),
            "pieces": int32_of([*map(len, pieces)]),
            "words": int32_of([*map(len, sentences)]),
        }

    @cached_property
    def module(self) -> object:
        """The tokenizer as a `tf.Module`."""
        return self.tokenizer.to_graph()

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from ragged strings `(B, None)`, the words of B sentences, to a dict as in
            `encode`; and a list of the `tf.Module`s that the function uses.
        """
        tokenizer = self.module

        def encode(words):
            pieces = tf.cast(tokenizer.encode(self.lead + words.flat_values), tf.int32)
            none = tf.cast(pieces.row_lengths() == 0, tf.int64)
            filled = tf.fill(tf.reduce_sum(none)[None], self.unknown_id)
            pieces = tf.concat([pieces, tf.RaggedTensor.from_row_lengths(filled, none)], axis=1)
            return {
                "ids": pieces.flat_values,
                "pieces": tf.cast(pieces.row_lengths(), tf.int32),
                "words": tf.cast(words.row_lengths(), tf.int32),
            }

        return encode, [tokenizer]

    def rows(self, xp: ArrayModule, given: Mapping[str, Array]) -> dict[str, Array]:
        """Creates the rows of ids that an encoder reads, one for each window of a sentence.

        Args:
            xp: The array module, `numpy` or `keras.ops`.
            given: The result of `encode`.

        Returns:
            A dict of int32 arrays for R rows. `row_ids (R, T)`: the ids, padded on the right.
            `row_sizes (R,)`: the number of ids of each row. `row_seconds (R,)`: the same numbers,
            because there is no second segment. `row (W,)` and `column (W,)`: for each of the W
            words, the place in `row_ids` of its first piece, where its label is read.
            `row_starts (R,)` and `word_pieces (W,)`: the index in its sentence of the first piece
            of each row and of each word.
        """
        lengths = row_sums(xp, given["pieces"], given["words"])  # pieces of each sentence
        found = windows(xp, lengths, self.room, self.margin)
        begin = xp.take(starts_of(xp, lengths), found.owner, axis=0) + found.start
        none = xp.zeros_like(begin)
        start, end = (int32_of([x]) for x in (self.tokenizer.start_id, self.tokenizer.end_id))
        parts = [(start, none, none + 1), (given["ids"], begin, found.size), (end, none, none + 1)]
        ids, sizes = joined(xp, parts, self.tokenizer.pad_id)
        sentence = owners(xp, given["words"])
        place = starts_of(xp, given["pieces"])
        place = place - xp.take(starts_of(xp, lengths), sentence, axis=0)
        of_words = xp.take(lengths, sentence, axis=0)
        number = window_numbers(xp, place, of_words, self.room, self.margin)
        row = xp.take(found.rows, sentence, axis=0) + number
        return {
            "row_ids": ids,
            "row_sizes": sizes,
            "row_seconds": sizes,
            "row": row,
            "column": place - xp.take(found.start, row, axis=0) + 1,
            "row_starts": found.start,
            "word_pieces": place,
        }


class WordLists:
    """Input field that converts lists of words to the ids of their pieces.

    In a SavedModel, the lists are the rows of a table, padded with `""`.

    Args:
        rows: A `WordRows`.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b"])
    >>> WordLists(WordRows(tokenizer, 6)).encode([["ab", "a"], ["a", ""]])["words"].tolist()
    [2, 1]
    """

    def __init__(self, rows: WordRows):
        self.rows = rows

    def encode(self, words: Sequence[Sequence[str]]) -> dict[str, Array]:
        """Returns the ids of the pieces of words, in a dict as in `WordRows.encode`.

        Args:
            words: For each sentence, a list of its words. `""` after the last word is padding,
                which is ignored.
        """
        ends = [max((i + 1 for i, word in enumerate(row) if word), default=0) for row in words]
        return self.rows.encode([row[:end] for row, end in zip(words, ends, strict=True)])

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with words as strings `(B, W)`, where a row has the words of a
        sentence, padded with `""`. It returns a dict as in `encode`.

        Args:
            tf: The module `tensorflow`.
        """
        of_rows, modules = self.rows.to_graph(tf)

        def encode(words):
            numbers = tf.where(words != "", tf.range(1, tf.shape(words)[1] + 1), 0)
            lengths = tf.reduce_max(numbers, axis=1)
            return of_rows(tf.RaggedTensor.from_tensor(words, lengths=lengths))

        return encode, modules


class TextWords:
    """Input field that splits texts into words, and converts the words to the ids of their pieces.

    Args:
        rows: A `WordRows`.
        split: Whether `encode` splits the texts with `keras_attn.text.split_words`; otherwise, it
            splits them at white space. A graph always uses `split_words`.
        limit: Function `limit(tf, number)` that a graph calls, and that raises an error if `number`
            is too large. `number` is the number of texts times the number of words of the longest
            text. None for no limit.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b"])
    >>> TextWords(WordRows(tokenizer, 6)).encode(["ab a"])["word_starts"].tolist()
    [0, 3]
    """

    examples = ODD_TEXTS
    """Example inputs for checking exports."""

    def __init__(
        self,
        rows: WordRows,
        split: bool = True,
        limit: Callable[[ModuleType, Array], Array] | None = None,
    ):
        self.rows, self.split, self.limit = rows, split, limit

    def encode(self, texts: Sequence[str | Sequence[str]]) -> dict[str, Any]:
        """Returns the ids of the pieces of words, and the positions of words.

        Args:
            texts: Strings, or lists of words, which are not split.

        Returns:
            A dict as in `WordRows.encode`, with four more keys: `text`, the `texts`; `word`, a list
            of all words; and `word_starts` and `word_ends`, int32 arrays of the character positions
            of the words in their text. For lists of words, the positions have no meaning.

        Raises:
            TypeError: If an input is neither a string nor a list of words.
        """
        cut = [self._cut(text, i) for i, text in enumerate(texts)]
        words, starts = zip(*chain.from_iterable(cut), strict=True) if any(cut) else ((), ())
        begins = int32_of(starts)
        return {
            **self.rows.encode([[word for word, _ in row] for row in cut]),
            "text": texts,
            "word": list(words),
            "word_starts": begins,
            "word_ends": begins + int32_of([*map(len, words)]),
        }

    def _cut(self, text: Any, number: int) -> list[tuple[str, int]]:
        """The words of a text and their start positions."""
        if isinstance(text, str):
            if self.split:
                return [(word.text, word.start) for word in split_words(text)]
            return [(found.group(), found.start()) for found in re.finditer(r"\S+", text)]
        is_row = isinstance(text, Sequence) and not isinstance(text, bytes)
        if is_row and all(isinstance(word, str) for word in text):
            return [(word, 0) for word in text]
        raise TypeError(
            f"Expected a string or a list of words. Received: {text!r:.100} at position {number}."
        )

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with strings `(B,)`. It returns a dict as in `encode`, with positions
        in bytes. Bytes that are not UTF-8 are read as U+FFFD.

        Args:
            tf: The module `tensorflow`.
        """
        of_rows, modules = self.rows.to_graph(tf)

        def encode(text):
            text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
            words, starts = split_words_graph(tf, text)
            if self.limit is not None:
                longest = tf.reduce_max(words.row_lengths())
                with tf.control_dependencies([self.limit(tf, tf.size(text, tf.int64) * longest)]):
                    words = words.with_flat_values(tf.identity(words.flat_values))
            lengths = tf.strings.length(words.flat_values)
            return {
                **of_rows(words),
                "text": text,
                "word": words.flat_values,
                "word_starts": starts.flat_values,
                "word_ends": starts.flat_values + lengths,
            }

        return encode, modules
