"""Where a process computes: on which kind of device, and on how many."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import keras

from keras_attn.ops.replicas import replicas


@contextlib.contextmanager
def compute_on(device: str, devices: str = "1") -> Iterator[str]:
    """Computes on CPUs or GPUs, on one or on several, or finds out early that they are not there.

    On several devices each holds all weights and computes its rows of each batch, by
    `keras.distribution.DataParallel` on JAX and `tf.distribute.MirroredStrategy` on TensorFlow:
    models, optimizers and metrics are to be made within the block, and batches to have rows that
    `num_data_shards()` divides.

    Call it before anything was computed: backends choose their devices once.

    Args:
        device: `"cpu"`, `"gpu"`, or `"auto"`: GPUs where the backend sees one.
        devices: How many of that kind, a number as a string, or `"all"`. `"1"` leaves the choice
            of the one to the backend.

    Yields:
        `"cpu"` or `"gpu"`.

    Raises:
        ValueError: For another kind or number of devices.
        RuntimeError: If a GPU is asked for and the backend sees none, there are fewer devices than
            that, or several are asked for on PyTorch.

    Example:

    >>> with compute_on("cpu", "all") as device:
    ...     print(device, num_data_shards())
    cpu 1
    """
    if device not in ("auto", "cpu", "gpu"):
        raise ValueError(f"`device` must be 'auto', 'cpu' or 'gpu'. Received: {device!r}.")
    check_devices(devices)
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
    kind = "gpu" if found else "cpu"
    with contextlib.ExitStack() as stack:
        if device == "cpu":
            stack.enter_context(keras.device("cpu:0"))
        if devices != "1":
            names = _names(backend, kind)
            chosen = names if devices == "all" else names[: int(devices)]
            if devices != "all" and len(chosen) < int(devices):
                raise RuntimeError(_too_few(backend, kind, len(names), devices))
            if len(chosen) > 1:
                stack.enter_context(_data_parallel(backend, chosen))
        yield kind


def check_devices(devices: Any) -> None:
    """Raises a ValueError for what is neither "all" nor a positive number as a string.

    Example:

    >>> check_devices("0")
    Traceback (most recent call last):
        ...
    ValueError: `devices` must be 'all' or a number of at least 1, as a string. Received: '0'.
    """
    known = isinstance(devices, str) and devices.isascii() and devices.isdecimal()
    if devices != "all" and not (known and int(devices) >= 1):
        raise ValueError(
            "`devices` must be 'all' or a number of at least 1, as a string. "
            f"Received: {devices!r}."
        )


def num_data_shards() -> int:
    """Returns the number of parts that a batch is cut into: its rows must be a multiple of it.

    Returns:
        That of the `keras.distribution` in scope on JAX (of all processes), of the replicas of the
        `tf.distribute` strategy on TensorFlow; 1 without.

    Example:

    >>> num_data_shards()
    1
    """
    distribution = keras.distribution.distribution()
    return replicas() if distribution is None else distribution.num_model_replicas


def _data_parallel(backend: str, names: list[str]) -> contextlib.AbstractContextManager:
    if backend == "jax":
        return keras.distribution.DataParallel(devices=names).scope()
    if backend == "tensorflow":
        return _strategy(tuple(names)).scope()
    raise RuntimeError(
        "Keras' `fit` trains on one device with PyTorch. Received: "
        f"{len(names)} devices. Set KERAS_BACKEND to jax or tensorflow, or take `devices` '1'; or "
        "wrap `.model` into torch.nn.parallel.DistributedDataParallel, in a loop of your own."
    )


@functools.cache
def _strategy(names: tuple[str, ...]) -> Any:
    """One strategy in a process: the sums over replicas of a second one would meet the first's."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(names)


def _too_few(backend: str, kind: str, there: int, wanted: str) -> str:
    message = (
        f"{wanted} devices are asked for, but the {backend} backend sees {there} of kind {kind}. "
        f"Take {there} at most, or 'all'."
    )
    if kind == "cpu" and backend == "jax":
        message += (
            " For a trial on one CPU, set XLA_FLAGS=--xla_force_host_platform_device_count="
            f"{wanted} before."
        )
    return message


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


def _names(backend: str, kind: str) -> list[str]:
    """The devices of a kind."""
    if backend == "tensorflow":
        import tensorflow as tf

        return [device.name for device in tf.config.list_logical_devices(kind.upper())]
    if backend == "jax":
        return keras.distribution.list_devices(kind)
    import torch

    return [f"cuda:{i}" for i in range(torch.cuda.device_count())] if kind == "gpu" else ["cpu"]
