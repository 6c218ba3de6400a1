"""Derivatives in hand-written gradients, and errors for unsupported derivatives."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.hints import Tensor


def custom_gradient(function: Callable[..., tuple[Any, Callable]], *constants: Any) -> Callable:
    """Returns `ops.custom_gradient` of a function that also needs constants, which may be None.

    `function(*tensors, *constants)` returns its value and the function that maps the gradient of
    the value to the gradients of the tensors. The result is a function of the tensors. Constants,
    such as masks and labels, get no gradient.

    On JAX, the constants become arguments: `jax.checkpoint` and `jax.lax.scan` trace the function
    again when the tracers that it closes over are gone.
    """
    if keras.backend.backend() != "jax":
        return ops.custom_gradient(lambda *tensors: function(*tensors, *constants))

    @ops.custom_gradient
    def of_all(*arguments: Any) -> tuple[Any, Callable]:
        value, pull = function(*arguments)

        def gradients(upstream: Tensor) -> tuple[Any, ...]:
            found = pull(upstream)
            found = found if isinstance(found, tuple) else (found,)
            return (*found, *(None for _ in constants))

        return value, gradients

    return lambda *tensors: of_all(*tensors, *constants)


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
