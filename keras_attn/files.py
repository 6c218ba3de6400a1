"""Files that are whole or not there."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

_PARTIAL = ".partial-"


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Gives a path to write to, which replaces `path` when the block ends well.

    The new file is on the disk before it takes the old one's name, so whatever happens (an error,
    a full disk, `kill -9`, a power cut) `path` is either the old file or the whole new one.

    Args:
        path: The file; its folder must be there.

    Yields:
        A path in the same folder. After an error it is removed.

    Example:

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_write(file) as partial:
    ...     _ = partial.write_text("1 2 3")
    >>> file.read_text()
    '1 2 3'
    """
    path = Path(path)
    partial = path.with_name(f"{_PARTIAL}{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        yield partial
        _to_disk(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        _to_disk(path.parent)


def remove_partial_files(folder: str | os.PathLike) -> None:
    """Removes what killed processes left of `atomic_write`.

    Args:
        folder: Where no other process writes now.

    Example:

    >>> import tempfile
    >>> remove_partial_files(tempfile.mkdtemp())
    """
    for partial in Path(folder).glob(f"{_PARTIAL}*"):
        partial.unlink(missing_ok=True)


def check_writable(folder: str | os.PathLike) -> Path:
    """Makes a folder, and finds out now, not after hours, whether files can be written there.

    Args:
        folder: The folder.

    Returns:
        Its path.

    Raises:
        PermissionError: If it cannot be made or written to.
        NotADirectoryError: If it is a file.

    Example:

    >>> import tempfile
    >>> check_writable(tempfile.mkdtemp()).is_dir()
    True
    """
    folder = Path(folder).expanduser()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"Expected a folder. Received: {folder}, a file.")
    probe = folder / f"{_PARTIAL}{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x")
    except PermissionError as error:
        raise PermissionError(
            f"No permission to write to {folder}. Give another folder, or change its owner or mode."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    return folder


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
