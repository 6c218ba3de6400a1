"""Tensors of `tf_model.h5` files, which TensorFlow's models of `transformers` were saved to."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from keras_attn.input_files import undamaged
from keras_attn.interop.tensor_files import INDEX, WEIGHTS, StoredTensor, stored_tensors

H5_WEIGHTS = "tf_model.h5"
_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16"}
_LEAVES = {"kernel": "weight", "embeddings": "weight", "gamma": "weight", "beta": "bias"}


class H5Tensor(StoredTensor):
    """A tensor of an HDF5 file that is not read yet; matrices are `(outputs, inputs)`."""

    def read(self) -> np.ndarray:
        """Reads the tensor as float32."""
        import h5py

        self.check_dtype()
        path = f"{self.file}: {self.name}"
        with undamaged(path, "numbers that can be read"), h5py.File(self.file, "r") as file:
            array = np.asarray(file[self.name], np.float32)
        return np.ascontiguousarray(array.T) if _is_turned(self.name) else array


def h5_tensors(path: Path) -> dict[str, StoredTensor]:
    """Returns the tensors of a file, keyed by PyTorch names such as `model.decoder.fc1.weight`.

    A name in the file is the group of a layer, the name of the model and the path of the weight:
    `model/tf_marian_mt_model/model/decoder/layers.0/fc1/kernel:0`.
    """
    import h5py

    items: dict[str, tuple[str, tuple[int, ...], bool] | None] = {}
    with undamaged(str(path), "a whole HDF5 file"), h5py.File(path, "r") as file:
        file.visititems(lambda name, item: items.update({name: _entry(item)}))
    found: dict[str, StoredTensor] = {}
    for name, entry in items.items():
        if entry is None:
            continue
        dtype, shape, outside = entry
        if outside:
            raise ValueError(
                f"{path}: {name} must be in this file. Received: a link to another file."
            )
        plain = _plain_name(name)
        if plain in found:
            raise ValueError(f"{path}: {name} is also stored as {found[plain].name}.")
        shape = shape[::-1] if _is_turned(name) else shape
        found[plain] = H5Tensor(path, name, _DTYPES.get(dtype, dtype), shape, 0)
    return found


def stored_anyhow(folder: Path) -> dict[str, StoredTensor]:
    """Returns the tensors of a folder, from safetensors or, if there are none, `tf_model.h5`."""
    safe = (folder / WEIGHTS).is_file() or (folder / INDEX).is_file()
    if safe or not (folder / H5_WEIGHTS).is_file():
        return stored_tensors(folder)
    return h5_tensors(folder / H5_WEIGHTS)


def _entry(item: object) -> tuple[str, tuple[int, ...], bool] | None:
    """Returns dtype and shape of a dataset, and whether its numbers are in another file."""
    import h5py

    if not isinstance(item, h5py.Dataset):
        return None
    return item.dtype.name, item.shape or (), bool(item.external or item.is_virtual)


def _is_turned(name: str) -> bool:
    return name.rpartition("/")[2].partition(":")[0] == "kernel"


def _plain_name(name: str) -> str:
    """Returns the name that PyTorch gives to a tensor.

    It is `model.shared.weight` for `model/model.shared/model.shared/weight:0`.
    """
    parts = name.split("/")
    *layers, leaf = parts[2:] or parts[-1:]
    leaf = leaf.partition(":")[0]
    return ".".join([*layers, _LEAVES.get(leaf, leaf)])
