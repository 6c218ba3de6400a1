"""Derivatives, and compiled calls with unknown lengths, on whichever backend runs."""

import contextlib

import keras
import numpy as np
from keras import ops
from keras.src.backend.common import dtypes

BACKEND = keras.backend.backend()
if BACKEND == "jax":
    import jax
elif BACKEND == "torch":
    import torch
else:
    import tensorflow as tf


@contextlib.contextmanager
def float64_allowed():
    """Float64 stays float64; outside, Keras' operations make it float32 on JAX and PyTorch."""
    before = dtypes.BIT64_TO_BIT32_DTYPE["float64"]
    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"
    try:
        with jax.enable_x64(True) if BACKEND == "jax" else contextlib.nullcontext():
            yield
    finally:
        dtypes.BIT64_TO_BIT32_DTYPE["float64"] = before


def gradients(function, arrays):
    """The gradients of a function of a list, which returns one number; 0 where it ignores them."""
    if BACKEND == "jax":
        return jax.grad(function)([ops.convert_to_tensor(x) for x in arrays])
    if BACKEND == "torch":
        tensors = [ops.convert_to_tensor(x) for x in arrays]
        tensors = [x if x.requires_grad else x.detach().requires_grad_() for x in tensors]
        with torch.enable_grad():
            result = function(tensors)
        if not result.requires_grad:  # the gradients of a linear function are constant
            return [torch.zeros_like(x) for x in tensors]
        found = torch.autograd.grad(result, tensors, create_graph=True, allow_unused=True)
        pairs = zip(found, tensors, strict=True)
        return [torch.zeros_like(x) if g is None else g for g, x in pairs]
    tensors = [tf.convert_to_tensor(x) for x in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = function(tensors)
    found = tape.gradient(result, tensors, unconnected_gradients="zero")
    return [tf.convert_to_tensor(g) for g in found]


def compiled_call(model, arrays):
    """The output of a functional model, compiled by backends that do, for shapes that it states."""
    if BACKEND == "jax":
        return jax.jit(lambda xs: model(xs))([np.asarray(x) for x in arrays])
    if BACKEND == "torch":
        return model([ops.convert_to_tensor(x) for x in arrays])
    spec = [tf.TensorSpec(symbol.shape, symbol.dtype) for symbol in model.inputs]
    return tf.function(lambda xs: model(xs), input_signature=[spec])(
        [tf.convert_to_tensor(x) for x in arrays]
    )
