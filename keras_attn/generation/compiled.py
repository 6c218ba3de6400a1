"""One compiled function for generation on each backend."""

from collections.abc import Callable
from typing import Any

import keras

Tensor = Any


class CompiledFunction:
    """Compiles `function(ids, max_length)` for the current backend.

    TensorFlow: one `tf.function` trace for any batch and length; with `jit_compile` XLA compiles
    each shape. JAX: `jax.jit`, one compile for each shape and `max_length`, with the present values
    of the variables. PyTorch: without gradients, not compiled.

    Args:
        function: `function(ids (B, S) int32, max_length) -> nest of tensors`.
        variables: The variables that it reads.
        jit_compile: Whether TensorFlow uses XLA. JAX always does.

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

    def __call__(self, ids: Any, max_length: int) -> Any:
        if self._compiled is None:
            backend = keras.backend.backend()
            makers = {"tensorflow": self._tensorflow, "jax": self._jax}
            self._compiled = makers.get(backend, self._eager)()
        outputs = self._compiled(keras.ops.convert_to_numpy(ids).astype("int32"), max_length)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)

    def _tensorflow(self) -> Callable:
        import tensorflow as tf

        ids = tf.TensorSpec([None, None], tf.int32)
        if self.jit_compile:
            compiled = tf.function(self.function, jit_compile=True, autograph=False)
            return lambda ids, length: compiled(tf.constant(ids, tf.int32), length)
        signature = [ids, tf.TensorSpec([], tf.int32)]
        compiled = tf.function(self.function, input_signature=signature, autograph=False)
        self.tf_function = compiled
        return lambda ids, length: compiled(ids, tf.constant(length, tf.int32))

    def _jax(self) -> Callable:
        import jax

        def run(values, ids, max_length):
            mapping = list(zip(self.variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return self.function(ids, max_length)

        compiled = jax.jit(run, static_argnums=2)
        return lambda ids, length: compiled([v.value for v in self.variables], ids, int(length))

    def _eager(self) -> Callable:
        import torch

        def run(ids, max_length):
            with torch.no_grad():
                return self.function(keras.ops.convert_to_tensor(ids), max_length)

        return run
