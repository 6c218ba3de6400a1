"""Headers and tensors of the safetensors files of a folder, checked before anything is read."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from keras_attn.input_files import is_plain_name
from keras_attn.interop.json_files import parse_object, read_object

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16}
_SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
_LONGEST_HEADER = 100_000_000  # the limit of the format


class StoredTensor(NamedTuple):
    """A tensor in a file that is not read yet."""

    file: Path
    """The file."""
    name: str
    """Name of the tensor in the file."""
    dtype: str
    """Dtype of the tensor, as named in the format."""
    shape: tuple[int, ...]
    """Shape of the tensor."""
    start: int
    """Position of the tensor's first byte in the file."""

    def check_dtype(self) -> None:
        """Raises a ValueError if the dtype is not a supported floating-point dtype."""
        if self.dtype not in _FLOATS:
            raise ValueError(
                f"{self.file}: {self.name} must have one of the dtypes {list(_FLOATS)}. Received: "
                f"{self.dtype}."
            )

    def read(self) -> np.ndarray:
        """Reads the tensor as float32."""
        self.check_dtype()
        count = math.prod(self.shape)
        with open(self.file, "rb") as file:
            file.seek(self.start)
            array = np.fromfile(file, np.dtype(_FLOATS[self.dtype]), count)
        if array.size < count:
            raise ValueError(f"{self.file}: {self.name} is cut off.")
        return array.astype(np.float32, copy=False).reshape(self.shape)


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Returns the tensors in `model.safetensors`, or in several files with an index, by name."""
    if (folder / WEIGHTS).is_file():
        return _read_header(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return _read_index(folder)
    pickled = (folder / "pytorch_model.bin").exists()
    found = "only pytorch_model.bin, which can run code when it is read" if pickled else "neither"
    raise FileNotFoundError(
        f"Expected {WEIGHTS}, or {INDEX} with its files. Received: {folder}, with {found}. If the "
        "model has only a pytorch_model.bin, load it with transformers and write it again: "
        "`AutoModel.from_pretrained(place).save_pretrained(folder, safe_serialization=True)`, with "
        "the class of its head instead of AutoModel if it has one."
    )


def _read_index(folder: Path) -> dict[str, StoredTensor]:
    """Reads the headers of the files that an index names."""
    index = folder / INDEX
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{index} must have a `weight_map`. Received: {_short(places)}.")
    for name, file in places.items():
        named = isinstance(file, str) and file.endswith(".safetensors")
        if not named or not is_plain_name(file):
            raise ValueError(
                f"{index} must name files of its own folder that end in .safetensors. Received: "
                f"{_short(file)} for {name}."
            )
    found: dict[str, StoredTensor] = {}
    for file in sorted(set(places.values())):
        if not (folder / file).is_file():
            raise ValueError(f"{index} names {file}, which is not in the folder.")
        for name, tensor in _read_header(folder / file).items():
            if name in found:
                raise ValueError(f"{folder / file}: {name} is also in {found[name].file}.")
            found[name] = tensor
    for name, file in places.items():
        if name not in found or found[name].file.name != file:
            raise ValueError(f"{index} says that {name} is in {file}, which does not have it.")
    return found


def _read_header(path: Path) -> dict[str, StoredTensor]:
    """Reads the header of a file, and checks that it describes the whole file."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if length < 2 or length > min(size - 8, _LONGEST_HEADER):
            what = f"{size} bytes with a header of {length}"
            if start == b"version ":  # its text is short, and begins with where it is defined
                what = "a pointer of Git LFS, not the file itself (`git lfs pull` downloads it)"
            raise ValueError(f"Expected a whole safetensors file. Received: {path}, {what}.")
        header = parse_object(file.read(length), f"the header of {path}")
    header.pop("__metadata__", None)
    data = size - 8 - length
    found, places = {}, []
    for name, entry in header.items():
        dtype, shape, (begin, end) = _entry(path, name, entry)
        needed = math.prod(shape) * _SIZES[dtype]
        if not 0 <= begin <= end <= data or end - begin != needed:
            raise ValueError(
                f"{path}: {name} of dtype {dtype} and shape {_short(list(shape))} has "
                f"{_short(needed)} bytes. Received: offsets {_short([begin, end])} in {data} bytes."
            )
        found[name] = StoredTensor(path, name, dtype, shape, 8 + length + begin)
        places.append((begin, end, name))
    last = 0
    for begin, end, name in sorted(places):
        if begin != last:
            raise ValueError(
                f"{path}: {name} {'overlaps' if begin < last else 'leaves a hole after'} the "
                f"tensor before it. Received: offsets {[begin, end]}, expected {last} as the first."
            )
        last = end
    if last != data:
        raise ValueError(f"{path} has {data - last} bytes after its last tensor.")
    return found


def _entry(path: Path, name: str, entry: object) -> tuple[str, tuple[int, ...], list[int]]:
    """Returns dtype, shape and offsets of an entry of a header."""

    def sizes(value: object) -> bool:
        return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)

    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{path}: {name} must have a dtype, a shape and offsets. {_short(entry)}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _SIZES:
        raise ValueError(
            f"{path}: {name} must have one of the dtypes {list(_SIZES)}. Received: {_short(dtype)}."
        )
    if not sizes(shape) or not sizes(offsets) or len(offsets) != 2:
        raise ValueError(
            f"{path}: {name} must have a shape and two offsets, of integers. Received: "
            f"shape={_short(shape)}, data_offsets={_short(offsets)}."
        )
    return dtype, tuple(shape), offsets


def _short(value: object) -> str:
    """Writes a value of a file for a message."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number that is far too large"
    return text if len(text) <= 80 else f"{text[:77]}..."
