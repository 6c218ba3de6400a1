"""Progress lines of long computations: tests on thousands of texts, exports."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any


class _Lines:
    """The receiver of the lines, and the time of the last one."""

    def __init__(self, say: Callable[[str], Any], seconds: float):
        self.say = say
        self.seconds = seconds
        self.last = time.monotonic()

    def tell(self, line: str) -> None:
        self.last = time.monotonic()
        self.say(line)


_lines: ContextVar[_Lines | None] = ContextVar("progress_lines", default=None)


@contextlib.contextmanager
def progress_lines(say: Callable[[str], Any], seconds: float = 10.0) -> Iterator[None]:
    """Makes long computations inside the block report their progress.

    Predictions and evaluations of a task report how many inputs are done, and an export reports its
    steps. Outside of such a block, nothing is reported.
    """
    token = _lines.set(_Lines(say, seconds))
    try:
        yield
    finally:
        _lines.reset(token)


def listen(say: Callable[[str], Any], seconds: float = 10.0) -> None:
    """Reports progress, as `progress_lines` does, until the end of the process."""
    _lines.set(_Lines(say, seconds))


def report(done: int, total: int, what: str) -> None:
    """Reports how many inputs are done, if some remain and the last report is old enough."""
    lines = _lines.get()
    if lines is None or done >= total:
        return
    if time.monotonic() - lines.last >= lines.seconds:
        lines.tell(f"  {done:,} of {total:,} {what}")


def tell(step: str) -> None:
    """Reports the next step of a long computation."""
    lines = _lines.get()
    if lines is not None:
        lines.tell(f"  {step}")
