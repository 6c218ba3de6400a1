"""Conversion of the weights of a model to named tensors and back."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import keras
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from keras_attn.input_files import undamaged
from keras_attn.layers.quantization import sublayers

_DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
_FIRST = ("kernel", "embeddings")  # what a layer calls the weight that Keras saves as "0"


class LoadReport(NamedTuple):
    """The names of tensors that a model loaded from a file, and of tensors that it did not load.

    Example:

    >>> report = LoadReport(["encoder/kernel"], ["head/kernel"], ["decoder/kernel"])
    >>> print(report)
    loaded: 1 tensors of encoder
    new and random: 1 tensors of head
    left over in the file: 1 tensors of decoder
    """

    loaded: list[str]
    """Names of the tensors that were loaded."""
    new: list[str]
    """Names of the model's tensors that were not loaded and are unchanged. A layer is not loaded if
    the file lacks one of its tensors, or has it in another shape."""
    left_over: list[str]
    """Names of the file's tensors that were not loaded."""

    def __str__(self) -> str:
        titles = ("loaded", "new and random", "left over in the file")
        lines = []
        for title, names in zip(titles, self, strict=True):
            parts = dict.fromkeys(name.split("/")[0] for name in names)
            of = f" of {', '.join(parts)}" if parts else ""
            lines.append(f"{title}: {len(names):,} tensors{of}")
        return "\n".join(lines)


def _layers_with_weights(model: keras.Model) -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Yields the path of each layer, the layer, and names for the entries that Keras saves."""
    for path, layer in sublayers(model):
        store: dict[str, Any] = {}
        layer.save_own_variables(store)
        if not store:
            continue
        own = [*layer._trainable_variables, *layer._non_trainable_variables]
        names = {}
        for key, value in store.items():
            variable = next((v for v in own if v is value), None)
            if variable is not None:
                names[key] = variable.name
            else:  # LoRA merges its factors into what is saved
                names[key] = next((n for n in _FIRST if key == "0" and hasattr(layer, n)), key)
        if len(set(names.values())) < len(names):
            names = {key: f"{name}_{key}" for key, name in names.items()}
        yield path, layer, names


def model_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the weights of a model, keyed by names that do not depend on Keras' automatic names.

    A name is the path of a layer and the name of its variable: `encoder/block_0/norm/gamma`. States
    of seed generators are left out.
    """
    found = {}
    for path, layer, names in _layers_with_weights(model):
        store: dict[str, Any] = {}
        layer.save_own_variables(store)
        for key, value in store.items():
            found[f"{path}/{names[key]}"] = np.asarray(keras.ops.convert_to_numpy(value))
    return found


def load_tensors(
    model: keras.Model,
    tensors: Mapping[str, np.ndarray],
    strict: bool = True,
    other_names: Mapping[str, tuple[str, ...]] | None = None,
) -> LoadReport:
    """Loads tensors with the names of `model_tensors` into a built model.

    If `strict` is False, a layer is only loaded if the file has all of its tensors with the right
    shapes. `other_names` maps the first part of a path to alternatives, such as `{"embedding":
    ("source_embedding",)}`.
    """
    loaded, new, used, ready = [], [], set(), []
    problems = []
    for path, layer, names in list(_layers_with_weights(model)):
        store: dict[str, Any] = {}
        layer.save_own_variables(store)
        first, _, rest = path.partition("/")
        for start in (first, *(other_names or {}).get(first, ())):
            place = f"{start}/{rest}" if rest else start
            found = {key: tensors.get(f"{place}/{name}") for key, name in names.items()}
            if all(value is not None for value in found.values()):
                break
        wrong = {
            f"{place}/{names[key]}": (tuple(value.shape), tuple(store[key].shape))
            for key, value in found.items()
            if value is not None and tuple(value.shape) != tuple(store[key].shape)
        }
        missing = [f"{path}/{names[key]}" for key, value in found.items() if value is None]
        if missing or wrong:
            new += [f"{path}/{name}" for name in names.values()]
            problems += [f"{name} is missing" for name in missing]
            problems += [f"{n} has shape {a}, not {b}" for n, (a, b) in wrong.items()]
            if strict:  # what is there is no problem of its own
                used |= {f"{place}/{names[key]}" for key in found}
            continue
        ready.append((layer, found))
        loaded += [f"{path}/{name}" for name in names.values()]
        used |= {f"{place}/{name}" for name in names.values()}
    left_over = [name for name in tensors if name not in used]
    if strict and (problems or left_over):
        problems += [f"{name} is not of the model" for name in left_over]
        raise ValueError(
            f"Expected the weights of {model.name!r}. Received: {len(problems)} tensors that do "
            f"not fit: {'; '.join(problems[:5])}{'; ...' if len(problems) > 5 else ''}."
        )
    for layer, found in ready:
        layer.load_own_variables(found)
    return LoadReport(loaded, new, left_over)


def check_finite(tensors: Mapping[str, np.ndarray], what: str) -> None:
    """Raises a ValueError if weights contain NaN or infinity."""
    for name, array in tensors.items():
        floats = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
        if not floats or (finite := np.isfinite(array)).all():
            continue
        raise ValueError(
            f"{what}: {name!r} has {array.size - finite.sum():,} of {array.size:,} numbers that "
            "are not finite."
        )


def weights_checksum(model: keras.Model) -> int:
    """Returns the CRC-32 checksum of all weights of a model."""
    found = 0
    for weight in model.weights:
        values = np.ascontiguousarray(keras.ops.convert_to_numpy(weight))
        found = zlib.crc32(values.reshape(-1).view("uint8").data, found)
    return found


def to_bytes(tensors: Mapping[str, np.ndarray], **notes: str) -> bytes:
    """Encodes tensors as the bytes of a safetensors file."""
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    return safetensors.numpy.save(arrays, {"format": "keras", **notes})


def from_bytes(data: bytes, where: str = "The file") -> dict[str, np.ndarray]:
    """Reads the tensors of a safetensors file, keyed by name, from its bytes."""
    with undamaged(where, "a whole safetensors file"):
        entries = safetensors.deserialize(data)
    found = {}
    for name, entry in sorted(entries, key=lambda entry: entry[0]):
        if entry["dtype"] not in _DTYPES:
            raise ValueError(
                f"{where}: {name} has dtype {entry['dtype']}, which keras_attn does not support."
            )
        array = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]])
        found[name] = array.reshape(entry["shape"])
    return found
