"""Texts and pairs of texts as rows of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.arrays import Array, padded
from keras_attn.fields.encoder_input import EncoderInput
from keras_attn.fields.outputs import Numbers
from keras_attn.fields.signature import Encode
from keras_attn.fields.text import checked_texts
from keras_attn.fields.word_rows import int32_of


class TextRows:
    """Converts texts, or pairs of texts, to rows of ids, in Python and in a TensorFlow graph.

    Args:
        field: An `EncoderInput`, which truncates texts and adds special tokens.
        prompt: Text that is put before each text.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
    >>> rows = TextRows(EncoderInput(tokenizer, max_length=8)).encode(["a b", "a"])
    >>> rows["row_ids"].tolist(), rows["row_sizes"].tolist()
    ([[2, 4, 5, 3], [2, 4, 3, 0]], [4, 3])
    """

    def __init__(self, field: EncoderInput, prompt: str = ""):
        self.field, self.prompt = field, prompt

    def encode(self, *texts: Sequence[str]) -> dict[str, Array]:
        """Returns a row of ids for each text or pair.

        Args:
            *texts: The texts; for pairs, the first texts and the second texts.

        Returns:
            A dict of int32 arrays for R texts or pairs. `row_ids (R, T)`: the ids, padded on the
            right. `row_sizes (R,)`: the number of ids of each row. `row_seconds (R,)`: the index in
            each row where the second segment starts; for a single text, the number of ids.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If there are not as many second texts as first texts.
        """
        tokenizer = self.field.tokenizer
        read = ([self.prompt + text for text in checked_texts(side)] for side in texts)
        rows = self.field.rows(*(tokenizer.encode(side) for side in read))
        return row_table(rows, tokenizer.pad_id)

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with strings `(R,)`; for pairs, also with the second strings `(R,)`.
        It returns a dict as in `encode`.

        Args:
            tf: The module `tensorflow`.
        """
        encode, modules = self.field.to_graph(tf)

        def rows(*texts: Array) -> dict[str, Array]:
            if self.prompt:
                texts = tuple(tf.strings.join([self.prompt, side]) for side in texts)
            ids, segments = encode(*texts)
            real = tf.cast(ids != self.field.tokenizer.pad_id, tf.int32)
            sizes = tf.reduce_sum(real, axis=1)
            seconds = sizes - tf.reduce_sum(segments, axis=1)
            return {"row_ids": ids, "row_sizes": sizes, "row_seconds": seconds}

        return rows, modules


class SeparateTexts(TextRows):
    """Converts pairs of texts to rows of ids, one row for each distinct text.

    Args:
        field: An `EncoderInput`, which truncates texts and adds special tokens.
        prompt: Text that is put before each text.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
    >>> texts = SeparateTexts(EncoderInput(tokenizer, max_length=8)).encode(["a", "a"], ["b", "a"])
    >>> len(texts["row_ids"]), texts["first"].tolist(), texts["second"].tolist()
    (2, [0, 0], [1, 0])
    """

    def encode(self, *texts: Sequence[str]) -> dict[str, Array]:
        """Returns a row of ids for each distinct text.

        Args:
            *texts: The first texts and the second texts of B pairs.

        Returns:
            A dict as in `TextRows.encode`, with a row for each distinct text, and with two more
            arrays, `first` and `second`, int32 `(B,)`: the row of the first text and of the second
            text of each pair.

        Raises:
            TypeError: If a text is not a string.
        """
        first, second = map(checked_texts, texts)
        different = list(dict.fromkeys([*first, *second]))
        row = {text: i for i, text in enumerate(different)}
        found = super().encode(different)
        for name, side in (("first", first), ("second", second)):
            found[name] = int32_of([row[text] for text in side])
        return found

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with the first strings and the second strings of the pairs, `(B,)`
        each, and returns a dict as in `encode`.

        Args:
            tf: The module `tensorflow`.
        """
        rows, modules = super().to_graph(tf)

        def encode(first: Array, second: Array) -> dict[str, Array]:
            texts, places = tf.unique(tf.concat([first, second], axis=0))
            pairs = tf.size(first)
            return {**rows(texts), "first": places[:pairs], "second": places[pairs:]}

        return encode, modules


class SearchTexts(TextRows):
    """Converts queries to rows of ids, and adds a search index: N names and their vectors.

    Args:
        field: An `EncoderInput`, which truncates queries and adds special tokens.
        names: N strings, such as the answers that are searched.
        vectors: Function that returns the vectors of the names, float32 `(N, D)`.
        prompt: Text that is put before each query.

    Example:

    >>> from keras_attn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
    >>> field = EncoderInput(tokenizer, max_length=8)
    >>> found = SearchTexts(field, ["b", "b a"], lambda: np.ones((2, 4))).encode(["a"])
    >>> found["names"], found["index"].shape
    (['b', 'b a'], (4, 2))
    """

    def __init__(
        self,
        field: EncoderInput,
        names: Sequence[str],
        vectors: Callable[[], np.ndarray],
        prompt: str = "",
    ):
        super().__init__(field, prompt)
        self.names = names
        self.vectors = vectors

    def encode(self, *texts: Sequence[str]) -> dict[str, Any]:
        """Returns a row of ids for each query.

        Args:
            *texts: The queries: one list of strings.

        Returns:
            A dict as in `TextRows.encode`, with the N `names`, and with their vectors as `index`,
            an array `(D, N)`.
        """
        return {**super().encode(*texts), "names": self.names, "index": self.vectors().T}

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with queries `(R,)`, and returns a dict as in `encode`. One of the
        modules holds the names and the vectors.

        Args:
            tf: The module `tensorflow`.
        """
        rows, modules = super().to_graph(tf)
        # Variables, as constants make a graph of more than 2 GB, which cannot be saved.
        index = tf.Module(name="index")
        index.vectors = tf.Variable(self.vectors().T, trainable=False)
        names = tf.constant([name.encode("utf-8") for name in self.names])
        index.names = tf.Variable(names, trainable=False)

        def encode(text: Array) -> dict[str, Array]:
            return {**rows(text), "names": index.names, "index": index.vectors}

        return encode, [*modules, index]


class FoundNames(Numbers):
    """Output field that converts the indices that a search found to names.

    Args:
        of: Name of the indices `(B, k)` of the k names for each of B queries. They refer to the
            names in the result of `SearchTexts.encode`.

    Example:

    >>> FoundNames("numbers").decode({"names": ["a", "b"], "numbers": np.array([[1, 0]])})
    [['b', 'a']]
    """

    def decode(self, tensors: Mapping[str, Any]) -> list[list[str]]:
        """Returns a list with a list of k names for each query.

        Args:
            tensors: A dict with the indices `(B, k)` under the name in `of`, and the `names`.
        """
        names = tensors["names"]
        return [[names[i] for i in row] for row in tensors[self.of].tolist()]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the result of `decode` as a string tensor `(B, k)`, with TensorFlow ops."""
        return tf.gather(tensors["names"], tensors[self.of])


class Tokens(Numbers):
    """Output field that looks up tokens by their ids, and pads them with `""`.

    Args:
        field: An `EncoderInput`, whose tokenizer converts ids to tokens.
        of: Name of the ids of B rows, `(B, T)`.
        sizes: Name of the number of ids of each row, int32 `(B,)`; later ids are ignored.

    Example:

    >>> from keras_attn.text import WordTokenizer
    >>> field = EncoderInput(WordTokenizer.train(["a b", "a b"]), 8)
    >>> tensors = {"ids": np.array([[4, 5, 0], [4, 0, 0]]), "sizes": np.array([2, 1])}
    >>> Tokens(field, "ids", "sizes").decode(tensors)
    [['a', 'b'], ['a', '']]
    """

    def __init__(self, field: EncoderInput, of: str, sizes: str):
        super().__init__(of)
        self.field, self.sizes = field, sizes

    def decode(self, tensors: Mapping[str, Any]) -> list[list[str]]:
        """Returns a list with a list of tokens for each row, all padded to the same length.

        Args:
            tensors: A dict of arrays: the ids `(B, T)` under the name in `of`, and the number of
                ids of each row under the name in `sizes`.
        """
        sizes = tensors[self.sizes].tolist()
        rows = zip(tensors[self.of].tolist(), sizes, strict=True)
        tokens = self.field.tokenizer.tokens([ids[:size] for ids, size in rows])
        return [[*row, *[""] * (max(sizes) - len(row))] for row in tokens]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the result of `decode` as a string tensor `(B, n)`, computed with TensorFlow ops;
        n is the greatest number of ids of a row."""
        sizes = tensors[self.sizes]
        ids = tensors[self.of][:, : tf.reduce_max(sizes)]
        inside = tf.range(tf.shape(ids)[1]) < sizes[:, None]
        return tf.where(inside, self.field.module.tokens(ids), "")


def row_table(rows: Sequence[tuple[Sequence[int], int]], pad_id: int) -> dict[str, Array]:
    """Returns the result of `TextRows.encode` for rows of ids and the starts of second segments."""
    sizes = int32_of([len(ids) for ids, _ in rows])
    ids = int32_of([*chain.from_iterable(ids for ids, _ in rows)])
    return {
        "row_ids": padded(np, ids, sizes, pad_id, least=1),
        "row_sizes": sizes,
        "row_seconds": int32_of([second for _, second in rows]),
    }
