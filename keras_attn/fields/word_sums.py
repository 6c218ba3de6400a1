"""Sums and differences of words as inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.fields.text import ODD_TEXTS, checked_texts
from keras_attn.hints import Tensor


def signed_words(words: Iterable[str]) -> list[tuple[str, int]]:
    """Returns the words of a sum such as `king - man + woman` with their signs, 1 or -1.

    A sign applies only to the word after it.
    """
    signed, sign = [], 1
    for word in words:
        if word in ("+", "-"):
            sign = 1 if word == "+" else -1
        else:
            signed.append((word, sign))
            sign = 1
    return signed


class WordSum:
    """Converts sums and differences of words, such as `"king - man + woman"`, to signed ids.

    White space separates words and signs. If a word is not in the vocabulary, its form with
    lower-case letters a to z is looked up.

    Args:
        vocabulary: The words in the order of their ids. Ids 0 to 3 are special tokens, which texts
            cannot contain.
        unknown_id: Id of words that are not in the vocabulary.

    Example:

    >>> WordSum(["<pad>", "<start>", "<end>", "<unknown>", "man", "king"]).encode(
    ...     ["King - man", "cow"]
    ... ).tolist()
    [[5, -4], [3, 0]]
    """

    def __init__(self, vocabulary: Sequence[str], unknown_id: int = 3):
        self.vocabulary = list(vocabulary)
        self.unknown_id = unknown_id
        self.examples = [*ODD_TEXTS, *self.vocabulary[4:6], " - ".join(self.vocabulary[-2:]), "- -"]
        self._ids = {word: i for i, word in enumerate(self.vocabulary[4:], start=4)}

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Returns the ids of the words of sums; the ids of subtracted words are negative.

        Args:
            texts: Strings, such as `"king - man + woman"`.

        Returns:
            The ids of the words of the B texts, int32 `(B, T)`, padded on the right with zeros; T
            is at least 1.

        Raises:
            TypeError: If an input is not a string.
        """
        rows = [self._row(text) for text in checked_texts(texts)]
        ids = np.zeros((len(rows), max([1, *map(len, rows)])), "int32")
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return ids

    def _row(self, text: str) -> list[int]:
        # White space as RE2 has it.
        words = text.translate(dict.fromkeys(map(ord, "\t\n\v\f\r"), " ")).split(" ")
        return [sign * self._id(word) for word, sign in signed_words(filter(None, words))]

    def _id(self, word: str) -> int:
        found = self._ids.get(word)
        return self._ids.get(word.translate(_LOWER), self.unknown_id) if found is None else found

    def to_graph(self, tf: ModuleType) -> tuple[Callable[[Any], Any], list[Any]]:
        """Returns a function that computes `encode` with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from strings `(B,)` to ids, int32 `(B, T)`; and a list of the `tf.Module`s
            that the function uses.
        """
        module = tf.Module()
        with tf.device("CPU:0"):
            module.ids = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    tf.constant(self.vocabulary[4:]),
                    tf.range(4, len(self.vocabulary), dtype=tf.int32),
                ),
                self.unknown_id,
            )

        def encode(text: Tensor) -> Tensor:
            with tf.device("CPU:0"):
                text = tf.strings.regex_replace(text, r"[\t\n\v\f\r ]+", " ")
                words = tf.strings.split(text, " ")
                words = tf.ragged.boolean_mask(words, words != "")
                signs = (words == "+") | (words == "-")
                # A sign counts for the word behind it alone.
                before = tf.concat([tf.fill([tf.size(text), 1], ""), words], axis=1)
                before = tf.ragged.boolean_mask(
                    before, tf.ragged.range(before.row_lengths()) < words.row_lengths()[:, None]
                )
                flat = words.flat_values
                found = module.ids.lookup(flat)
                lowered = module.ids.lookup(tf.strings.lower(flat))
                found = tf.where(found == self.unknown_id, lowered, found)
                found = tf.where(before.flat_values == "-", -found, found)
                ids = tf.ragged.boolean_mask(words.with_flat_values(found), ~signs)
                ids = ids.to_tensor(0)
                return tf.pad(ids, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(ids)[1])]])

        return encode, [module]


_LOWER = {i: i + 32 for i in range(ord("A"), ord("Z") + 1)}
