"""Loops whose turns run one after the other on every backend, so that they share their memory."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops, tree

Tensor = Any


def repeated(lower: Any, upper: Any, body: Callable, start: tuple[Tensor, ...]) -> tuple:
    """Applies `body` for the integers from `lower` to `upper`, without the latter.

    `keras.ops.fori_loop`, whose turns TensorFlow may run ten at a time where they allow it.

    Args:
        lower: The first integer.
        upper: The integer after the last one.
        body: Takes an integer and a tuple of tensors, returns such a tuple.
        start: What the first turn takes.

    Returns:
        What the last turn returned, or `start`.

    Example:

    >>> product, = repeated(1, 4, lambda i, x: (x[0] * i,), (ops.convert_to_tensor(1),))
    >>> int(product)
    6
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


def stacked(function: Callable, number: Any, specs: Sequence[tuple]) -> tuple[Tensor, ...]:
    """Calls `function` for the integers below `number` and stacks what it returns.

    `keras.ops.map`, whose turns TensorFlow may run ten at a time, the first one twice.

    Args:
        function: Takes an integer, returns a tuple of tensors.
        number: How often it is called, 1 at least.
        specs: Shape and dtype of each tensor; sizes that are not known are None.

    Returns:
        A tuple of tensors with a new first axis.

    Example:

    >>> squares, = stacked(lambda i: (ops.cast(i, "float32") ** 2,), 3, [((), "float32")])
    >>> ops.convert_to_numpy(squares).tolist()
    [0.0, 1.0, 4.0]
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        signature = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in specs)
        return tf.map_fn(
            function, tf.range(number), fn_output_signature=signature, parallel_iterations=1
        )
    if backend == "torch":  # with integers, not tensors, which loops could not count to
        return tree.map_structure(lambda *x: ops.stack(x), *(function(i) for i in range(number)))
    return ops.map(function, ops.arange(number))
