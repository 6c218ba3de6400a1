"""Texts as inputs, with their words as an output."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from keras_attn.fields.signature import Encode
from keras_attn.fields.text import ODD_TEXTS, TextInput
from keras_attn.text import WordTokenizer


class WordTokens:
    """Converts texts to words and their ids, in Python and in a TensorFlow graph.

    Args:
        tokenizer: A `WordTokenizer`.
        max_length: Maximum number of words; longer texts are cut.

    Example:

    >>> field = WordTokens(WordTokenizer.train(["what is it?"]), max_length=3)
    >>> found = field.encode(["What?", "What is it?"])
    >>> found["words"]
    [['what', '?', ''], ['what', 'is', 'it']]
    """

    examples = ODD_TEXTS
    """Example inputs for checking exports."""

    def __init__(self, tokenizer: WordTokenizer, max_length: int):
        self.tokenizer = tokenizer
        self.max_length = max_length

    def encode(self, texts: Sequence[str]) -> dict[str, Any]:
        """Returns the words of texts and their ids.

        Args:
            texts: Strings.

        Returns:
            A dict with `ids`, int32 `(B, T)`, and `words`, a list of T strings for each of the B
            texts, padded with `""`. T is the number of words of the longest text, but at least 1
            and at most `max_length`.

        Raises:
            TypeError: If an input is not a string.
        """
        ids = TextInput(self.tokenizer, self.max_length).encode(texts)
        rows = [row[: ids.shape[1]] for row in self.tokenizer.words(texts)]
        return {"ids": ids, "words": [[*row, *[""] * (ids.shape[1] - len(row))] for row in rows]}

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from strings `(B,)` to a dict as in `encode`, with `words` as a string tensor
            `(B, T)`; and a list of the `tf.Module`s that the function uses.
        """
        tokenizer, pad = self.tokenizer.to_graph(), self.tokenizer.pad_id

        def encode(text):
            ids = tf.cast(tokenizer.encode_start(text, self.max_length).to_tensor(pad), tf.int32)
            words = tokenizer.words(text)[:, : self.max_length].to_tensor("")
            missing = [[0, 0], [0, tf.maximum(0, 1 - tf.shape(ids)[1])]]
            return {
                "ids": tf.pad(ids, missing, constant_values=pad),
                "words": tf.pad(words, missing),
            }

        return encode, [tokenizer]
