"""Archives and arrays of NumPy, read with checks of their sizes and without pickle."""

from __future__ import annotations

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from keras_attn.input_files import input_file, parse_object, refuse_damaged, undamaged

_MEMBER = b"PK\x03\x04"
_LARGEST = 100_000_000
"""Bytes of a compressed member: settings are, weights are not."""


class Archive:
    """A zip archive written by this package, opened by `open_archive`."""

    def __init__(self, path: Path, expected: str, archive: zipfile.ZipFile, largest: int):
        self.path = path
        self.expected = expected
        self._largest = largest
        self._archive = archive
        self._members = {info.filename: info for info in archive.infolist()}

    @property
    def names(self) -> list[str]:
        """Names of the members."""
        return list(self._members)

    def arrays(self) -> list[str]:
        """Returns the names of the arrays that `numpy.savez` wrote."""
        return [name.removesuffix(".npy") for name in self._members if name.endswith(".npy")]

    def read(self, name: str) -> bytes:
        """Reads a complete member, and verifies its checksum."""
        if name not in self._members:
            self._refuse(f"it lacks {name}")
        info = self._members[name]
        stored = info.compress_type == zipfile.ZIP_STORED
        size, room = info.file_size, self.path.stat().st_size if stored else self._largest
        if size > room:
            self._refuse(f"{name} would take {size:,} bytes, of at most {room:,}")
        with undamaged(self.path, self.expected), self._archive.open(info) as file:
            data = file.read(size)  # a number limits what is inflated at once
        if len(data) != size:
            self._refuse(f"{name} has {len(data):,} of {size:,} bytes")
        return data

    def _refuse(self, what: str) -> NoReturn:
        refuse_damaged(self.path, what, self.expected)

    def array(self, name: str) -> np.ndarray:
        """Reads the array with a given name."""
        return parse_array(self.read(f"{name}.npy"), self.path, self.expected)

    def json(self, name: str) -> dict[str, Any]:
        """Reads the member with a given name as a JSON object."""
        return parse_object(self.read(name), self.path, f"{self.expected}, with {name}")


@contextlib.contextmanager
def open_archive(
    path: str | os.PathLike[str], expected: str, largest: int = _LARGEST
) -> Iterator[Archive]:
    """Opens a zip archive, after checking its format and the sizes of its members."""
    path = input_file(path, expected)
    if not is_archive(path):
        raise ValueError(
            f"Expected {expected}. Received: {path}, which is another kind of file or damaged."
        )
    with undamaged(path, expected):
        archive = zipfile.ZipFile(path)
    with archive:
        yield Archive(path, expected, archive, largest)


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Returns whether a regular file begins or ends like a zip archive."""
    with open(path, "rb") as file:
        return file.read(len(_MEMBER)) == _MEMBER or zipfile.is_zipfile(file)


def parse_array(data: bytes, path: Path, expected: str) -> np.ndarray:
    """Decodes a NumPy array from the bytes of a `.npy` file."""
    file = io.BytesIO(data)
    with undamaged(path, expected):
        shape, dtype = array_header(file)
        needed = math.prod(shape) * dtype.itemsize
        if needed != len(data) - file.tell():
            raise ValueError(f"{len(data) - file.tell():,} bytes of an array of {needed:,}")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def map_array(path: str | os.PathLike[str], expected: str) -> np.ndarray:
    """Maps the array of a `.npy` file into memory; each part is read when it is used."""
    path = input_file(path, expected)
    with undamaged(path, expected):
        with open(path, "rb") as file:
            shape, dtype = array_header(file)
            rest = path.stat().st_size - file.tell()
        needed = math.prod(shape) * dtype.itemsize
        if needed != rest:
            raise ValueError(f"{rest:,} bytes of an array of {needed:,}")
        return np.load(path, mmap_mode="r" if needed else None, allow_pickle=False)


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
    """Reads the shape and dtype in the header of a `.npy` file."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"an array of version {version}")
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which are not read")
    return shape, dtype
