"""Compilation of functions for generation on each backend."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn.generation.decoders import integer
from keras_attn.generation.recent import Recent
from keras_attn.hints import TensorLike
from keras_attn.ops.compilers import tracing_for, untold
from keras_attn.ops.prepared import (
    Unprepared,
    current,
    depends_on,
    given,
    own_variables,
    values_of,
)

_KEPT = 32  # shapes, or maximum lengths under XLA, whose functions are kept
_KINDS = {
    "int32": "integers",
    "float32": "floats",
    "uint8": "integers from 0 to 255",
}


class CompiledFunction:
    """Compiles `function(ids, max_length, *numbers)` for the current backend.

    TensorFlow traces the function once for any batch and length. If `jit_compile` is True,
    TensorFlow traces once for each `max_length`, and again for single rows, and XLA compiles each
    shape. JAX compiles once for each shape and `max_length`, with `jax.jit`. Therefore, use only a
    few different shapes with XLA. On PyTorch, the function runs without gradients and is not
    compiled. Every call uses the current values of the variables. A batch without rows gives
    results without rows.

    Instead of ids, the function may take regions (`dtype="float32", rank=3`) or images
    (`dtype="uint8", rank=4`). TensorFlow then traces the function for each shape of a single
    example, because many layers need a static shape.

    Args:
        function: `function(ids (B, S) int32, max_length, *numbers (B, ...)) -> nest of batch-first
            tensors`. On TensorFlow without XLA, `max_length` is a scalar tensor; otherwise, it is
            an int.
        variables: The variables that the function reads, or a layer or model that owns them. On
            JAX, all other variables keep the values they have at compilation. If the variables of a
            layer or model are replaced, as by `quantize` and `enable_lora`, the function is
            compiled again.
        jit_compile: Whether TensorFlow uses XLA. JAX always does.
        dtype: Dtype of the first argument: `"int32"`, `"float32"` or `"uint8"`.
        rank: Rank of the first argument, at least 2.

    Call arguments:
        ids: Integers `(B, S)`, or an array of the given `dtype` and `rank`.
        max_length: Positive integer, passed to the function.
        *numbers: Numbers `(B,)`, such as seeds, or `(B, ...)`, which are converted to int32 or
            float32. If their number, dtypes or ranks change, the function is compiled again.

    Returns:
        The results of `function`, with NumPy arrays in place of tensors.

    Raises:
        ValueError: If `dtype` or `rank` is invalid, ids have the wrong dtype or rank, images have
            values outside 0 to 255, `max_length` is not a positive integer, or `numbers` are not
            numeric or do not have a value for each row.
        TypeError: If the compiled function is copied or pickled.

    Example:

    >>> double = CompiledFunction(lambda ids, max_length: ids * 2, variables=[])
    >>> double([[1, 2]], 5).tolist()
    [[2, 4]]
    >>> mean = CompiledFunction(lambda x, n: keras.ops.mean(x, 1), [], dtype="float32", rank=3)
    >>> mean([[[1.0, 2.0], [3.0, 4.0]]], 1).tolist()
    [[2.0, 3.0]]
    """

    def __init__(
        self,
        function: Callable,
        variables: list | keras.layers.Layer,
        jit_compile: bool = False,
        dtype: str = "int32",
        rank: int = 2,
    ):
        if dtype not in _KINDS:
            raise ValueError(
                f"Expected `dtype` to be one of {', '.join(map(repr, _KINDS))}. "
                f"Received: {dtype!r}."
            )
        self.function = function
        self._reads = variables
        self.variables: list = []
        self._owned: list = []
        self.jit_compile = jit_compile
        self.dtype = dtype
        self.rank = integer("rank", rank, 2)
        self._compiled: Recent[Callable] = Recent(_KEPT)
        self._renew()

    def _renew(self) -> None:
        """Forgets what was compiled if variables were replaced."""
        reads = self._reads
        owned = own_variables(reads) if isinstance(reads, keras.layers.Layer) else list(reads)
        if len(owned) == len(self._owned) and all(map(operator.is_, owned, self._owned)):
            return
        self._owned = owned
        self.variables = list(reads.variables) if isinstance(reads, keras.layers.Layer) else owned
        self._compiled.clear()

    def __call__(self, ids: TensorLike, max_length: int, *numbers: Any) -> Any:
        """Runs the compiled function, and returns its results as NumPy arrays."""
        self._renew()
        ids = np.asarray(keras.ops.convert_to_numpy(ids))
        self._check(ids)
        max_length = integer("max_length", max_length, 1)
        more = [np.asarray(keras.ops.convert_to_numpy(n)) for n in numbers]
        for number in more:
            if number.shape[:1] != ids.shape[:1] or number.dtype.kind not in "iuf":
                raise ValueError(
                    f"Expected one number for each of the {len(ids)} rows. Received: dtype "
                    f"{number.dtype}, shape {number.shape}."
                )
        # One function for all lengths of ids; layers may need the shape of other inputs.
        known = (None,) * (self.rank - 1) if self.dtype == "int32" else ids.shape[1:]
        more = [x.astype("float32" if x.dtype.kind == "f" else "int32") for x in more]
        shapes = (known, *((given.dtype.name, (None,) * (given.ndim - 1)) for given in more))
        makers: dict[str, Callable[..., Callable]] = {
            "tensorflow": self._tensorflow,
            "jax": self._jax,
        }
        make = makers.get(keras.backend.backend(), self._eager)
        run = self._compiled.get(shapes, lambda: make(*shapes))
        # Not every backend can loop over no rows: run with one row and drop it.
        rows = len(ids)
        if rows == 0:
            ids = np.zeros((1, *ids.shape[1:]), ids.dtype)
            more = [np.ones((1, *x.shape[1:]), x.dtype) for x in more]  # some must be above 0
        outputs = run(ids.astype(self.dtype), max_length, *more)
        outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
        return keras.tree.map_structure(lambda t: t[:0], outputs) if rows == 0 else outputs

    def __reduce__(self) -> Any:
        raise TypeError(
            "A compiled function cannot be copied or pickled, because it is compiled for one "
            "model. Compile a new function for the copied model."
        )

    def _check(self, ids: np.ndarray) -> None:
        """Refuses inputs of the wrong dtype kind (unless they are empty) or rank."""
        name = ids.dtype.name
        if self.dtype == "float32":
            right = keras.backend.is_float_dtype(name)
        else:
            right = np.issubdtype(ids.dtype, np.integer)
        wanted = "(B, S)" if self.rank == 2 else f"(B, ...) and rank {self.rank}"
        argument = "ids" if self.dtype == "int32" else "inputs"
        expected = f"`{argument}` must be {_KINDS[self.dtype]} of shape {wanted}."
        if ids.ndim != self.rank or (ids.size and not right):
            raise ValueError(f"{expected} Received: dtype {name}, shape {ids.shape}.")
        if self.dtype == "uint8" and name != "uint8" and ids.size:
            least, most = int(ids.min()), int(ids.max())
            if least < 0 or most > 255:
                raise ValueError(f"{expected} Received: integers from {least} to {most}.")

    def _tensorflow(self, known: tuple, *of_numbers: tuple) -> Callable:
        import tensorflow as tf

        ids = tf.TensorSpec([None, *known], self.dtype)
        numbers = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in of_numbers]
        if not self.jit_compile:
            signature = [ids, tf.TensorSpec([], tf.int32), *numbers]
            function = untold(tracing_for(xla=False)(self.function))
            compiled = tf.function(function, input_signature=signature, autograph=False)
            # Tensors also for those who debug with `tf.config.run_functions_eagerly(True)`.
            return lambda ids, length, *more: compiled(
                tf.constant(ids), tf.constant(length, tf.int32), *map(tf.constant, more)
            )

        @functools.lru_cache(maxsize=_KEPT)
        def traced(length: int, one_row: bool) -> Callable:
            def function(ids: "tf.Tensor", *more):
                with tracing_for(True, one_row):
                    return self.function(ids, length, *more)

            return tf.function(
                untold(function),
                input_signature=[ids, *numbers],
                autograph=False,
                jit_compile=True,
            )

        return lambda ids, length, *more: traced(length, len(ids) == 1)(
            tf.constant(ids), *map(tf.constant, more)
        )

    def _jax(self, *shapes: tuple) -> Callable:
        import jax

        @functools.cache
        def compiled(methods: tuple[Callable, ...]) -> Callable:
            def run(values: "list[jax.Array]", arrays: list, ids: "jax.Array", length: int, *more):
                mapping = list(zip(self.variables, values, strict=True))
                known = dict(zip(methods, arrays, strict=True))
                with keras.StatelessScope(mapping), given(known, mapping):
                    return self.function(ids, length, *more)

            return jax.jit(run, static_argnums=3)

        known_ids = set(map(id, self.variables))
        wanted: dict[tuple, tuple[Callable, ...]] = {}  # methods whose arrays a trace reads

        def call(ids: np.ndarray, length: int, *more: np.ndarray) -> Any:
            key = (length, *(x.shape for x in (ids, *more)))
            values = values_of(self.variables)
            while True:
                methods = tuple(m for m in wanted.get(key, ()) if depends_on(m) <= known_ids)
                arrays = list(map(current, methods))
                try:
                    return compiled(methods)(values, arrays, ids, length, *more)
                except Unprepared as asked:
                    wanted[key] = (*methods, asked.method)

        return call

    def _eager(self, *shapes: tuple) -> Callable:
        import torch

        def run(ids: np.ndarray, max_length: int, *more):
            with torch.no_grad():
                tensors = map(keras.ops.convert_to_tensor, more)
                return self.function(keras.ops.convert_to_tensor(ids), max_length, *tensors)

        return run
