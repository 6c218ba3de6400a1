"""Arrays that compiled functions on JAX compute once, not in each call."""

import contextlib
import contextvars
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.common.variables import get_autocast_scope


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


def own_variables(layer: keras.layers.Layer) -> list[keras.Variable]:
    """The variables of a layer and of the layers in it, in any order, some perhaps twice.

    `layer.variables` takes five times as long, because it looks for duplicates at each level.
    """
    found: list[keras.Variable] = []
    stack, seen = [layer], {id(layer)}
    while stack:
        part = stack.pop()
        found += part._trainable_variables
        found += part._non_trainable_variables
        found += [generator.state for generator in part._seed_generators]
        new = [x for x in part._layers if id(x) not in seen]
        seen.update(map(id, new))
        stack += new
    return found


def values_of(variables: Iterable[keras.Variable]) -> list[Any]:
    """The current values of variables. Where no scope of Keras replaces values, this asks Keras
    once, not for each variable."""
    if in_stateless_scope() or get_autocast_scope() is not None:
        return [v.value for v in variables]
    return [v.value if v._value is None else v._value for v in variables]


def depends_on(method: Any) -> set[int]:
    """The ids of the variables of the method's layer."""
    return set(map(id, own_variables(method.__self__)))


def current(method: Any) -> Any:
    """Returns `method()` for the current values of the layer's variables, on JAX.

    The result is kept until a value is replaced; compiled functions of the same layer share it. JAX
    does not change arrays in place, so a value is the same if its array is.
    """
    import jax

    layer = method.__self__
    key = method.__func__, layer.compute_dtype
    values = values_of(own_variables(layer))
    kept = _MADE.setdefault(layer, {})
    known, array = kept.get(key, ([], None))
    same = (reference() is v for reference, v in zip(known, values, strict=False))
    if len(known) == len(values) and key in kept and all(same):
        return array
    with jax.ensure_compile_time_eval():  # also while somebody else traces
        array = method()
    kept[key] = [weakref.ref(v, lambda _: kept.pop(key, None)) for v in values], array
    return array
