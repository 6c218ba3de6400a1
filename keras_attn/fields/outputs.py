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
        """Returns the array that `of` names as a list of Python numbers, which is nested if the
        array has several axes."""
        return np.asarray(tensors[self.of]).tolist()

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns the tensor that `of` names unchanged, for the graph of a SavedModel."""
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
        """Returns a copy of the list that `of` names, with the string or strings of each row."""
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
        """Returns a nested list of names in the shape of the integer array that `of` names, which
        contains the indices."""
        return np.array(self.names, object)[np.asarray(tensors[self.of])].tolist()

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns a string tensor of names in the shape of the integer tensor that `of` names,
        which contains the indices."""
        with tf.device("CPU:0"):
            return tf.gather(tf.constant(self.names), tensors[self.of])


class Label(Numbers):
    """Output field that returns the name of the class with the greatest logit or probability.

    Args:
        names: Names of the C classes.
        of: Name of the numbers `(B, C)` in the result of `Task.run`, with a row for each of B
            inputs.

    Example:

    >>> Label(["no", "yes"], "logits").decode({"logits": np.array([[0.0, 2.0]])})
    ['yes']
    """

    def __init__(self, names: Sequence[str], of: str):
        super().__init__(of)
        self.names = list(names)

    def decode(self, tensors: Mapping[str, np.ndarray]) -> list[str]:
        """Returns a list with a name for each row of the array that `of` names: the name of the
        class with the greatest number in the row."""
        return [self.names[i] for i in np.asarray(tensors[self.of]).argmax(axis=-1)]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Any]) -> Any:
        """Returns a string tensor `(B,)` with a name for each row of the tensor that `of` names:
        the name of the class with the greatest number in the row."""
        return tf.gather(tf.constant(self.names), tf.argmax(tensors[self.of], axis=-1))
