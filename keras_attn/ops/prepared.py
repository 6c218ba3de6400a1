"""Arrays that compiled functions on JAX compute once, not in each call."""

import contextlib
import contextvars
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras


class _Given(NamedTuple):
    arrays: Mapping[Callable, Any]
    values: Mapping[int, Any]
    """The traced values of the variables, by the ids of the variables."""


_GIVEN = contextvars.ContextVar[_Given | None]("keras_attn_prepared", default=None)
_MADE = weakref.WeakKeyDictionary[keras.layers.Layer, dict[tuple, tuple[list, Any]]]()


class Unprepared(BaseException):
    """Asks the compiled function to prepare the array of a method, and to trace again.

    Keras and callers that catch an `Exception` let it pass.
    """

    def __init__(self, method: Callable[[], Any]):
        super().__init__(method)
        self.method = method


@contextlib.contextmanager
def given(
    arrays: Mapping[Callable, Any], variables: Sequence[tuple[keras.Variable, Any]]
) -> Iterator[None]:
    """Gives the arrays of methods to the code traced inside, and the values of all variables."""
    token = _GIVEN.set(_Given(arrays, {id(variable): value for variable, value in variables}))
    try:
        yield
    finally:
        _GIVEN.reset(token)


def prepared(method: Callable[[], Any]) -> Any:
    """Returns `method()`, for a layer's method that depends on its variables and its dtype.

    In a `CompiledFunction` on JAX, the array is an input of the compiled code. It is computed there
    if the layer has other variables or values than the inputs of the code.
    """
    known = _GIVEN.get()
    layer = getattr(method, "__self__", None)
    if known is None or not isinstance(layer, keras.layers.Layer):
        return method()
    nothing = object()
    if any(known.values.get(id(v), nothing) is not v.value for v in layer.variables):
        return method()
    if method not in known.arrays:
        raise Unprepared(method)
    return known.arrays[method]


def depends_on(method: Any) -> set[int]:
    """The ids of the variables of the method's layer."""
    return set(map(id, method.__self__.variables))


def current(method: Any) -> Any:
    """Returns `method()` for the current values of the layer's variables, on JAX.

    The result is kept until a value is replaced; compiled functions of the same layer share it. JAX
    does not change arrays in place, so a value is the same if its array is.
    """
    import jax

    layer = method.__self__
    key = method.__func__, layer.compute_dtype
    values = [v.value for v in layer.variables]
    kept = _MADE.setdefault(layer, {})
    known, array = kept.get(key, ([], None))
    same = (reference() is v for reference, v in zip(known, values, strict=False))
    if len(known) == len(values) and key in kept and all(same):
        return array
    with jax.ensure_compile_time_eval():  # also while somebody else traces
        array = method()
    kept[key] = [weakref.ref(v, lambda _: kept.pop(key, None)) for v in values], array
    return array
