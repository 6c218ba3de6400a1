"""Derivatives in hand-written gradients, and errors for unsupported derivatives."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor


def first_derivatives_only(x: Tensor, *sources: Tensor, error: str) -> Tensor:
    """Returns `x`, whose derivative raises an error.

    A hand-written gradient reads tensors that were computed without being recorded, such as the
    sums of a softmax. A derivative of the gradient would silently lack the contribution of these
    tensors. Therefore, the gradient is passed through this function, together with the tensors on
    which it depends.
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


def with_pullback(function: Callable[[Any], Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Returns `function(x)`, and a function that maps its gradients to gradients of `x`."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        y, pull = jax.vjp(function, x)
        return y, lambda upstream: pull(upstream)[0]
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, lambda upstream: tape.gradient(
            y, x, output_gradients=upstream, unconnected_gradients="zero"
        )
    import torch

    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        y = function(x)
    if not y.requires_grad:
        return y, lambda upstream: torch.zeros_like(x)
    return y.detach(), lambda upstream: torch.autograd.grad(y, x, upstream)[0]
