"""The contenders: a module each, with a function a job.

A job takes the case's settings and the contender's own, and returns a `Job`. A module is imported
in a process of its own, with its framework alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Job:
    """What a contender does.

    Args:
        run: Does it once, and returns when it is done.
        amount: How much one run does, in the unit of the case.
        result: A function from what `run` returned to what must be the same for all; None: nothing.
    """

    run: Callable[[], Any]
    amount: float = 1.0
    result: Callable[[Any], Any] | None = None
