"""Cache of compiled functions and decoders, which is cleared when its owner changes."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, TypeVar

from keras_attn.generation.recent import Recent

Made = TypeVar("Made")

MOST = 16
"""Maximum number of cached values."""


class Keeper:
    """Base class of objects that cache what they derive from a model, such as compiled functions.

    `kept` creates a value for each key once, and returns the same value as long as the public
    attributes of the object are unchanged. If a public attribute such as `model` is replaced, the
    whole cache is cleared. If there are more than 16 keys, the least recently used key is dropped.
    Copies (`copy`, `deepcopy`, pickle) begin with an empty cache.

    Numbers and strings are compared by value, and all other attributes by identity. In keys,
    tuples, functions and frozen dataclasses are also compared by value.

    Attributes:
        decide_nothing: Names of public attributes that do not affect results, such as statistics of
            the last call.

    Example:

    >>> class Doubler(Keeper):
    ...     def __init__(self, model):
    ...         self.model = model
    ...
    ...     def run(self, ids):
    ...         def make():
    ...             return CompiledFunction(lambda ids, length: self.model(ids) * 2, self.model)
    ...
    ...         return self.kept(make, "run")(ids, 1)
    >>> doubler = Doubler(keras.layers.Identity())
    >>> doubler.run([[1, 2]]).tolist()
    [[2, 4]]
    >>> doubler.model = keras.layers.Rescaling(10.0)
    >>> doubler.run([[1, 2]]).tolist()
    [[20.0, 40.0]]
    """

    decide_nothing: ClassVar[tuple[str, ...]] = ()

    _kept: tuple[list[Any], Recent[Any]] | None = None

    def kept(self, make: Callable[[], Made], *key: Any) -> Made:
        """Returns the cached value for a key, or creates it with `make`.

        Args:
            make: Function without arguments that creates the value. Its result must depend only on
                the key and the public attributes.
            *key: Key of the value in the cache, beginning with a name.

        Returns:
            The cached or new result of `make`.
        """
        now = [
            (name, _comparable(value) if type(value) in _BY_VALUE else _Same(value))
            for name, value in vars(self).items()
            if name[0] != "_" and name not in self.decide_nothing
        ]
        known = self._kept
        if known is None or known[0] != now:
            known = self._kept = now, Recent(MOST)
        return known[1].get(_comparable(key), make)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_kept"}


_BY_VALUE = (type(None), bool, int, float, complex, str, bytes)


class _Same:
    """Compares an object by identity, whatever its class defines."""

    def __init__(self, of: object):
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def _comparable(value: Any) -> Hashable:
    """Replaces a value in a key, so that 1, 1.0 and True differ."""
    if isinstance(value, tuple):
        return (type(value), *map(_comparable, value))
    if type(value) in _BY_VALUE:
        return type(value), value
    if isinstance(value, types.FunctionType | types.MethodType):
        return value
    parameters = getattr(value, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and parameters.eq:
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return (type(value), *map(_comparable, fields))
    return _Same(value)
