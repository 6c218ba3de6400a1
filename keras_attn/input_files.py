"""Opening of input files: regular files only, and an error with the file's name for damage."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_OF_CONTENT = (None, errno.EINVAL)  # what a damaged place in a file leads to, not the disk


DAMAGE = (
    EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile,
    NotImplementedError, UnicodeDecodeError,
)  # fmt: skip
"""Errors of damaged compressed files and archives. A zip archive with a password raises a
RuntimeError instead."""


def kind_of(path: str | os.PathLike[str]) -> str:
    """Returns what is at a path, for messages: `"a file"`, `"a folder"`, ..., or `"nothing"`."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def is_plain_name(name: str) -> bool:
    """Whether a string that a file gives can name a file or folder beside it: not elsewhere, and
    without characters that no file system has."""
    plain = Path(name).name == name and name != ".." and not {"\\", ":", "\0"} & set(name)
    return plain and name.encode("utf-8", "ignore").decode("utf-8") == name


def input_file(path: str | os.PathLike[str], expected: str = "a file") -> Path:
    """Checks that an input is a regular file, before it is opened.

    Named pipes and devices raise an error: reading from them may wait forever, and input files are
    read more than once.
    """
    path = Path(path).expanduser()
    kind = kind_of(path)
    if kind in ("nothing", "a folder"):
        raise FileNotFoundError(f"Expected {expected} at {path}. There is {kind}.")
    if kind != "a file":
        raise ValueError(
            f"Expected {expected} at {path}. There is {kind}, which cannot be read twice. Write "
            "its content to a regular file first."
        )
    return path


def read_input(path: str | os.PathLike[str], expected: str = "a file") -> bytes:
    """Reads a complete input file, which must be a regular file."""
    return input_file(path, expected).read_bytes()


def refuse_damaged(
    path: str | os.PathLike[str], found: object, expected: str = "a whole file"
) -> NoReturn:
    """Raises a ValueError about a file that is cut off or damaged."""
    what = str(found)
    if isinstance(found, Exception) and (isinstance(found, KeyError) or not what):
        what = repr(found)
    raise ValueError(
        f"Expected {expected}. Received: {os.fspath(path)}, which is cut off or damaged "
        f"({what[:500]}). Use another copy of the file, or create it again."
    ) from (found if isinstance(found, Exception) else None)


@contextlib.contextmanager
def undamaged(path: str | os.PathLike[str], expected: str = "a whole file") -> Iterator[None]:
    """Converts any error that a decoder raises inside the block to one that names the file.

    Decoders such as `zipfile`, `json` and `numpy.lib.format` raise many kinds of errors about
    damaged bytes: RuntimeError ("is encrypted"), NotImplementedError, LZMAError, TokenError, ...
    Therefore, the block should contain only the call of a decoder.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in _OF_CONTENT:
            raise
        refuse_damaged(path, error, expected)


def parse_json(raw: bytes, path: str | os.PathLike[str], expected: str = "a whole file") -> Any:
    """Decodes JSON in UTF-8; an error names the file."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number in JSON")

    with undamaged(path, expected):
        return json.loads(raw.decode("utf-8"), parse_constant=refuse)


def parse_object(
    raw: bytes, path: str | os.PathLike[str], expected: str = "a whole file"
) -> dict[str, Any]:
    """Decodes a JSON object in UTF-8; an error names the file."""
    found = parse_json(raw, path, expected)
    if not isinstance(found, dict):
        refuse_damaged(path, f"a {type(found).__name__} instead of a JSON object", expected)
    return found
