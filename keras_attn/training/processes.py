"""Processes that train one model together, on one machine or on several, with JAX."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import keras
import numpy as np

from keras_attn.training.seeding import seed_everything

_T = TypeVar("_T")
NUM_PROCESSES = "KERAS_DISTRIBUTION_NUM_PROCESSES"
_ADDRESSES, _PLACE = "KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_PROCESS_ID"
_LOST = re.compile(r"gloo|nccl|connection|peer|barrier|heartbeat|coordination|unavailable", re.I)
HEARTBEAT_SECONDS = 30
"""Time after which a process without a sign of life counts as lost."""


def join_processes() -> None:
    """Connects this process with the other processes of a training run, if there are any.

    The environment names the processes by the variables of `keras.distribution.initialize`:
    `KERAS_DISTRIBUTION_JOB_ADDRESSES` (host and free port of process 0),
    `KERAS_DISTRIBUTION_NUM_PROCESSES` and `KERAS_DISTRIBUTION_PROCESS_ID`. Alternatively, `srun` of
    SLURM has started several tasks. If neither is the case, or if the process is already connected,
    this function does nothing. It must be called before anything is computed. `compute_on` and
    `Task.train` call it.

    `keras.distribution.initialize` also connects processes, but imports TensorFlow to seed it, and
    notices a lost process later.

    Raises:
        ValueError: If some of the variables are missing or are not numbers.
        RuntimeError: If there are other processes, and the backend is not JAX or they cannot be
            reached.
    """
    given = {name: os.environ.get(name, "") for name in (_ADDRESSES, NUM_PROCESSES, _PLACE)}
    slurm = not any(given.values()) and "SLURM_STEP_NODELIST" in os.environ
    number = os.environ.get("SLURM_NTASKS", "1") if slurm else given[NUM_PROCESSES]
    if number == "1" or not (slurm or any(given.values())):
        return
    numbers = given[NUM_PROCESSES].isdecimal() and given[_PLACE].isdecimal()
    if not slurm and not (given[_ADDRESSES] and numbers):
        raise ValueError(
            f"Expected {_ADDRESSES} (host and port of process 0), {NUM_PROCESSES} and {_PLACE} "
            "(the number of this process, from 0). Received: "
            + ", ".join(f"{name}={value!r}" for name, value in given.items())
            + ". Set all three, or none to train in one process."
        )
    check_backend(int(number))
    import jax

    if jax.distributed.is_initialized():
        return
    former = signal.getsignal(signal.SIGTERM)
    jax.distributed.initialize(
        given[_ADDRESSES].split(",")[0] or None,
        None if slurm else int(number),
        None if slurm else int(given[_PLACE]),
        heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        shutdown_timeout_seconds=HEARTBEAT_SECONDS,
    )
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, former)  # JAX's handler would ignore the signal
    seed_everything(from_first(lambda: int(np.random.SeedSequence().generate_state(1)[0])))


def check_backend(number: int) -> None:
    """Raises a RuntimeError if several processes cannot train together on the backend."""
    if keras.backend.backend() != "jax":
        raise RuntimeError(
            f"Several processes can train together only on JAX. Received: {number} processes on "
            f"the {keras.backend.backend()} backend. Set KERAS_BACKEND=jax, or start one process."
        )


def num_processes() -> int:
    """Returns the number of processes that train together."""
    if keras.backend.backend() != "jax":
        return 1
    import jax

    return jax.process_count()


def is_first_process() -> bool:
    """Returns whether this is the first (or only) process, which writes files."""
    if keras.backend.backend() != "jax":
        return True
    import jax

    return jax.process_index() == 0


def wait_for_processes() -> None:
    """Waits until all processes have called this function; returns at once if there is only one."""
    if num_processes() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("keras_attn")


def greatest(values: Sequence[int]) -> list[int]:
    """Returns the elementwise maximum of the lists of all processes."""
    if num_processes() == 1:
        return list(values)
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(np.array(values, "int32")).max(axis=0).tolist()


def from_first(make: Callable[[], _T]) -> _T:
    """Calls `make` in the first process; returns its JSON-compatible result in all processes."""
    if num_processes() == 1:
        return make()
    from jax.experimental import multihost_utils

    text = json.dumps(make()).encode() if is_first_process() else b""
    (length,) = greatest([len(text)])
    array = np.frombuffer(text.ljust(length), "uint8")
    return json.loads(multihost_utils.broadcast_one_to_all(array).tobytes())


def check_same(values: dict[str, Any]) -> None:
    """Raises a ValueError if the JSON-compatible values differ between processes."""
    values = json.loads(json.dumps(values))
    theirs = from_first(lambda: values)
    other = [name for name, value in values.items() if theirs[name] != value]
    if other:
        raise ValueError(
            "Expected the same data and settings in all processes. Received: other "
            f"{', '.join(other)} than in process 0. Start all processes with the same command, "
            "files and versions."
        )


@contextlib.contextmanager
def naming_lost_processes() -> Iterator[None]:
    """Adds an explanation to an error that a lost process caused."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if num_processes() == 1 or not _LOST.search(str(error)):
            raise
        raise RuntimeError(
            "Another process of this run has ended, or cannot be reached, so this one ends too. "
            "Start all of them again: the run resumes from its checkpoint. The error was: "
            + str(error).splitlines()[0]
        ) from error
