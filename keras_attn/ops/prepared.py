"""Arrays that compiled functions on JAX compute once, not in each call."""

import contextlib
import contextvars
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import keras

_GIVEN = contextvars.ContextVar[Mapping[Callable, Any] | None]("keras_attn_prepared", default=None)
_MADE = weakref.WeakKeyDictionary[keras.layers.Layer, dict[Callable, tuple[list, Any]]]()


class NotPreparedError(Exception):
    """Asks the compiled function to prepare the array of a method, and to trace again."""

    def __init__(self, method: Callable[[], Any]):
        super().__init__(method)
        self.method = method


@contextlib.contextmanager
def given(arrays: Mapping[Callable, Any]) -> Iterator[None]:
    """Gives the arrays of methods to the code traced inside the block."""
    token = _GIVEN.set(arrays)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def prepared(method: Callable[[], Any]) -> Any:
    """Returns `method()`, for a layer's method whose result depends only on its variables.

    Outside of a `CompiledFunction` on JAX, this is a call.
    """
    arrays = _GIVEN.get()
    if arrays is None:
        return method()
    if method not in arrays:
        raise NotPreparedError(method)
    return arrays[method]


def current(method: Callable[[], Any]) -> Any:
    """Returns `method()` for the current values of the layer's variables.

    The result is kept until a value changes; compiled functions of the same layer share it. JAX
    does not change arrays in place, so a value is the same if its array is.
    """
    bound = cast(Any, method)
    layer, function = bound.__self__, bound.__func__
    values = [v.value for v in layer.variables]
    known, array = _MADE.setdefault(layer, {}).get(function, ((), None))
    if len(known) == len(values) and all(k() is v for k, v in zip(known, values, strict=True)):
        return array
    array = method()
    _MADE[layer][function] = [weakref.ref(v) for v in values], array
    return array
