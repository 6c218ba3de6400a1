"""One compiled function for generation on each backend."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_attn.generation.decoders import integer

Tensor = Any


class CompiledFunction:
    """Compiles `function(ids, max_length, *numbers)` for the current backend.

    TensorFlow: one trace for any batch and length; with `jit_compile` one trace for each
    `max_length`, and XLA compiles each shape. JAX: `jax.jit`, one compile for each shape and
    `max_length`. So give XLA few different shapes. PyTorch: without gradients, not compiled.
    On all of them the present values of the variables are used, also after further training. A
    batch of no rows gives results of no rows.

    Args:
        function: `function(ids (B, S) int32, max_length, *numbers (B,) int32) -> nest of
            batch-first tensors`.
        variables: The variables that it reads: on JAX others would stay as they are now.
        jit_compile: Whether TensorFlow uses XLA. JAX always does.

    Call arguments:
        ids: Integers `(B, S)`.
        max_length: Positive integer, handed on.
        *numbers: Integers `(B,)`, such as seeds; as many at each call.

    Returns:
        What `function` returned, as NumPy arrays.

    Raises:
        ValueError: For ids that are no integers or have another rank, a wrong `max_length`, or
            numbers that are not one integer for each row.

    Example:

    >>> double = CompiledFunction(lambda ids, max_length: ids * 2, variables=[])
    >>> double([[1, 2]], 5).tolist()
    [[2, 4]]
    """

    def __init__(self, function: Callable, variables: list, jit_compile: bool = False):
        self.function = function
        self.variables = list(variables)
        self.jit_compile = jit_compile
        self._compiled = None

    def __call__(self, ids: Any, max_length: int, *numbers: Any) -> Any:
        """Runs the compiled function."""
        ids = np.asarray(keras.ops.convert_to_numpy(ids))
        if ids.ndim != 2 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
            raise ValueError(
                "`ids` must be integers of shape (B, S). "
                f"Received: dtype {ids.dtype}, shape {ids.shape}."
            )
        max_length = integer("max_length", max_length, 1)
        inputs = [ids, *(np.asarray(keras.ops.convert_to_numpy(n)) for n in numbers)]
        for given in inputs[1:]:
            if given.shape != ids.shape[:1] or not np.issubdtype(given.dtype, np.integer):
                raise ValueError(
                    f"Expected an integer for each of the {len(ids)} rows. Received: dtype "
                    f"{given.dtype}, shape {given.shape}."
                )
        if self._compiled is None:
            backend = keras.backend.backend()
            makers = {"tensorflow": self._tensorflow, "jax": self._jax}
            self._compiled = makers.get(backend, self._eager)(len(numbers))
        # Not every backend can loop over no rows: one is made up, and dropped.
        rows = len(ids)
        if rows == 0:
            inputs = [np.zeros((1, *given.shape[1:])) for given in inputs]
        run, *more = (given.astype("int32") for given in inputs)
        outputs = self._compiled(run, max_length, *more)
        outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
        return keras.tree.map_structure(lambda t: t[:0], outputs) if rows == 0 else outputs

    def _tensorflow(self, count: int) -> Callable:
        import tensorflow as tf

        ids, numbers = tf.TensorSpec([None, None], tf.int32), [tf.TensorSpec([None], tf.int32)]
        if not self.jit_compile:
            signature = [ids, tf.TensorSpec([], tf.int32), *numbers * count]
            compiled = tf.function(self.function, input_signature=signature, autograph=False)
            return lambda ids, length, *more: compiled(ids, tf.constant(length, tf.int32), *more)

        @functools.cache
        def of_length(length):
            return tf.function(
                lambda ids, *more: self.function(ids, length, *more),
                input_signature=[ids, *numbers * count],
                autograph=False,
                jit_compile=True,
            )

        return lambda ids, length, *more: of_length(length)(
            tf.constant(ids), *map(tf.constant, more)
        )

    def _jax(self, count: int) -> Callable:
        import jax

        def run(values, ids, max_length, *more):
            mapping = list(zip(self.variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return self.function(ids, max_length, *more)

        compiled = jax.jit(run, static_argnums=2)
        return lambda ids, length, *more: compiled(
            [v.value for v in self.variables], ids, length, *more
        )

    def _eager(self, count: int) -> Callable:
        import torch

        def run(ids, max_length, *more):
            with torch.no_grad():
                ids, *more = map(keras.ops.convert_to_tensor, (ids, *more))
                return self.function(ids, max_length, *more)

        return run
