"""One file for a task: settings, tokenizers and weights, with a format version."""

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn.files import atomic_write, check_format, reserve
from keras_attn.layers.quantization import quantize_sublayers, quantized_sublayers
from keras_attn.version import __version__

FORMAT_VERSION = 2  # 2: quantized weights; without them files are of 1
_SETTINGS = "task.json"
_WEIGHTS = "model.weights.h5"


def save_task(path: str | os.PathLike, task: str, config: dict[str, Any], model: Any) -> None:
    """Writes a task to one file; the file that was there is replaced only by a whole one.

    Args:
        path: The file; its folder must be there.
        task: Name of the task's class.
        config: JSON-safe settings from which the task is made again.
        model: The Keras model; its weights are written, for any backend.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file's path. Received: {path}, a folder.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"The folder of the file must be there. Received: {path}.")
    quantization = quantized_sublayers(model)
    header = {
        "format_version": FORMAT_VERSION if quantization else 1,
        "keras_attn": __version__,
        "keras": keras.__version__,
        "task": task,
        "config": config,
        **({"quantization": quantization} if quantization else {}),
    }
    with atomic_write(path) as partial:
        weights = partial.with_name(f"{partial.name}-{_WEIGHTS}")
        # HDF5 crashes the process when the disk is full. Twice: the weights, and their archive.
        size = sum(int(np.prod(v.shape)) * 4 for v in model.variables)
        reserve(weights, 2 * size + 2**20)
        try:
            model.save_weights(weights)
            with zipfile.ZipFile(partial, "w") as archive:
                text = json.dumps(header, ensure_ascii=False)
                archive.writestr(_SETTINGS, text, zipfile.ZIP_DEFLATED)
                archive.write(weights, _WEIGHTS)  # floats hardly compress
        finally:
            weights.unlink(missing_ok=True)


def read_config(path: str | os.PathLike, task: str) -> dict[str, Any]:
    """Reads the settings of a task's file.

    Args:
        path: The file.
        task: Name of the task's class that is wanted.

    Returns:
        The settings that `save_task` was given.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no file of this task, or of a newer format.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "nothing"
        raise FileNotFoundError(f"Expected a saved task, a file, at {path}. There is {kind}.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"Expected a file written by `{task}.save`. Received: {path}.")
    header = _header(path, task)
    check_format(path, header, FORMAT_VERSION)
    if header["task"] != task:
        raise ValueError(f"{path} holds a {header['task']}. Expected: a {task}.")
    return header["config"]


def _header(path: Path, task: str) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        if not {_SETTINGS, _WEIGHTS} <= set(archive.namelist()):
            raise ValueError(
                f"Expected a file written by `{task}.save`. Received: {path}, an archive of "
                f"{archive.namelist()[:5]}."
            )
        return json.loads(archive.read(_SETTINGS))


def load_weights(path: str | os.PathLike, model: Any) -> None:
    """Loads the weights of a task's file into its model, which it quantizes as they are."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(Path(path).expanduser()) as archive:
            archive.extract(_WEIGHTS, folder)
            header = json.loads(archive.read(_SETTINGS))
        quantize_sublayers(model, header.get("quantization", {}))
        model.load_weights(Path(folder) / _WEIGHTS)
