"""Adam's update in one pass over the weights, with TensorFlow's kernel."""

from __future__ import annotations

import keras

from keras_attn.ops.replicas import replicas


def fuse_adam(optimizer: keras.optimizers.Adam) -> None:
    """Makes Adam or AdamW update each variable with one TensorFlow operation.

        m <- m + (1 - beta_1) (g - m)
        v <- v + (1 - beta_2) (g^2 - v)
        w <- w - learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)

    m and v are the moments of the gradient g of a weight w, and t is the number of the update.
    Keras computes the same update with about ten operations, each of which reads and writes as many
    numbers as there are weights. With a large vocabulary and small batches, these operations take a
    large part of a training step on a CPU. The class, the config, the variables and the saved files
    of the optimizer do not change. The results are equal up to rounding.

    The function has no effect on JAX and PyTorch, under `tf.distribute` with several replicas, with
    `amsgrad`, and for subclasses with their own `update_step`. The `fit` methods of tasks call it.

    Args:
        optimizer: A `keras.optimizers.Adam` or `AdamW` that has not been used yet. It is changed in
            place.

    Raises:
        TypeError: If `optimizer` is neither Adam nor AdamW.

    References:
        - [Kingma and Ba, 2015](https://arxiv.org/abs/1412.6980): Adam.

    Example:

    >>> optimizer = keras.optimizers.Adam(0.1)
    >>> fuse_adam(optimizer)
    >>> weight = keras.Variable([1.0])
    >>> optimizer.apply([keras.ops.array([2.0])], [weight])
    >>> round(float(weight[0]), 4)
    0.9
    """
    if not isinstance(optimizer, keras.optimizers.Adam):
        raise TypeError(f"Expected Adam or AdamW. Received: {type(optimizer).__name__}.")
    if keras.backend.backend() != "tensorflow" or optimizer.amsgrad or replicas() > 1:
        return
    if type(optimizer).update_step is not keras.optimizers.Adam.update_step:
        return
    import tensorflow as tf

    def update_step(
        gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        index = optimizer._get_variable_index(variable)
        dtype = variable.dtype
        step = tf.cast(optimizer.iterations + 1, dtype)
        beta_1, beta_2 = (tf.cast(x, dtype) for x in (optimizer.beta_1, optimizer.beta_2))
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=optimizer._momentums[index].value.handle,
            v=optimizer._velocities[index].value.handle,
            beta1_power=beta_1**step,
            beta2_power=beta_2**step,
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(optimizer.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )

    optimizer.update_step = update_step
