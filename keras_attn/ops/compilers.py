"""What a function is traced for: what is fast under XLA or on a CPU is slow elsewhere, and back."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras

Tensor = Any

_COMPILER = contextvars.ContextVar("keras_attn_compiler", default=None)
_ONE_ROW = contextvars.ContextVar("keras_attn_one_row", default=False)


@contextlib.contextmanager
def tracing_for(xla: bool, one_row: bool = False) -> Iterator[None]:
    """Says what compiles what is traced within, which TensorFlow does not tell.

    Args:
        xla: Whether XLA compiles it. Where not, it never can.
        one_row: Whether it is traced for batches of one row, whatever the shapes say.

    Example:

    >>> with tracing_for(xla=True):
    ...     compiler()
    'xla'
    """
    tokens = _COMPILER.set("xla" if xla else "none"), _ONE_ROW.set(one_row)
    try:
        yield
    finally:
        _COMPILER.reset(tokens[0])
        _ONE_ROW.reset(tokens[1])


def compiler() -> str | None:
    """Returns what compiles what is traced: "xla", "none", or None where it is not known.

    On JAX always "xla". What is traced where it is not known must be right for either.

    Example:

    >>> compiler() == ("xla" if keras.backend.backend() == "jax" else None)
    True
    """
    return "xla" if keras.backend.backend() == "jax" else _COMPILER.get()


def is_one_row(x: Tensor) -> bool:
    """Returns whether a batch as it was given, not repeated or joined, is known to be of one row.

    Example:

    >>> is_one_row(keras.ops.ones((1, 3))), is_one_row(keras.ops.ones((2, 3)))
    (True, False)
    """
    return x.shape[0] == 1 or (x.shape[0] is None and _ONE_ROW.get())


def on_cpu() -> bool:
    """Returns whether TensorFlow sees nothing but CPUs, or JAX computes on one; False on PyTorch.

    Example:

    >>> on_cpu() in (True, False)
    True
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return all(device.device_type == "CPU" for device in tf.config.get_visible_devices())
    if backend == "jax":
        import jax

        device = jax.config.jax_default_device
        return getattr(device, "platform", device or jax.default_backend()) == "cpu"
    return False
