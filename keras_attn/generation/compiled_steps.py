"""Compilation of generation in several calls, whose state stays on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import keras
import numpy as np

from keras_attn.hints import Nest, Tensor, TensorLike
from keras_attn.ops.compilers import tracing_for, untold


def _not_begun(*arguments) -> NoReturn:
    raise RuntimeError("`advance` requires a state. Call `begin` first.")


class CompiledSteps:
    """Compiles `begin(ids, max_length, *numbers) -> state` and `advance(state) -> results, state`.

    The state stays on the device between calls, so a call costs no more than its steps. TensorFlow
    traces each function once. JAX compiles `begin` once for each shape and `max_length`, and
    `advance` for each shape of the state. On PyTorch, the functions run without gradients and are
    not compiled. Every call uses the current values of the variables.

    Args:
        begin: Function of ids int32 `(B, S)`, `max_length` (a scalar tensor on TensorFlow,
            otherwise an int), and numbers `(B,)`, such as seeds. It returns the first state, a nest
            of batch-first tensors.
        advance: Function of a state. It returns a nest of results and the next state.
        model: Layer or model whose variables both functions read. If the variables are replaced, as
            by `quantize` and `enable_lora`, the functions are compiled again.

    Raises:
        TypeError: If the object is copied or pickled.

    Example:

    >>> add = CompiledSteps(
    ...     lambda ids, n: {"sum": ids[:, 0]},
    ...     lambda state: (state["sum"], {"sum": state["sum"] + 1}),
    ...     keras.Sequential(),
    ... )
    >>> state = add.begin([[3], [5]], 1)
    >>> first, state = add.advance(state)
    >>> second, state = add.advance(state)
    >>> first.tolist(), second.tolist()
    ([3, 5], [4, 6])
    """

    def __init__(self, begin: Callable, advance: Callable, model: keras.layers.Layer):
        self._functions = begin, advance
        self._model = model
        self._variables: list[Any] = []
        self._made_for: list[Any] | None = None
        self._begin: Callable = _not_begun
        self._advance: Callable = _not_begun

    def begin(self, ids: TensorLike, max_length: int, *numbers: Any) -> Any:
        """Computes the first state with the function `begin` of the constructor.

        Args:
            ids: Integers `(B, S)`, which are converted to int32.
            max_length: Positive integer, passed to the function.
            *numbers: Numbers `(B,)`, which are converted to int32 or float32 and passed to the
                function.

        Returns:
            The result of the function: a state, a nest of batch-first tensors.
        """
        variables = list(self._model.variables)
        more = [np.asarray(keras.ops.convert_to_numpy(x)) for x in numbers]
        more = [x.astype("float32" if x.dtype.kind == "f" else "int32") for x in more]
        made_for = [*map(id, variables), *(x.dtype.name for x in more)]
        if made_for != self._made_for:
            self._variables, self._made_for = variables, made_for
            makers = {"tensorflow": self._tensorflow, "jax": self._jax}
            make = makers.get(keras.backend.backend(), self._eager)
            self._begin, self._advance = make([x.dtype.name for x in more])
        return self._begin(np.asarray(ids, "int32"), max_length, *more)

    def advance(self, state: Nest) -> tuple[Any, Any]:
        """Computes the next results and state with the function `advance` of the constructor.

        Args:
            state: State from `begin` or the last `advance`.

        Returns:
            `(results, state)`: the results of the function, with NumPy arrays in place of tensors,
            and the next state.

        Raises:
            RuntimeError: If `begin` was never called.
        """
        results, state = self._advance(state)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, results), state

    def __reduce__(self) -> Any:
        raise TypeError(
            "A compiled function cannot be copied or pickled, because it is compiled for one "
            "model. Compile a new function for the copied model."
        )

    def _tensorflow(self, dtypes: list[str]) -> tuple[Callable, Callable]:
        import tensorflow as tf

        first, further = (untold(tracing_for(xla=False)(f)) for f in self._functions)
        numbers = [tf.TensorSpec([None], dtype) for dtype in dtypes]
        signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.int32), *numbers]
        begin = tf.function(first, input_signature=signature, autograph=False)
        state = begin.get_concrete_function().structured_outputs
        state = tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), state)
        advance = tf.function(further, input_signature=[state], autograph=False)
        return lambda ids, length, *more: begin(ids, tf.constant(length, tf.int32), *more), advance

    def _jax(self, dtypes: list[str]) -> tuple[Callable, Callable]:
        import jax

        def stateless(function: Callable) -> Callable:
            def run(values: list[Tensor], first: Nest, *more):
                mapping = list(zip(self._variables, values, strict=True))
                with keras.StatelessScope(state_mapping=mapping):
                    return function(first, *more)

            return run

        begin = jax.jit(stateless(self._functions[0]), static_argnums=2)
        advance = jax.jit(stateless(self._functions[1]))

        def now():
            return [v.value for v in self._variables]

        return (
            lambda ids, length, *more: begin(now(), ids, length, *more),
            lambda state: advance(now(), state),
        )

    def _eager(self, dtypes: list[str]) -> tuple[Callable, Callable]:
        import torch

        first, further = self._functions

        def begin(ids: np.ndarray, length: int, *more):
            with torch.no_grad():
                tensors = map(keras.ops.convert_to_tensor, more)
                return first(keras.ops.convert_to_tensor(ids), length, *tensors)

        def advance(state: Nest):
            with torch.no_grad():
                return further(state)

        return begin, advance
