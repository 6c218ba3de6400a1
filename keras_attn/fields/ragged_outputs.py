"""Outputs with several values for each text: flat arrays as padded tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule, owners, padded
from keras_attn.text import byte_places, character_places_graph
from keras_attn.text.places import cut_texts_graph

Tensors = Mapping[str, Array]


class NumberRows:
    """Output field of rows of numbers, padded with zeros.

    Args:
        of: Name of the N concatenated numbers of all rows, `(N,)`.
        lengths: Name of the number of values in each of the B rows, int32 `(B,)`.

    Example:

    >>> tensors = {"p": np.array([1, 2, 3]), "words": np.array([2, 1], "int32")}
    >>> NumberRows("p", "words").decode(tensors).tolist()
    [[1, 2], [3, 0]]
    """

    def __init__(self, of: str, lengths: str):
        self.of, self.lengths = of, lengths

    def decode(self, tensors: Tensors) -> np.ndarray | list:
        """Returns the numbers as a padded table `(B, n)`, where n is the length of the longest row.

        Args:
            tensors: A dict of arrays that has the numbers under the name in `of`, and the lengths
                of the B rows under the name in `lengths`.
        """
        return padded(np, tensors[self.of], tensors[self.lengths])

    def graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict of tensors that has the numbers under the name in `of`, and the lengths
                of the rows under the name in `lengths`.
        """
        return _table(tf, tensors[self.of], tensors[self.lengths])


class StringRows(NumberRows):
    """Output field of rows of strings, padded with `""`.

    Args:
        of: Name of the concatenated strings of all rows, `(N,)`.
        lengths: Name of the number of values of each row, int32 `(B,)`.

    Example:

    >>> tensors = {"word": ["a", "b", "c"], "words": np.array([2, 1], "int32")}
    >>> StringRows("word", "words").decode(tensors)
    [['a', 'b'], ['c', '']]
    """

    def values(self, tensors: Tensors) -> Sequence[str]:
        """Returns a list of the concatenated strings of all rows, which `of` names; `decode` splits
        it into rows."""
        return list(tensors[self.of])

    def values_graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns the concatenated strings of all rows, the string tensor `(N,)` that `of` names;
        `graph` splits it into rows."""
        return tensors[self.of]

    def decode(self, tensors: Tensors) -> list[list[str]]:
        """Returns a list with a list of strings for each row, all padded to the same length.

        Args:
            tensors: A dict that has the strings (or the values that `values` reads) under the name
                in `of`, and an int32 array of the lengths of the rows under the name in `lengths`.
        """
        values = iter(self.values(tensors))
        lengths = tensors[self.lengths].tolist()
        width = max(lengths, default=0)
        return [[next(values) for _ in range(n)] + [""] * (width - n) for n in lengths]

    def graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict of tensors that has the values that `values_graph` reads, and the
                lengths of the rows under the name in `lengths`.
        """
        return _table(tf, self.values_graph(tf, tensors), tensors[self.lengths])


class NameRows(StringRows):
    """Output field of rows of names, looked up by their indices and padded with `""`.

    Args:
        names: The names, in the order of their indices.
        of: Name of the concatenated indices of all rows, `(N,)`.
        lengths: Name of the number of values of each row, int32 `(B,)`.

    Example:

    >>> tensors = {"best": np.array([1, 0]), "words": np.array([2], "int32")}
    >>> NameRows(["O", "B-X"], "best", "words").decode(tensors)
    [['B-X', 'O']]
    """

    def __init__(self, names: Sequence[str], of: str, lengths: str):
        super().__init__(of, lengths)
        self.names = list(names)

    def values(self, tensors: Tensors) -> Sequence[str]:
        """Returns a list of the concatenated names of all rows, for the indices in the array that
        `of` names."""
        return [self.names[i] for i in tensors[self.of].tolist()]

    def values_graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns a string tensor `(N,)` of the concatenated names of all rows, for the indices in
        the tensor that `of` names."""
        return tf.gather(tf.constant(self.names), tensors[self.of])


class PlaceRows(NumberRows):
    """Output field of rows of positions in texts, in bytes or characters, padded with zeros.

    The input positions are in characters in Python and in bytes in a graph.

    Args:
        of: Name of the positions: if there are `lengths`, the N concatenated positions of all rows
            `(N,)`; otherwise, a table `(B, n)` with a row for each of B texts.
        lengths: Name of the number of positions of each row, int32 `(B,)`; None for a table.
        characters: Whether the output is in characters instead of UTF-8 bytes.

    Example:

    >>> tensors = {"text": ["é a"], "at": np.array([2], "int32"), "n": np.array([1], "int32")}
    >>> PlaceRows("at", "n").decode(tensors).tolist()
    [[3]]
    """

    def __init__(self, of: str, lengths: str | None = None, characters: bool = False):
        super().__init__(of, lengths or "")
        self.characters = characters

    def decode(self, tensors: Tensors) -> Any:
        """Returns the positions as an int32 table `(B, n)` with a row for each text: in characters
        if `characters` is True, otherwise in UTF-8 bytes.

        Args:
            tensors: A dict with the texts as `text`, and int32 arrays: the character positions
                under the name in `of` and, if they are concatenated, their numbers under the name
                in `lengths`.
        """
        table = tensors[self.of]
        if self.lengths:
            table = padded(np, table, tensors[self.lengths])
        if self.characters:
            return table
        rows = zip(tensors["text"], table.tolist(), strict=True)
        found = [byte_places(text, row) for text, row in rows]
        return np.array(found, "int32").reshape(table.shape)

    def graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict of tensors as in `decode`, with positions in bytes.
        """
        places = tensors[self.of]
        if self.characters:
            rows = _texts_of(ops, tensors, places, self.lengths)
            flat = character_places_graph(tf, tensors["text"], tf.reshape(places, [-1]), rows)
            places = _shaped(tf, flat, places)
        return _table(tf, places, tensors[self.lengths]) if self.lengths else places


class PartRows(StringRows):
    """Output field of parts of texts: rows padded with `""`, or one part of each text.

    Args:
        starts: Name of the start positions, in characters in Python and in bytes in a graph. If
            there are `lengths`, these are the N concatenated positions of all rows `(N,)`;
            otherwise, an array `(B,)` or `(B, n)` with one or n positions for each of B texts.
        ends: Name of the end positions, in the same form.
        lengths: Name of the number of parts of each row, int32 `(B,)`; None for positions `(B,)`
            or `(B, n)`.

    Example:

    >>> tensors = {"text": ["an é"], "from": np.array([3]), "to": np.array([4])}
    >>> PartRows("from", "to", "n").decode({**tensors, "n": np.array([1], "int32")})
    [['é']]
    >>> PartRows("from", "to").decode(tensors)
    ['é']
    """

    def __init__(self, starts: str, ends: str, lengths: str | None = None):
        super().__init__(starts, lengths or "")
        self.ends = ends

    def values(self, tensors: Tensors) -> Sequence[str]:
        """Returns a list of the parts of all texts, concatenated.

        Args:
            tensors: A dict as in `decode`.
        """
        texts, starts, ends = tensors["text"], tensors[self.of], tensors[self.ends]
        rows = _texts_of(np, tensors, starts, self.lengths)
        places = zip(rows.tolist(), starts.ravel().tolist(), ends.ravel().tolist(), strict=True)
        return [texts[row][start:end] for row, start, end in places]

    def values_graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns the result of `values` as a string tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict as in `graph`.
        """
        rows = _texts_of(ops, tensors, tensors[self.of], self.lengths)
        places = (tf.reshape(tensors[name], [-1]) for name in (self.of, self.ends))
        return cut_texts_graph(tf, tensors["text"], rows, *places)

    def decode(self, tensors: Tensors) -> list:
        """Returns a list with the parts of each text: one string if the positions are `(B,)`,
        otherwise a list of strings, which is padded if there are `lengths`.

        Args:
            tensors: A dict with the texts as `text`, and arrays of the positions under the names in
                `starts` and `ends` and, if they are concatenated, of their numbers under the name
                in `lengths`.
        """
        if self.lengths:
            return super().decode(tensors)
        return np.array(self.values(tensors), object).reshape(tensors[self.of].shape).tolist()

    def graph(self, tf: ModuleType, tensors: Tensors) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict of tensors as in `decode`, with positions in bytes.
        """
        if self.lengths:
            return super().graph(tf, tensors)
        return _shaped(tf, self.values_graph(tf, tensors), tensors[self.of])


def _table(tf: ModuleType, values: Array, lengths: Array) -> Array:
    """Rows as a table, padded with zeros or `""`."""
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_tensor()


def _texts_of(xp: ArrayModule, tensors: Tensors, places: Array, lengths: str) -> Array:
    """The index of the text of each position, int32 `(N,)`."""
    if lengths:
        return owners(xp, tensors[lengths])
    texts = xp.arange(xp.shape(places)[0], dtype="int32")
    texts = xp.reshape(texts, (-1,) + (1,) * (len(places.shape) - 1))
    return xp.reshape(xp.zeros_like(places) + texts, (-1,))


def _shaped(tf: ModuleType, flat: Array, places: Array) -> Array:
    """Values in the shape of their positions."""
    return tf.ensure_shape(tf.reshape(flat, tf.shape(places)), places.shape)
