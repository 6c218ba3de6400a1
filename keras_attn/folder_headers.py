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
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sum(path: Path, wanted: object, expected: str) -> None:
    """Raises a ValueError if a file does not have the expected checksum."""
    if checksum(input_file(path, expected)) != wanted:
        refuse_damaged(path, "its checksum is another than when it was written", expected)


def write_header(
    path: str | os.PathLike[str], version: int, files: bool = False, **entries: Any
) -> None:
    """Writes the header of a folder, with its own checksum."""
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
    """Reads a header that `write_header` wrote, and verifies all checksums in it."""
    path = Path(path)
    header = parse_object(read_input(path, expected), path)
    version = header.get("format_version")
    if type(version) is not int or "keras_attn" not in header:
        raise ValueError(
            f"Expected {expected} in {path.parent}. Received: a {path.name} of another kind."
        )
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
