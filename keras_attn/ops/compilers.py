"""Detection of the compiler and the device that traced code runs on."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator

import keras

from keras_attn.hints import Tensor

_COMPILER = contextvars.ContextVar[str | None]("keras_attn_compiler", default=None)
_ONE_ROW = contextvars.ContextVar("keras_attn_one_row", default=False)


@contextlib.contextmanager
def tracing_for(xla: bool, one_row: bool = False) -> Iterator[None]:
    """Declares which compiler the code traced inside the block is for; TensorFlow does not say."""
    tokens = _COMPILER.set("xla" if xla else "none"), _ONE_ROW.set(one_row)
    try:
        yield
    finally:
        _COMPILER.reset(tokens[0])
        _ONE_ROW.reset(tokens[1])


def compiler() -> str | None:
    """Returns the compiler of the traced code: "xla", "none", or None if it is unknown.

    It is always "xla" on JAX. Code traced for an unknown compiler must work with either.
    """
    return "xla" if keras.backend.backend() == "jax" else _COMPILER.get()


def untold(function: Callable) -> Callable:
    """Returns a function that TensorFlow's retracing warning ignores.

    TensorFlow identifies functions by `__code__`, and warns of "retracing" when several functions
    with the same code are traced once each, such as one for each task.
    """
    return functools.partial(function)


def is_one_row(x: Tensor) -> bool:
    """Returns whether a batch of the caller, not repeated or joined, is known to have one row."""
    return x.shape[0] == 1 or (x.shape[0] is None and _ONE_ROW.get())


def on_cpu() -> bool:
    """Returns whether TensorFlow sees only CPUs, or JAX uses a CPU; False on PyTorch."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return all(device.device_type == "CPU" for device in tf.config.get_visible_devices())
    if backend == "jax":
        import jax

        device = jax.config.jax_default_device  # type: ignore[attr-defined]  # JAX adds its options as attributes at run time
        return getattr(device, "platform", device or jax.default_backend()) == "cpu"
    return False
