"""The activations of Hugging Face, with our names."""

from __future__ import annotations

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "squared_relu",
    "relu6": "relu6",
    "hardswish": "hard_silu",
    "silu": "silu",
    "swish": "silu",
    "mish": "mish",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "linear": "linear",
}
"""Our name of each."""


def checked_activation(name: object, where: str) -> str:
    """Returns the Keras name of an activation in a config file; raises an error if unknown."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ValueError(f"{where} must be one of {list(ACTIVATIONS)}. Received: {name!r}.")
    return ACTIVATIONS[name]


def theirs_of(activation: str) -> str:
    """Returns the Hugging Face name of a Keras activation."""
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    if activation not in names:
        raise ValueError(f"transformers has no activation {activation!r}. It has {sorted(names)}.")
    return names[activation]
