"""Output fields for numbers, strings, names and labels."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np


class Numbers:
    """Output field that returns numbers unchanged.

    Args:
        of: Name of the tensor in the result of `Task.run`.

    Example:

    >>> Numbers("score").decode({"score": np.array([0.5])})
    [0.5]
    """

    def __init__(self, of: str):
        self.of = of

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[Any]:
        """Returns the numbers of all rows as a nested list, given arrays keyed by name."""
        return np.asarray(tensors[self.of]).tolist()

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops."""
        return tensors[self.of]


class Strings(Numbers):
    """Output field that returns strings unchanged, such as the words of an input field.

    Args:
        of: Name of the strings, which are a tensor in a graph and lists in Python.

    Example:

    >>> Strings("text_words").decode({"text_words": [["a", "b"], ["c", ""]]})
    [['a', 'b'], ['c', '']]
    """

    def decode(self, tensors: Mapping[str, Any]) -> list[Any]:
        """Returns the strings of all rows as a list, given arrays and lists keyed by name."""
        return list(tensors[self.of])


class Names(Numbers):
    """Output field that looks up names by their indices.

    Args:
        names: The names, in the order of their indices.
        of: Name of the indices, of any shape, in the result of `Task.run`.

    Example:

    >>> Names(["", "cat", "dog"], "best").decode({"best": np.array([[2, 1], [1, 0]])})
    [['dog', 'cat'], ['cat', '']]
    """

    def __init__(self, names: Sequence[str], of: str):
        super().__init__(of)
        self.names = list(names)

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[Any]:
        """Returns the names as a nested list in the shape of the indices, given arrays keyed by
        name."""
        return np.array(self.names, object)[np.asarray(tensors[self.of])].tolist()

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops."""
        with tf.device("CPU:0"):
            return tf.gather(tf.constant(self.names), tensors[self.of])


class Label(Numbers):
    """Output field that returns the name of the class with the greatest number.

    Args:
        names: Names of the classes.
        of: Name of the tensor `(B, C)` in the result of `Task.run`.

    Example:

    >>> Label(["no", "yes"], "logits").decode({"logits": np.array([[0.0, 2.0]])})
    ['yes']
    """

    def __init__(self, names: Sequence[str], of: str):
        super().__init__(of)
        self.names = list(names)

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[str]:
        """Returns the name of the class with the greatest number in each row, given arrays keyed by
        name."""
        return [self.names[i] for i in np.asarray(tensors[self.of]).argmax(axis=-1)]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops."""
        return tf.gather(tf.constant(self.names), tf.argmax(tensors[self.of], axis=-1))
