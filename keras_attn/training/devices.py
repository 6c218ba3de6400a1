"""Choice of the devices of a process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, cast

import keras

from keras_attn.ops.replicas import replicas
from keras_attn.training.processes import join_processes, num_processes


@contextlib.contextmanager
def compute_on(device: str, devices: str = "1") -> Iterator[str]:
    """Chooses the CPUs or GPUs for a `with` block, and fails early if they are not available.

    With several devices, each device has all weights and computes a part of the rows of each batch,
    with `keras.distribution.DataParallel` on JAX and `tf.distribute.MirroredStrategy` on
    TensorFlow. Create models, optimizers and metrics inside the block, and use a batch size
    that is a multiple of `num_data_shards()`.

    Enter the block before anything is computed, because backends choose their devices only once.

    If the environment names several processes (`KERAS_DISTRIBUTION_NUM_PROCESSES`, or SLURM), this
    process is connected with them, and the devices of all processes each compute a part of each
    batch. Several processes require JAX. Every process must run the same code on the same data.

    Args:
        device: `"cpu"`, `"gpu"`, or `"auto"`: GPUs if the backend sees one, otherwise CPUs.
        devices: Number of devices as a string, or `"all"`. With `"1"`, the backend chooses the
            device. With several processes, `"1"` and `"all"` mean all devices of each process, and
            other numbers are errors.

    Yields:
        The chosen kind of device, `"cpu"` or `"gpu"`.

    Raises:
        ValueError: If `device` or `devices` is invalid, or the environment names the processes
            incompletely.
        RuntimeError: If the backend sees no GPU or fewer devices than requested; if several devices
            are requested on PyTorch; or if there are several processes on a backend other than JAX,
            or they cannot be reached.

    Example:

    >>> with compute_on("cpu", "all") as device:
    ...     print(device, num_data_shards())
    cpu 1
    """
    if device not in ("auto", "cpu", "gpu"):
        raise ValueError(f"`device` must be 'auto', 'cpu' or 'gpu'. Received: {device!r}.")
    check_devices(devices)
    backend = keras.backend.backend()
    join_processes()
    several = num_processes() > 1
    if several and devices not in ("1", "all"):
        raise ValueError(
            "With several processes, `devices` must be 'all', because each process uses all "
            f"devices that it sees. Received: {devices!r}. CUDA_VISIBLE_DEVICES lets it see fewer."
        )
    found = device != "cpu" and _sees_gpu(backend)
    if device == "gpu" and not found:
        raise RuntimeError(
            f"A GPU is requested, but the {backend} backend finds none. Install its GPU "
            "build, check the driver, or use device 'cpu' or 'auto'."
        )
    if device == "cpu" and backend == "tensorflow":
        import tensorflow as tf

        tf.config.set_visible_devices([], "GPU")
    kind = "gpu" if found else "cpu"
    with contextlib.ExitStack() as stack:
        if device == "cpu":
            stack.enter_context(keras.device(_first_cpu(backend)))
        if several:
            distribution = keras.distribution.DataParallel(
                devices=_names(backend, kind), auto_shard_dataset=False
            )
            stack.enter_context(distribution.scope())
        elif devices != "1":
            names = _names(backend, kind)
            chosen = names if devices == "all" else names[: int(devices)]
            if devices != "all" and len(chosen) < int(devices):
                raise RuntimeError(_too_few(backend, kind, len(names), devices))
            if len(chosen) > 1:
                stack.enter_context(_data_parallel(backend, chosen))
        yield kind


def check_devices(devices: object) -> None:
    """Raises a ValueError if `devices` is neither "all" nor a positive number as a string."""
    known = isinstance(devices, str) and devices.isascii() and devices.isdecimal()
    if devices != "all" and not (known and int(cast(str, devices)) >= 1):
        raise ValueError(
            "`devices` must be 'all' or a number of at least 1, as a string. "
            f"Received: {devices!r}."
        )


def num_data_shards() -> int:
    """Returns the number of parts of a batch, which must divide the number of rows.

    Returns:
        On JAX, the number of data shards of the `keras.distribution` in scope, over all processes;
        on TensorFlow, the number of replicas of the `tf.distribute` strategy; otherwise 1.

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
        f"Keras' `fit` trains on one device with PyTorch. Received: {len(names)} devices. "
        "Set KERAS_BACKEND to jax or tensorflow, use `devices` '1', or wrap `.model` in "
        "torch.nn.parallel.DistributedDataParallel in your own training loop."
    )


@functools.cache
def _strategy(names: tuple[str, ...]) -> Any:
    """Returns the only strategy of the process, because sums over replicas of two would mix."""
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


def _first_cpu(backend: str) -> Any:
    """The CPU of this process, as others are not to be computed on."""
    if backend != "jax":
        return "cpu:0"
    import jax

    return jax.local_devices(backend="cpu")[0]


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
    """The names of the devices of a kind."""
    if backend == "tensorflow":
        import tensorflow as tf

        return [device.name for device in tf.config.list_logical_devices(kind.upper())]
    if backend == "jax":
        return keras.distribution.list_devices(kind)
    import torch

    return [f"cuda:{i}" for i in range(torch.cuda.device_count())] if kind == "gpu" else ["cpu"]
