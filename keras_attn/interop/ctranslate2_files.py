"""Variables of CTranslate2's `model.bin`, checked before a number of them is read."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

MODEL = "model.bin"
VERSIONS = range(2, 7)
"""The versions of the file that are read."""
_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_BY_SIZE = {1: "int8", 2: "int16", 4: "float32"}
"""The types of files before version 4, which say how long a number is."""
_LARGEST_RANK = 8
_SCALE = "_scale"
_OLD_SCALE = 1000.0  # of int16 without a scale
_ROWS = 4096


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of a `model.bin` whose numbers are not read yet."""

    file: Path
    """The file."""
    name: str
    """Name of the variable in the file."""
    dtype: str
    """Dtype of the numbers."""
    shape: tuple[int, ...]
    """Shape of the variable."""
    start: int
    """Position of the variable's first byte in the file."""

    def numbers(self) -> np.ndarray:
        """Reads the numbers in the dtype in which they are stored."""
        count, dtype = math.prod(self.shape), np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        with open(self.file, "rb") as file:
            file.seek(self.start)
            array = np.fromfile(file, dtype.newbyteorder("<"), count)
        if array.size < count:
            raise ValueError(f"{self.file}: {self.name} is cut off.")
        return array.reshape(self.shape)


class ModelFile(NamedTuple):
    """The header of a `model.bin`."""

    path: Path
    """The file."""
    version: int
    """Version of the format."""
    spec: str
    """Name of the specification of the model."""
    revision: int
    """Revision of the specification."""
    variables: dict[str, Variable]
    """The variables, keyed by name and by alias."""

    def number(self, *names: str) -> float | None:
        """Returns the number in the first variable that exists; None if none of `names` exists."""
        found = next((self.variables[name] for name in names if name in self.variables), None)
        if found is None:
            return None
        values = found.numbers().astype("float64") if math.prod(found.shape) == 1 else np.ones(2)
        if len(values.ravel()) != 1 or not np.isfinite(values).all():
            raise ValueError(
                f"{self.path}: {found.name} must be one finite number. Received: shape "
                f"{found.shape}."
            )
        return float(values.ravel()[0])

    def weights(self, name: str) -> np.ndarray:
        """Reads a variable as float32, and divides numbers of int8 and int16 by their scales.

        weight[i] = integer[i] / scale        scale: of each row, or of all
        """
        variable = self.variables[name]
        numbers = variable.numbers()
        if variable.dtype not in ("int8", "int16"):
            return numbers.astype(np.float32, copy=False)
        scale = self.variables.get(variable.name + _SCALE)  # of an alias, too
        if scale is None and variable.dtype == "int8":
            raise ValueError(f"{self.path}: {name} has int8 numbers, but there is no {name}_scale.")
        factors = np.array(_OLD_SCALE) if scale is None else scale.numbers().astype(np.float32)
        fits = factors.shape in ((), (1,)) or factors.shape == variable.shape[:1]
        if not fits or not np.isfinite(factors).all() or not (factors > 0).all():
            raise ValueError(
                f"{self.path}: {name}{_SCALE} must have a finite number above 0 for each of "
                f"{variable.shape[:1]} rows, or one for all. Received: shape {factors.shape} with "
                f"{factors.ravel()[:3]!s}."
            )
        found = np.empty(variable.shape, np.float32)
        factors = np.broadcast_to(factors.reshape(-1), variable.shape[:1])
        for start in range(0, len(found), _ROWS):  # no second array of the same size
            rows = slice(start, start + _ROWS)
            shape = (-1,) + (1,) * (len(variable.shape) - 1)
            np.divide(numbers[rows], factors[rows].reshape(shape), out=found[rows])
        return found


def read_model_file(path: Path) -> ModelFile:
    """Reads the header of a `model.bin` of version 2 to 6, which must describe the whole file."""
    with open(path, "rb") as file:
        header = _Header(path, file)
        version = header.integer("<I", "its version")
        if version not in VERSIONS:
            raise ValueError(
                f"Expected a model.bin of CTranslate2, of version {VERSIONS[0]} to {VERSIONS[-1]}. "
                f"Received: {path}, which begins with {version}. " + _why_not(version)
            )
        spec = header.text("the name of its specification")
        revision = header.integer("<I", "the revision of its specification")
        variables = {}
        for number in range(header.integer("<I", "the number of its variables")):
            name = header.text(f"the name of variable {number}")
            if name in variables:
                raise ValueError(f"{path}: the name {name} occurs twice.")
            variables[name] = header.variable(name, version)
        found = dict(variables)
        for alias, name in header.aliases(version):
            if alias in found or name not in variables:
                raise ValueError(
                    f"{path}: the alias {alias} must be a new name for an existing variable. "
                    f"Received: {alias} for {name}."
                )
            found[alias] = variables[name]
        header.check_end()
    return ModelFile(path, version, spec, revision, found)


def _why_not(version: int) -> str:
    if version == int.from_bytes(b"vers", "little"):
        return "It is a pointer of Git LFS, not the file itself (`git lfs pull` downloads it)."
    return "Convert the model again with the converter of the library that trained it."


class _Header:
    """Reads one part of a header after another, each checked against what is left of the file."""

    def __init__(self, path: Path, file: BinaryIO):
        self.path, self.file = path, file
        self.left = path.stat().st_size

    def taken(self, count: int, what: str) -> bytes:
        if count > self.left:
            raise ValueError(
                f"{self.path} is cut off: expected {count} more bytes for {what}. Received: "
                f"{self.left} bytes."
            )
        self.left -= count
        return self.file.read(count)

    def integer(self, form: str, what: str) -> int:
        return struct.unpack(form, self.taken(struct.calcsize(form), what))[0]

    def text(self, what: str) -> str:
        found = self.taken(self.integer("<H", what), what)
        try:
            text = found.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        if not text.endswith("\0") or len(text) < 2 or not text[:-1].isprintable():
            raise ValueError(f"{self.path}: {what} must be text. Received: {found[:40]!r}.")
        return text[:-1]

    def variable(self, name: str, version: int) -> Variable:
        what = f"the shape of {name}"
        rank = self.integer("<B", what)
        if rank > _LARGEST_RANK:
            raise ValueError(f"{self.path}: {name} must have a rank up to 8. Received: {rank}.")
        shape = tuple(self.integer("<I", what) for _ in range(rank))
        kind, size = self.integer("<B", what), self.integer("<I", what)
        if version >= 4:
            dtype = _TYPES[kind] if kind < len(_TYPES) else None
        else:
            dtype, size = _BY_SIZE.get(kind), size * kind
        if dtype is None:
            raise ValueError(f"{self.path}: {name} has numbers of an unknown type {kind}.")
        bits = 16 if dtype == "bfloat16" else 8 * np.dtype(dtype).itemsize
        needed = math.prod(shape) * bits // 8
        if needed != size:
            raise ValueError(
                f"{self.path}: {name} of type {dtype} and shape {shape} has {needed} bytes. "
                f"Received: {size}."
            )
        start = self.file.tell()
        if size > self.left:
            raise ValueError(
                f"{self.path} is cut off: {name} has {size} bytes. Received: {self.left}."
            )
        self.left -= size
        self.file.seek(size, 1)
        return Variable(self.path, name, dtype, shape, start)

    def aliases(self, version: int) -> Iterator[tuple[str, str]]:
        if version >= 3:
            for number in range(self.integer("<I", "the number of its aliases")):
                what = f"alias {number}"
                yield self.text(what), self.text(what)

    def check_end(self) -> None:
        if self.left:
            raise ValueError(f"{self.path} has {self.left} bytes after its last part.")
