"""Errors for derivatives that hand-written gradients do not have."""

import keras
from keras import ops

from keras_attn.hints import Tensor


def first_derivatives_only(x: Tensor, *sources: Tensor, error: str) -> Tensor:
    """Returns `x`; its derivative with respect to `x` or a source is an error.

    A hand-written gradient reads tensors that were computed without being recorded, such as the
    sums of a softmax. A derivative of that gradient would lack their part without any error. So the
    gradient goes through this function, with the tensors it depends on.

    Example:

    >>> x = first_derivatives_only(ops.ones((2,)), error="It has first derivatives only.")
    >>> ops.convert_to_numpy(x).tolist()
    [1.0, 1.0]
    """

    if not sources and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # A SavedModel warns of a custom gradient inside another one when it is loaded.
        return tf.raw_ops.PreventGradient(input=x, message=error)

    @ops.custom_gradient
    def identity(x: Tensor, *sources):
        def gradients(*args, upstream: Tensor | None = None):
            raise NotImplementedError(f"{error} Received: a gradient of a gradient.")

        return ops.stop_gradient(x), gradients

    return identity(x, *sources)
