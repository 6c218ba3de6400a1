"""Kinds of outputs: what a model computes, as people read it."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np


class Numbers:
    """Numbers, returned unchanged.

    Args:
        of: Name of the tensor among those that `Task.run` returns.

    Example:

    >>> Numbers("score").decode({"score": np.array([0.5])})
    [0.5]
    """

    def __init__(self, of: str):
        self.of = of

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[Any]:
        """Returns a value for each row."""
        return np.asarray(tensors[self.of]).tolist()

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the same as TensorFlow ops."""
        return tensors[self.of]


class Strings(Numbers):
    """Strings as they are, such as the words of a text that an input field cut it into.

    Args:
        of: Name of the strings, an array in a graph and lists in Python.

    Example:

    >>> Strings("text_words").decode({"text_words": [["a", "b"], ["c", ""]]})
    [['a', 'b'], ['c', '']]
    """

    def decode(self, tensors: Mapping[str, Any]) -> list[Any]:
        """Returns a value for each row."""
        return list(tensors[self.of])


class Names(Numbers):
    """Names by their numbers.

    Args:
        names: The names, in the order of their numbers.
        of: Name of the numbers, of any shape, among the tensors that `Task.run` returns.

    Example:

    >>> Names(["", "cat", "dog"], "best").decode({"best": np.array([[2, 1], [1, 0]])})
    [['dog', 'cat'], ['cat', '']]
    """

    def __init__(self, names: Sequence[str], of: str):
        super().__init__(of)
        self.names = list(names)

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[Any]:
        """Returns a value for each row."""
        return np.array(self.names, object)[np.asarray(tensors[self.of])].tolist()

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the same as TensorFlow ops."""
        with tf.device("CPU:0"):
            return tf.gather(tf.constant(self.names), tensors[self.of])


class Label(Numbers):
    """The name of the greatest of some numbers.

    Args:
        names: Name of each.
        of: Name of the tensor `(B, C)` among those that `Task.run` returns.

    Example:

    >>> Label(["no", "yes"], "logits").decode({"logits": np.array([[0.0, 2.0]])})
    ['yes']
    """

    def __init__(self, names: Sequence[str], of: str):
        super().__init__(of)
        self.names = list(names)

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[str]:
        """Returns a name for each row."""
        return [self.names[i] for i in np.asarray(tensors[self.of]).argmax(axis=-1)]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the same as TensorFlow ops."""
        return tf.gather(tf.constant(self.names), tf.argmax(tensors[self.of], axis=-1))
