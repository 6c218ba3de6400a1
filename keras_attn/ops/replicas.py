"""Sums over the replicas of `tf.distribute`, each of which sees its part of a batch."""

from typing import Any

import keras

Tensor = Any


def replicas() -> int:
    """Returns the number of replicas of the `tf.distribute` strategy in scope.

    Returns:
        1 without a strategy, and on other backends.

    Example:

    >>> replicas()
    1
    """
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(x: Tensor) -> Tensor:
    """Adds up what the replicas have, without a gradient: the tokens of all parts of a batch.

    On JAX nothing is to be added: there a program sees the whole batch, whatever is where.

    Args:
        x: A tensor.

    Returns:
        The sum on each replica; `x` itself without replicas, and while a model is built.

    Example:

    >>> float(sum_over_replicas(keras.ops.ones(())))
    1.0
    """
    if replicas() == 1:
        return x
    import tensorflow as tf

    here = tf.distribute.get_replica_context()
    if here is None:
        return x
    # Not of `x`: a gradient would still come here, and be added up over the replicas in vain.
    return tf.stop_gradient(here.all_reduce(tf.distribute.ReduceOp.SUM, x))
