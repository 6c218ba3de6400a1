"""Trained models that come with the package."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Returns the names of the trained models.

    Returns:
        The sorted names, which the method `load` of a task and the option `--model` accept.

    Example:

    >>> names()
    ['home-assistant-en-de']
    """
    return sorted(path.stem for path in _FOLDER.glob("*.task"))


def find(model: str | os.PathLike[str]) -> Path:
    """Returns the path of a model file, given as a path or as the name of a trained model.

    Args:
        model: Path of a file written by `save` of a task, or one of `names()`. If the working
            folder contains a file with this name, the path of that file is returned.

    Returns:
        The path, with `~` expanded. The file need not exist.

    Example:

    >>> find("home-assistant-en-de").is_file(), find("run/best.task")
    (True, PosixPath('run/best.task'))
    """
    path = Path(model).expanduser()
    if str(model) in names() and not path.exists():
        return _FOLDER / f"{model}.task"
    return path
