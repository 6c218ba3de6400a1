"""Activations that are missing in Keras."""

import functools
import math
from collections.abc import Callable, Collection
from typing import Any

import keras

from keras_attn.hints import Activation, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
def gelu(x: Tensor) -> Tensor:
    """Computes the exact GELU (Hendrycks and Gimpel, 2016).

        gelu(x) = x / 2 (1 + erf(x / sqrt(2)))

    BERT uses this activation. It equals Keras' GELU; on JAX, Keras computes the complementary error
    function, which is slower on a CPU.
    """
    if keras.backend.backend() != "jax" or keras.backend.is_keras_tensor(x):
        return keras.ops.gelu(x, approximate=False)
    return gelu_of_jax()(keras.ops.convert_to_tensor(x))


@functools.cache
def gelu_of_jax() -> Callable[..., Tensor]:
    """Returns `gelu` for JAX arrays, with its derivative `Phi(x) + x phi(x)`.

    Integers become floats, and half precision is computed in float32.
    """
    import jax
    import jax.numpy as jnp

    def parts(x: "jax.Array") -> "tuple[jax.Array, jax.Array]":
        x = x.astype("float32") if x.dtype.itemsize < 4 else x
        return x, 0.5 + 0.5 * jax.lax.erf(x * math.sqrt(0.5))

    @jax.custom_jvp
    def function(x: "jax.Array") -> "jax.Array":
        wide, below = parts(x)
        return (wide * below).astype(x.dtype)

    @function.defjvp
    def derivative(primals: "tuple[jax.Array]", tangents: "tuple[jax.Array]"):
        (x,), (change,) = primals, tangents
        wide, below = parts(x)
        slope = below + wide * jnp.exp(-0.5 * wide * wide) * (1 / math.sqrt(2 * math.pi))
        return (wide * below).astype(x.dtype), (change * slope).astype(x.dtype)

    return lambda x: function(x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype("float32"))


@keras.saving.register_keras_serializable(package="keras_attn")
def gelu_tanh(x: Tensor) -> Tensor:
    """Computes GELU approximated with a hyperbolic tangent (Hendrycks and Gimpel, 2016).

        gelu_tanh(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))

    GPT-2, T5 1.1 and Gemma use this activation. `"gelu"` is the exact function.
    """
    return keras.ops.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="keras_attn")
def quick_gelu(x: Tensor) -> Tensor:
    """Computes GELU approximated with a sigmoid (Hendrycks and Gimpel, 2016).

        quick_gelu(x) = x sigmoid(1.702 x)

    CLIP uses this activation.
    """
    return x * keras.ops.sigmoid(1.702 * x)


@keras.saving.register_keras_serializable(package="keras_attn")
def squared_relu(x: Tensor) -> Tensor:
    """Computes the squared ReLU (So et al., 2021).

    squared_relu(x) = max(x, 0)^2
    """
    return keras.ops.square(keras.ops.relu(x))


_OURS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "squared_relu": squared_relu,
}


def activation(name: Activation) -> Callable[[Tensor], Tensor]:
    """Returns an activation by its name or config; None means linear."""
    return _OURS[name] if isinstance(name, str) and name in _OURS else keras.activations.get(name)


def check_activation(name: str, ours: Collection[str] = tuple(_OURS)) -> None:
    """Raises a ValueError if a name is neither in `ours` nor an activation of Keras."""
    if name in ours:
        return
    try:
        keras.activations.get(name)
    except ValueError:
        more = f", or one of {', '.join(ours)}" if ours else ""
        raise ValueError(
            f"Expected the name of an activation of Keras{more}. Received: {name!r}."
        ) from None


def check_keras_activation(name: str) -> None:
    """Raises a ValueError if Keras has no activation of this name."""
    check_activation(name, ours=())


def activation_config(function: Callable[[Tensor], Tensor]) -> Any:
    """Returns the config of an activation, which `activation` accepts."""
    name = getattr(function, "__name__", "")
    return name if _OURS.get(name) is function else keras.activations.serialize(function)
