"""Toys that take long to train: one process of a run trains each, and the others load it."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The processes of a run by xdist have the environment of the one that starts them.
FOLDER = Path(os.environ.get("KERAS_ATTN_TOYS") or tempfile.mkdtemp(prefix="toys-"))
os.environ["KERAS_ATTN_TOYS"] = str(FOLDER)


def kept(kind: type, train: Callable[[], Any]) -> Any:
    """Returns the task that `train` makes, or what the process that made it has saved.

    Args:
        kind: Class of the task.
        train: Makes it; called in one process. The file has its name.
    """
    file = FOLDER / f"{train.__module__}.{train.__name__}.task"
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for the one that trains
        if file.exists():
            return kind.load(file)
        task = train()
        task.save(file)
        return task
