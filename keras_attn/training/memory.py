"""Reuse of memory between training steps on CPUs."""

import contextlib
import ctypes
import platform
from collections.abc import Iterator

import keras

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # of mallopt(3)


@contextlib.contextmanager
def kept_memory() -> Iterator[None]:
    """Lets training steps reuse the same memory instead of allocating it for each step.

    XLA requests the memory of a step from the C library, and returns it after the step. glibc then
    provides new pages for each step, which the kernel has to fill with zeros at the first access.
    For small models on a CPU, this takes a large part of a training step. Inside the `with` block,
    glibc keeps the returned memory, so that the process takes more memory; at the end of the block,
    glibc releases the memory to the system. Tasks use this function while they train on JAX without
    a GPU or TPU. It has an effect only on Linux with glibc.

    Example:

    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> with kept_memory():
    ...     history = model.fit(ops.ones((4, 2)), ops.ones((4, 1)), verbose=0)
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        # What glibc arrives at by itself when large arrays are freed.
        library.mallopt(_MMAP_MAX, 65536)
        library.mallopt(_MMAP_THRESHOLD, 32 * 2**20)
        library.mallopt(_TRIM_THRESHOLD, 64 * 2**20)
        library.malloc_trim(0)


def memory_of_training() -> contextlib.AbstractContextManager[None]:
    """Returns `kept_memory()` on JAX without a GPU or TPU, otherwise a context without effect."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    return kept_memory() if jax.default_backend() == "cpu" else contextlib.nullcontext()
