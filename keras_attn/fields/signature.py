"""Inputs and outputs of a SavedModel signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from keras_attn.arrays import Array

Encode = Callable[..., Any]
"""Function from raw inputs to an array or a dict of arrays."""


class InputField(Protocol):
    """Interface of input fields, which convert raw inputs to arrays.

    Tasks call `encode` in Python, and `to_graph` to export a SavedModel.
    """

    @property
    def encode(self) -> Encode:
        """Function that converts the raw inputs, in the order of the signature, to arrays."""

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s."""


class OutputField(Protocol):
    """Interface of output fields, which convert arrays to results.

    Tasks call `decode` in Python, and `graph` to export a SavedModel.
    """

    def decode(self, tensors: Mapping[str, Array]) -> Any:
        """Converts arrays, keyed by name, to a Python value for each row."""

    def graph(self, tf: ModuleType, tensors: Mapping[str, Array]) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops."""


@runtime_checkable
class WithModules(Protocol):
    """Interface of output fields that use `tf.Module`s, such as the tables of a tokenizer."""

    def modules(self) -> list[object]:
        """Returns the `tf.Module`s that `graph` uses; it is called once, before `graph`."""


class Signature(NamedTuple):
    """Inputs and outputs of a SavedModel signature.

    Example:

    >>> from keras_attn.fields import Numbers
    >>> Signature(("text",), Together({}), {"score": Numbers("score")}).inputs
    ('text',)
    """

    inputs: tuple[str, ...]
    """Names of the raw inputs."""
    field: InputField
    """Input field that converts the raw inputs."""
    outputs: Mapping[str, OutputField]
    """Output fields, keyed by name."""
    use: Any = None
    """Settings of `Task.run`; the settings of the export if None."""


class Together:
    """Input field that combines several inputs, each of which is encoded by its own field.

    Args:
        fields: Input fields, keyed by the names of the inputs; None for an input that is already an
            array. If a field returns a dict of arrays, the name of the input is their prefix.

    Example:

    >>> from keras_attn.fields import WordSum
    >>> words = WordSum(["<pad>", "<start>", "<end>", "<unknown>", "man"])
    >>> Together({"words": words}).encode(["man"])["words"].tolist()
    [[4]]
    """

    def __init__(self, fields: Mapping[str, InputField | None]):
        self.fields = fields

    def encode(self, *values: object) -> dict[str, Array]:
        """Encodes each input, and returns all arrays in one dict, keyed by name.

        If a field returns a single array, its name is the name of the input. If a field returns a
        dict, the name of the input and `_` precede each key.

        Args:
            *values: The raw values of each input, in the order of `fields`. If the field of an
                input is None, its values are returned unchanged.

        Raises:
            ValueError: If there are more or fewer values than `fields`.
        """
        return _arrays(
            {name: None if field is None else field.encode for name, field in self.fields.items()},
            values,
        )

    def to_graph(self, tf: ModuleType) -> tuple[Encode, list[object]]:
        """Returns a function that computes `encode` with TensorFlow ops, and its `tf.Module`s.

        The function is called with the raw values of each input, in the order of `fields`, and
        returns a dict of tensors.

        Args:
            tf: The module `tensorflow`.
        """
        graphs = {name: field.to_graph(tf) for name, field in self.fields.items() if field}
        functions = {name: graphs[name][0] if name in graphs else None for name in self.fields}

        def encode(*values: object) -> dict[str, Array]:
            return _arrays(functions, values)

        return encode, [module for _, modules in graphs.values() for module in modules]


def _arrays(functions: Mapping[str, Encode | None], values: Sequence[object]) -> dict[str, Any]:
    """Applies the functions of the inputs to their values."""
    arrays: dict[str, Any] = {}
    for (name, function), value in zip(functions.items(), values, strict=True):
        made = value if function is None else function(value)
        several = made if isinstance(made, Mapping) else {"": made}
        arrays |= {f"{name}_{part}" if part else name: array for part, array in several.items()}
    return arrays
