"""Sequential loops, whose iterations reuse the same memory."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import keras
import numpy as np
from keras import ops, tree

from keras_attn.hints import Size, Tensor


def repeated(lower: Size, upper: Size, body: Callable, start: tuple[Tensor, ...]) -> tuple:
    """Applies `body` to the integers from `lower` to `upper - 1`.

    This replaces `keras.ops.fori_loop`, where TensorFlow may run ten iterations at once.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.fori_loop(lower, upper, body, start)
    import tensorflow as tf

    return tf.while_loop(
        lambda i, x: i < upper,
        lambda i, x: (i + 1, body(i, x)),
        (tf.convert_to_tensor(lower, "int32"), start),
        parallel_iterations=1,
    )[1]


def start_of(*indices: Size) -> tuple[Any, ...]:
    """Returns the indices where a slice starts, of one dtype: with 64 bits, JAX has two."""
    if keras.backend.backend() != "jax":
        return indices
    return tuple(np.int32(i) if isinstance(i, int) else ops.cast(i, "int32") for i in indices)


def stacked(function: Callable, number: Size, specs: Sequence[tuple]) -> tuple[Tensor, ...]:
    """Calls `function` for the integers below `number` and stacks the results.

    This replaces `keras.ops.map`, where TensorFlow may run ten iterations at once, and the first
    one twice.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        signature = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in specs)
        return tf.map_fn(
            function, tf.range(number), fn_output_signature=signature, parallel_iterations=1
        )
    if backend == "torch":  # integers, since loops cannot count to tensors
        return tree.map_structure(
            lambda *x: ops.stack(x), *(function(i) for i in range(cast(int, number)))
        )
    return ops.map(function, ops.arange(number))
