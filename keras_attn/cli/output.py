"""What commands write, and how they end."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, TextIO

import click

from keras_attn.files import atomic_write, check_writable


def check_output(path: Path | None) -> None:
    """Finds out before the work whether a file can be written.

    Args:
        path: The file; None is standard output.

    Raises:
        IsADirectoryError: If it is a folder.
        PermissionError: If its folder cannot be written to.

    Example:

    >>> check_output(Path("."))
    Traceback (most recent call last):
        ...
    IsADirectoryError: Expected a file's path. Received: ., a folder.
    """
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file's path. Received: {path}, a folder.")
    check_writable(path.absolute().parent)


def check_new_model(path: Path, overwrite: bool) -> None:
    """Finds out before the work whether a model can be written, and replaces none.

    Args:
        path: The file.
        overwrite: Whether one that is there may be replaced.

    Raises:
        FileExistsError: If there is one that may not.
        OSError: As `check_output`.

    Example:

    >>> import tempfile
    >>> check_new_model(Path(tempfile.mkdtemp()) / "small.task", False)
    """
    check_output(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already. Give another file, or --overwrite.")


def open_output(path: Path | None, stack: contextlib.ExitStack) -> TextIO:
    """Opens a file that appears when it is whole, or standard output; closed with the stack.

    Args:
        path: The file; a pipe or a device is written to directly; None is standard output.
        stack: What closes it. Where it ends with an error, the file that was there stays.

    Returns:
        What to write to, as UTF-8 with newlines.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lines.txt"
    >>> with contextlib.ExitStack() as stack:
    ...     print("a line", file=open_output(path, stack))
    >>> path.read_bytes()
    b'a line\\n'
    """
    place: int | Path
    if path is None:
        place = os.dup(1)
    elif path.exists() and not path.is_file():  # a pipe, a device
        place = path
    else:
        place = stack.enter_context(atomic_write(path))
    return stack.enter_context(open(place, "w", encoding="utf-8", newline="\n"))


def write_json(path: Path, content: Any) -> None:
    """Writes a JSON file, as a whole.

    Args:
        path: The file.
        content: JSON-safe values.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "figures.json"
    >>> write_json(path, {"bits": 2.5})
    >>> json.loads(path.read_text())
    {'bits': 2.5}
    """
    with contextlib.ExitStack() as stack:
        text = json.dumps(content, ensure_ascii=False, indent=1)
        open_output(path, stack).write(text + "\n")


def exit_if_interrupted(run: Any) -> None:
    """Ends the command where a signal ended a run, with the exit code of that signal.

    Args:
        run: Has `complete` and `interrupted_by`.

    Raises:
        click.exceptions.Exit: If the run is not complete.

    Example:

    >>> from keras_attn.tasks import TrainingRun
    >>> exit_if_interrupted(TrainingRun(True, None, 2.25, 3, [], {}, Path("run/best.task")))
    """
    if run.complete:
        return
    with contextlib.suppress(OSError):  # who read our output may be gone
        click.echo("Interrupted. The same command goes on from here.", err=True)
    raise click.exceptions.Exit(128 + (run.interrupted_by or 2))
