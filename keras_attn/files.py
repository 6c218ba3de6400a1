"""Atomic writes, locks and checks of files and folders."""

import contextlib
import errno
import glob
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from keras_attn.input_files import DAMAGE, refuse_damaged
from keras_attn.version import __version__

try:
    import fcntl
except ImportError:  # there is none on Windows
    fcntl = None  # type: ignore[assignment]  # a module or None

_PARTIAL = ".partial-"
_FORBIDDEN = (errno.EACCES, errno.EPERM)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a path to write to, which replaces `path` if the block succeeds.

    The new file is on the disk before it gets the name of the old file. Therefore, after an error,
    a full disk, `kill -9` or a power cut, `path` is either the old file or the complete new file.
    If `path` is a link, its target is replaced.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(
            f"Expected the path of a file. Received: {path}, which is not a regular file."
        )
    partial = path.with_name(f"{_PARTIAL}{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with _naming(path), _new(partial):
            yield partial
            _to_disk(partial)
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        _to_disk(path.parent)


def remove_partial_files(path: str | os.PathLike) -> None:
    """Removes partial files and folders that killed processes left for a path.

    Files that another process is still writing are kept, except on Windows.
    """
    path = Path(path)
    digits = "[0-9a-f]" * 8  # not all that follows: another path may go on behind a hyphen
    for partial in path.parent.glob(f"{_PARTIAL}{glob.escape(path.name)}-{digits}"):
        with contextlib.suppress(FileNotFoundError), _held(partial) as free:
            if free and partial.is_dir():
                shutil.rmtree(partial)
            elif free:
                partial.unlink()


@contextlib.contextmanager
def _new(partial: Path) -> Iterator[None]:
    """Creates a file that no other process takes for one that was left."""
    partial.touch()
    with _held(partial):
        yield


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Locks a file or folder, and yields whether it could be locked."""
    if fcntl is None:
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    except BlockingIOError:
        free = False
    try:
        yield free
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike) -> Iterator[Path]:
    """Yields an empty folder to fill, which becomes `path` if the block succeeds."""
    path = Path(path).expanduser().absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} already exists. Give another folder, or remove it first.")
    check_writable(path.parent)
    with folder_beside(path) as partial, _naming(path):
        yield partial
        for file in partial.rglob("*"):
            _to_disk(file)
        if path.is_dir():
            path.rmdir()
        os.replace(partial, path)


@contextlib.contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yields an empty folder next to a path, for work whose result is moved to the path.

    Folders that killed processes left for this path are removed first.
    """
    remove_partial_files(path)
    partial = path.with_name(f"{_PARTIAL}{path.name}-{uuid.uuid4().hex[:8]}")
    partial.mkdir()
    try:
        with _held(partial):
            yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def only_one(path: str | os.PathLike, doing: str) -> Iterator[None]:
    """Lets one process at a time into a block; others get an error. No effect on Windows."""
    if fcntl is None:
        yield
        return
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                error.errno,
                f"Another process {doing} in {Path(path).parent} now. Wait until it has "
                "ended, or stop it",
            ) from error
        yield


def check_writable(folder: str | os.PathLike) -> Path:
    """Creates a folder if needed, and checks that files can be written there."""
    folder = Path(folder).expanduser()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"Expected a folder. Received: {folder}, which is a file.")
    probe = folder / f"{_PARTIAL}{uuid.uuid4().hex[:8]}"
    try:
        with _naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
            probe.write_bytes(b"x")
    except PermissionError as error:
        raise _no_permission(folder) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    return folder


def check_output(path: Path | None) -> None:
    """Checks in advance that a file can be written."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(
            f"Expected the path of a file. Received: {path}, which is a folder."
        )
    check_writable(path.absolute().parent)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Opens a file that is written atomically, a pipe or device, or standard output (None)."""
    with contextlib.ExitStack() as stack:
        place: int | Path
        if path is None:
            place = os.dup(1)
        elif path.exists() and not path.is_file():  # a pipe, a device
            place = path
        else:
            place = stack.enter_context(atomic_write(path))
        yield stack.enter_context(open(place, "w", encoding="utf-8", newline="\n"))


def path_text(path: str | os.PathLike) -> str:
    """Returns a path as text that UTF-8 can encode."""
    return os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[None]:
    """Converts errors about damaged archives or compressed data to one that names the file."""
    try:
        yield
    except DAMAGE as error:
        refuse_damaged(path, error)


def check_format(path: str | os.PathLike, header: Mapping[str, Any], newest: int) -> None:
    """Raises a ValueError if a file has a newer format than this version of keras_attn supports."""
    version = header.get("format_version")
    if type(version) is not int or version < 1 or "keras_attn" not in header:
        raise ValueError(
            f"Expected a header with `format_version` and `keras_attn`. Received: {path}, "
            f"with {str(dict(header))[:200]}. It is another kind of file, or it is damaged."
        )
    if version > newest:
        raise ValueError(
            f"{path} has format version {version}, written by keras_attn "
            f"{header['keras_attn']}. This is keras_attn {__version__}, which reads up to version "
            f"{newest}. Install a newer keras_attn."
        )


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the file if the disk is full, and says what to do if it cannot be written to."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            error.filename = os.fspath(path)
        if error.errno == errno.EROFS:
            raise OSError(
                errno.EROFS, f"{path} is on a read-only file system. Give another folder"
            ) from error
        if error.errno in _FORBIDDEN and _PARTIAL in str(error.filename):
            raise _no_permission(path) from error
        raise


def _no_permission(path: Path) -> PermissionError:
    return PermissionError(
        f"No permission to write to {path}. Give another folder, or change its owner or mode."
    )


def _to_disk(path: Path) -> None:
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
    elif path.is_dir():  # Windows writes folders by itself
        return
    else:  # and nothing that is open for reading alone
        handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
