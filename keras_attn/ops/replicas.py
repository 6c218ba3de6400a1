"""Sums over the replicas of `tf.distribute`."""

import keras

from keras_attn.hints import Tensor


def replicas() -> int:
    """Returns the number of replicas of the `tf.distribute` strategy in scope; 1 if none."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(x: Tensor) -> Tensor:
    """Sums a tensor over the replicas of a batch, without a gradient.

    On JAX, nothing is summed, because each program sees the whole batch.
    """
    if replicas() == 1:
        return x
    import tensorflow as tf

    here = tf.distribute.get_replica_context()
    if here is None:
        return x
    # Stop the gradient outside: inside, it would still be summed over the replicas in vain.
    return tf.stop_gradient(here.all_reduce(tf.distribute.ReduceOp.SUM, x))
