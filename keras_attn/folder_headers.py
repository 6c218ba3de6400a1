"""Headers of folders of ours: JSON with a format version and the checksums of the files."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from keras_attn.files import atomic_write, check_format
from keras_attn.input_files import input_file, parse_object, read_input, refuse_damaged
from keras_attn.version import __version__

_OWN, _FILES = "sha256", "files"


def checksum(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits.

    Args:
        path: The file.

    Example:

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> _ = file.write_text("1 2 3")
    >>> checksum(file)[:8]
    '7c8f5059'
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sum(path: Path, wanted: object, expected: str) -> None:
    """Refuses a file that is not as it was written.

    Args:
        path: The file.
        wanted: What `checksum` was when it was written.
        expected: What it should be, for messages.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If it has changed.

    Example:

    >>> check_sum(Path("nowhere.npy"), "a4", "a file of ids")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected a file of ids at nowhere.npy. There is nothing.
    """
    if checksum(input_file(path, expected)) != wanted:
        refuse_damaged(path, "its checksum is another than when it was written", expected)


def write_header(
    path: str | os.PathLike[str], version: int, files: bool = False, **entries: Any
) -> None:
    """Writes the header of a folder, with its own checksum.

    Args:
        path: The file; it is replaced atomically.
        version: Format version of the folder.
        files: Whether the header has the checksums of all other files in its folder, which must be
            complete.
        **entries: JSON-safe values.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.json"
    >>> write_header(path, 1, size=3)
    >>> read_header(path, 1, "a folder of data", "Make it again.")["size"]
    3
    """
    path = Path(path)
    header = {"format_version": version, "keras_attn": __version__, **entries}
    if files:
        header[_FILES] = {
            file.relative_to(path.parent).as_posix(): checksum(file)
            for file in sorted(path.parent.rglob("*"))
            if file.is_file() and file != path
        }
    header = json.loads(json.dumps(header))  # lists for tuples, as it is read
    header[_OWN] = _digest(header)
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")


def read_header(
    path: str | os.PathLike[str], newest: int, expected: str, advice: str
) -> dict[str, Any]:
    """Reads a header that `write_header` wrote, and compares all checksums that it has.

    Args:
        path: The file.
        newest: The format version that is known.
        expected: What the folder should be, for messages: `"a folder of prepared data"`.
        advice: What to do about an older folder: `"Prepare the data again."`

    Returns:
        The header.

    Raises:
        FileNotFoundError: If there is no header, or a file of the folder is missing.
        ValueError: If the header is another file, is of another format version, or a file of the
            folder is damaged.

    Example:

    >>> read_header("nowhere/data.json", 1, "a folder of data", "Make it again.")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected a folder of data at nowhere/data.json. There is nothing.
    """
    path = Path(path)
    header = parse_object(read_input(path, expected), path)
    version = header.get("format_version")
    if type(version) is not int or "keras_attn" not in header:
        raise ValueError(f"Expected {expected} in {path.parent}. Received: another {path.name}.")
    check_format(path.parent, header, newest)
    if version < newest:
        raise ValueError(
            f"Expected {expected} of format version {newest}. Received: {path.parent} of version "
            f"{version}, written by keras_attn {header['keras_attn']} before its first release. "
            f"{advice}"
        )
    if header.pop(_OWN, None) != _digest(header):
        refuse_damaged(path, "its checksum is another than when it was written")
    sums = header.get(_FILES, {})
    if not isinstance(sums, dict):
        refuse_damaged(path, f"its {_FILES} are a {type(sums).__name__}")
    for name, wanted in sums.items():
        check_sum(path.parent / name, wanted, f"a whole file of {expected}")
    return header


def _digest(header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()
