"""Texts as inputs, their checks, and example texts for checking exports."""

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.hints import Tensor
from keras_attn.inputs import listed
from keras_attn.text.tokenizer import Tokenizer

ODD_TEXTS = [
    "A film to remember.",
    "A second, somewhat longer sentence: 42.",
    "",
    " \n\t ",
    "It was NOT good, I'd say: 2/10!",
    "two  spaces, \u00a0 others\u00a0too, and some behind  ",
    " before; one\ntwo\r\n\tthree",
    "naïve café, e\u0301 n\u0303 😀👩\u200d👧 ☕\ufe0f שלום, عالم 漢字",
    "a \x00 b\x01",
    "word " * 700,
]
"""Example texts for checking exports, including unusual ones."""


def checked_texts(texts: Iterable[str]) -> list[str]:
    """Checks that all inputs are strings.

    Args:
        texts: A collection of strings, such as a list.

    Returns:
        A list of the strings.

    Raises:
        TypeError: If an input is not a string, or `texts` is a single string, a dict, a set or a
            table.

    Example:

    >>> checked_texts(["a", 7])
    Traceback (most recent call last):
        ...
    TypeError: Expected strings. Received: 7 of type int at position 1.
    """
    found = listed(texts, "a string or a list of strings")
    for i, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(
                f"Expected strings. Received: {text!r:.100} of type {type(text).__name__} at "
                f"position {i}."
            )
    return found


def checked_pairs(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Checks that all inputs are pairs of strings.

    Args:
        pairs: A collection of pairs: tuples or lists of two strings.

    Returns:
        A list of the pairs, as tuples.

    Raises:
        TypeError: If an input is not a pair of strings, or `pairs` is a single string, a dict, a
            set or a table.

    Example:

    >>> checked_pairs([("a", 7)])
    Traceback (most recent call last):
        ...
    TypeError: Expected pairs of strings. Received: ('a', 7) at position 0.
    """
    found = []
    for i, pair in enumerate(listed(pairs, "pairs of strings", 2)):
        parts = list(pair) if isinstance(pair, tuple | list) else []
        if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise TypeError(f"Expected pairs of strings. Received: {pair!r:.100} at position {i}.")
        found.append((parts[0], parts[1]))
    return found


def checked_inputs(inputs: Any, pairs: bool) -> list[str | tuple[str, str]]:
    """Checks that all inputs are single texts, or that all are pairs of texts.

    Args:
        inputs: A collection of strings, or of tuples or lists of two strings.
        pairs: Whether pairs are expected.

    Returns:
        A list of strings, or of tuples of two strings.

    Raises:
        TypeError: If an input is neither a string nor a pair of strings, or `inputs` is a single
            string, a dict, a set or a table.
        ValueError: If an input is a pair and `pairs` is False, or a string and `pairs` is True.

    Example:

    >>> checked_inputs([("A dog runs.", "An animal moves.")], pairs=True)
    [('A dog runs.', 'An animal moves.')]
    >>> checked_inputs(["A dog runs."], pairs=True)
    Traceback (most recent call last):
        ...
    ValueError: Expected pairs of texts. Received: the single text 'A dog runs.' at position 0.
    """
    what = "a pair of strings or a list of pairs" if pairs else "a string or a list of strings"
    inputs = listed(inputs, what, 1 + pairs)
    found: list[str | tuple[str, str]] = []
    for i, given in enumerate(inputs):
        pair = isinstance(given, tuple | list) and len(given) == 2
        if pair != pairs and (pair or isinstance(given, str)):
            expected = "pairs of texts" if pairs else "single texts"
            shown = f"a pair, {tuple(given)!r}," if pair else f"the single text {given!r}"
            raise ValueError(f"Expected {expected}. Received: {_cut(shown)} at position {i}.")
        parts = list(given) if pair else [given]
        if not all(isinstance(part, str) for part in parts):
            what = "pairs of strings" if pairs else "strings"
            raise TypeError(
                f"Expected {what}. Received: {_cut(repr(given))} of type {type(given).__name__} "
                f"at position {i}."
            )
        found.append((parts[0], parts[1]) if pair else given)
    return found


def _cut(shown: str) -> str:
    return shown if len(shown) <= 100 else f"{shown[:100]}..."


def sides_of(inputs: Sequence[str | tuple[str, str]]) -> list[list[str]]:
    """Returns the texts as a list, or the first and the second texts of pairs."""
    rows = [(given,) if isinstance(given, str) else given for given in inputs]
    return [list(side) for side in zip(*rows, strict=True)]


class TextInput:
    """Converts texts to ids, in Python and in a TensorFlow graph.

    Args:
        tokenizer: A tokenizer with `encode`, `pad_id` and `to_graph`.
        max_length: Maximum number of tokens; longer texts are cut.

    Example:

    >>> from keras_attn.text import BytePairTokenizer
    >>> TextInput(BytePairTokenizer.train(["ab"], 259), max_length=3).encode(["abcd", "a"]).shape
    (2, 3)
    """

    examples = ODD_TEXTS
    """Example inputs for checking exports."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self.tokenizer = tokenizer
        self.max_length = max_length

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Returns the ids of texts.

        Args:
            texts: Strings.

        Returns:
            The ids of the B texts, int32 `(B, S)`, padded on the right; S is the length of the
            longest row, but at least 1.

        Raises:
            TypeError: If an input is not a string.
        """
        rows = [row[: self.max_length] for row in self.tokenizer.encode(checked_texts(texts))]
        ids = np.full((len(rows), max([1, *map(len, rows)])), self.tokenizer.pad_id, "int32")
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return ids

    def to_graph(self, tf: ModuleType) -> tuple[Callable[[Any], Any], list[Any]]:
        """Returns a function that computes `encode` with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.

        Returns:
            A function from strings `(B,)` to ids, int32 `(B, S)`; and a list of the `tf.Module`s
            that the function uses.
        """
        graph, pad = self.tokenizer.to_graph(), self.tokenizer.pad_id

        def encode(text: Tensor) -> Tensor:
            ids = tf.cast(graph.encode(text)[:, : self.max_length].to_tensor(pad), tf.int32)
            missing = tf.maximum(0, 1 - tf.shape(ids)[1])
            return tf.pad(ids, [[0, 0], [0, missing]], constant_values=pad)

        return encode, [graph]
