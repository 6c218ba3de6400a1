"""Tokens and attention weights as outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.arrays import Array
from keras_attn.text.readable import END, readable_tokens
from keras_attn.text.tokenizer import Tokenizer

Rows = Mapping[str, Any]
"""A dict of arrays, or of lists with an array for each row."""


class ReadableTokens:
    """Output field that converts ids to readable tokens: `""` for padding, `</s>` for end tokens.

    Args:
        tokenizer: A tokenizer with `tokens`, `pad_id`, `end_id` and `to_graph`.
        of: Name of the ids of B inputs: in Python, a list with an array for each input; in a graph,
            a tensor `(B, ...)`.
        graph: Function that returns the tokenizer's graph, which other fields may share;
            `tokenizer.to_graph` if None.

    Example:

    >>> tokenizer = BytePairTokenizer.train(["ab"], 259)
    >>> rows = {"tokens": [tokenizer.encode("ab", add_end=True), [tokenizer.end_id]]}
    >>> ReadableTokens(tokenizer).decode(rows).tolist()
    [['a', 'b', '</s>'], ['</s>', '', '']]
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        of: str = "tokens",
        graph: Callable[[], Any] | None = None,
    ):
        self.tokenizer = tokenizer
        self.of = of
        self._make_graph = graph or tokenizer.to_graph
        self._graph: Any = None

    def modules(self) -> list[object]:
        """Returns the `tf.Module`s that `graph` uses; call it before `graph`."""
        self._graph = self._make_graph()
        return [self._graph]

    def decode(self, rows: Rows) -> np.ndarray:
        """Returns the tokens as an array of strings `(B, ...)`, padded to the longest row.

        Args:
            rows: A dict that has the ids under the name in `of`: a list with an array for each of
                the B inputs. The arrays have the same rank.
        """
        ids = stacked(rows[self.of], self.tokenizer.pad_id)
        tokens = readable_tokens(self.tokenizer, ids.ravel().tolist())
        pad = ids == self.tokenizer.pad_id
        return np.where(pad, "", np.array(tokens, object).reshape(ids.shape))

    def graph(self, tf: ModuleType, tensors: Mapping[str, Array]) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict that has the padded ids `(B, ...)` under the name in `of`.
        """
        ids = tensors[self.of]
        tokens = tf.where(ids == self.tokenizer.end_id, END, self._graph.tokens(ids))
        return tf.where(ids == self.tokenizer.pad_id, "", tokens)


class AttentionWeights:
    """Output field of the attention weights from each generated token to the source.

    Args:
        of: Name of the weights of B inputs: in Python, a list with an array `(R, T, S)` for each
            input; in a graph, a tensor `(B, R, T, S)`. R is the number of results of an input, T
            the number of tokens, and S the number of source positions.
        grid: Rows and columns of the regions of an image, which replace the last axis; None for
            text sources.

    Example:

    >>> rows = {"weights": [np.ones((1, 2, 1)), np.ones((1, 1, 2))]}
    >>> AttentionWeights("weights").decode(rows)[:, 0].tolist()
    [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]]
    """

    def __init__(self, of: str, grid: tuple[int, int] | None = None):
        self.of = of
        self.grid = grid

    def decode(self, rows: Rows) -> np.ndarray:
        """Returns the weights as an array `(B, R, T, S)`, padded with zeros, or `(B, R, T, rows,
        columns)` if there is a `grid`. The dtype does not change.

        Args:
            rows: A dict that has the weights under the name in `of`: a list with an array `(R, T,
                S)` for each of the B inputs.
        """
        weights = stacked(rows[self.of], 0.0, rank=3)
        return weights.reshape(*weights.shape[:3], *self.grid) if self.grid else weights

    def graph(self, tf: ModuleType, tensors: Mapping[str, Array]) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict that has the weights `(B, R, T, S)` under the name in `of`.
        """
        weights = tensors[self.of]
        if self.grid is None:
            return weights
        return tf.reshape(weights, tf.concat([tf.shape(weights)[:3], self.grid], axis=0))


def stacked(rows: Sequence[Any], fill: float, rank: int = 0) -> np.ndarray:
    """Stacks arrays of the same rank, padded to the largest size in every axis.

    Without arrays, all axes have size 0; `rank` is then the rank of an array.
    """
    if not len(rows):
        return np.full((0,) * (1 + rank), fill)
    arrays = [np.asarray(row) for row in rows]
    shape = np.max([array.shape for array in arrays], axis=0)
    found = np.full((len(arrays), *shape), fill, arrays[0].dtype)
    for i, array in enumerate(arrays):
        place: tuple[int | slice, ...] = (i, *map(slice, array.shape))
        found[place] = array
    return found
