"""Where a process computes."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def compute_on(device: str) -> Iterator[str]:
    """Computes on a CPU or a GPU, or finds out early that there is no GPU.

    Call it before anything was computed: backends choose their devices once.

    Args:
        device: `"cpu"`, `"gpu"`, or `"auto"`: a GPU where the backend sees one.

    Yields:
        `"cpu"` or `"gpu"`.

    Raises:
        RuntimeError: If a GPU is asked for and the backend sees none.

    Example:

    >>> with compute_on("cpu") as device:
    ...     print(device)
    cpu
    """
    if device not in ("auto", "cpu", "gpu"):
        raise ValueError(f"`device` must be 'auto', 'cpu' or 'gpu'. Received: {device!r}.")
    backend = keras.backend.backend()
    found = device != "cpu" and _sees_gpu(backend)
    if device == "gpu" and not found:
        raise RuntimeError(
            f"A GPU is asked for, but the {backend} backend sees none. Install its build for GPUs, "
            "look at the driver, or use device 'cpu' or 'auto'."
        )
    if device == "cpu" and backend == "tensorflow":
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
    if device == "cpu":
        with keras.device("cpu:0"):
            yield "cpu"
    else:
        yield "gpu" if found else "cpu"


def _sees_gpu(backend: str) -> bool:
    if backend == "tensorflow":
        import tensorflow as tf

        return bool(tf.config.list_physical_devices("GPU"))
    if backend == "jax":
        import jax

        return any(device.platform == "gpu" for device in jax.devices())
    if backend == "torch":
        import torch

        return torch.cuda.is_available()
    return False
