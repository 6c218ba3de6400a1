"""Activations by names that Keras does not have."""

from collections.abc import Callable
from typing import Any

import keras

Tensor = Any


@keras.saving.register_keras_serializable(package="keras_attn")
def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its approximation with a hyperbolic tangent (Hendrycks and Gimpel, 2016).

        gelu_tanh(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))

    That of GPT-2, T5 1.1 and Gemma; `"gelu"` is the exact one.

    Args:
        x: A tensor.

    Returns:
        A tensor of the same shape.

    Example:

    >>> round(float(gelu_tanh(ops.array(1.0))), 4)
    0.8412
    """
    return keras.ops.gelu(x, approximate=True)


_OURS = {"gelu_tanh": gelu_tanh}


def activation(name: Any) -> Callable[[Tensor], Tensor]:
    """Returns an activation of a name, ours or Keras', or of a config.

    Args:
        name: Such as `"relu"`, `"gelu_tanh"`, a function, or None for the linear one.

    Returns:
        The function.

    Example:

    >>> activation("gelu_tanh") is gelu_tanh, activation("relu") is keras.activations.relu
    (True, True)
    """
    return _OURS[name] if isinstance(name, str) and name in _OURS else keras.activations.get(name)


def activation_config(function: Callable[[Tensor], Tensor]) -> Any:
    """Returns what a config has for an activation: `activation` takes it back.

    Args:
        function: What `activation` returned.

    Returns:
        A name, or Keras' config of a function.

    Example:

    >>> activation_config(gelu_tanh)
    'gelu_tanh'
    """
    name = getattr(function, "__name__", None)
    return name if _OURS.get(name) is function else keras.activations.serialize(function)
