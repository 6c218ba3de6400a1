"""Local processes that train together: `fit --processes`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import IO

import click

from keras_attn.training.processes import NUM_PROCESSES, check_backend

_GRACE_SECONDS = 5.0
"""Time for the other processes to end by themselves after one has failed."""


def processes_option() -> click.Option:
    """Returns the option `--processes`."""
    text = (
        "number of processes to start on this machine, each with a GPU if there are any, that "
        "train together on JAX  [default: 1]"
    )
    return click.Option(["--processes"], type=click.IntRange(min=1), help=text)


def starts_processes(number: int | None) -> bool:
    """Whether this process must start others; False in the processes that were started."""
    asked = os.environ.get(NUM_PROCESSES, "")
    if number and asked not in ("", str(number)):
        raise click.UsageError(
            f"--processes is {number}, but {NUM_PROCESSES} is {asked}. Give only one of them."
        )
    return not asked and number is not None and number > 1


def run_processes(number: int) -> int:
    """Runs this command in several processes, and returns the exit code of the first that failed.

    Only process 0 writes to standard output and standard error. If a process fails, the others are
    ended.
    """
    check_backend(number)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1, number)]
        running = [
            _start(number, place, address, None if place == 0 else errors[place - 1])
            for place in range(number)
        ]
        stack.enter_context(_forwarding_signals(running))
        try:
            failed = _first_failed(running)
            _end(running)
        finally:
            for process in running:
                process.kill()
        if failed is None:
            return 0
        code = running[failed].returncode
        if code < 0:
            name = signal.Signals(-code).name
            click.echo(
                f"Error: process {failed} of {number} was ended by {name}, so the others were "
                "ended too. The same command resumes the run.",
                err=True,
            )
        elif failed and code < 128:
            errors[failed - 1].seek(0)
            said = errors[failed - 1].read().decode(errors="replace")
            click.echo(f"Error: process {failed} of {number} failed:\n{said[-4000:]}", err=True)
    return code if code > 0 else 128 - code


def _start(
    number: int, place: int, address: str, errors: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:]],
        env={
            **os.environ,
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": address,
            NUM_PROCESSES: str(number),
            "KERAS_DISTRIBUTION_PROCESS_ID": str(place),
            "JAX_LOCAL_DEVICE_IDS": str(place),
        },
        stderr=errors,
        start_new_session=True,  # Ctrl-C reaches them once, from this process
    )


def _first_failed(running: list[subprocess.Popen[bytes]]) -> int | None:
    """Waits until a process fails or all have ended; a killed one counts before its victims."""
    while True:
        codes = [process.poll() for process in running]
        failed = [place for place, code in enumerate(codes) if code]
        if failed:
            return min(failed, key=lambda place: ((codes[place] or 0) > 0, place))
        if None not in codes:
            return None
        time.sleep(0.1)


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + _GRACE_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def _forwarding_signals(running: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Passes signals to the processes, which save the run and end."""

    def forward(number: int, frame: FrameType | None) -> None:
        for process in running:
            process.send_signal(number)

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    former = {name: signal.signal(getattr(signal, name), forward) for name in names}
    try:
        yield
    finally:
        for name, handler in former.items():
            signal.signal(getattr(signal, name), handler)
