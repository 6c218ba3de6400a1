"""One file for a task: settings, tokenizers and weights, with a format version."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn import trained
from keras_attn.files import atomic_write, check_format, whole
from keras_attn.layers.quantization import quantize_sublayers, quantized_sublayers
from keras_attn.models.tensors import from_bytes, load_tensors, model_tensors, to_bytes
from keras_attn.version import __version__

FORMAT_VERSION = 3
_SETTINGS = "task.json"
_WEIGHTS = "model.safetensors"
_ENTRIES = ("format_version", "keras_attn", "task", "config")


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
        "format_version": FORMAT_VERSION,
        "keras_attn": __version__,
        "keras": keras.__version__,
        "task": task,
        "config": config,
        **({"quantization": quantization} if quantization else {}),
    }
    text = json.dumps(header)  # ASCII, as a lone surrogate in a name has no UTF-8
    weights = to_bytes(model_tensors(model), keras_attn=__version__)
    with atomic_write(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr(_SETTINGS, text, zipfile.ZIP_DEFLATED)
        archive.writestr(_WEIGHTS, weights)  # floats hardly compress


def read_config(path: str | os.PathLike, task: str | None) -> dict[str, Any]:
    """Reads the settings of a task's file.

    Args:
        path: The file.
        task: Name of the task's class that is wanted; None: any.

    Returns:
        The settings that `save_task` was given.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no file of this task, or of a newer format.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "nothing"
        raise FileNotFoundError(
            f"Expected a saved task, a file, at {path}. There is {kind}. Models that come with the "
            f"package: {', '.join(trained.names())}."
        )
    if not zipfile.is_zipfile(path):
        raise ValueError(f"Expected a file written by `{task or 'Task'}.save`. Received: {path}.")
    header = _header(path, task)
    check_format(path, header, FORMAT_VERSION)
    if header["format_version"] < FORMAT_VERSION:
        raise ValueError(
            f"Expected a file of format {FORMAT_VERSION}. Received: {path} of format "
            f"{header['format_version']}, written by keras_attn {header['keras_attn']} before its "
            "first release. Train it again."
        )
    if task is not None and header["task"] != task:
        raise ValueError(f"{path} holds a {header['task']}. Expected: a {task}.")
    return header["config"]


def _header(path: Path, task: str) -> dict[str, Any]:
    with whole(path), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if _SETTINGS not in names:
            raise ValueError(
                f"Expected a file written by `{task or 'Task'}.save`. Received: {path}, an archive "
                f"of {names[:5]}."
            )
        try:
            header = json.loads(archive.read(_SETTINGS))
        except ValueError as error:
            raise ValueError(f"{path} is damaged: its {_SETTINGS} is no JSON: {error}") from error
        known = isinstance(header, dict) and header.get("format_version") == FORMAT_VERSION
        missing = [name for name in (_ENTRIES if known else _ENTRIES[:1]) if name not in header]
        if missing:
            raise ValueError(
                f"Expected a file written by `{task or 'Task'}.save`. Received: {path}, whose "
                f"{_SETTINGS} has not {missing}."
            )
        return header


def read_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the weights of a task's file.

    Args:
        path: The file.

    Returns:
        Arrays by their names.

    Raises:
        ValueError: If the file is damaged.
    """
    path = Path(path).expanduser()
    with whole(path), zipfile.ZipFile(path) as archive:
        if _WEIGHTS not in archive.namelist():
            raise ValueError(f"Expected weights in {path}. Received: none, {_WEIGHTS} is missing.")
        data = archive.read(_WEIGHTS)
    return from_bytes(data, str(path))


def load_weights(path: str | os.PathLike, model: Any) -> None:
    """Loads the weights of a task's file into its model, which it quantizes as they are.

    Args:
        path: The file.
        model: The model, of the same settings.

    Raises:
        ValueError: If the file is damaged, or its weights are not those of the model.
    """
    with whole(path), zipfile.ZipFile(Path(path).expanduser()) as archive:
        header = json.loads(archive.read(_SETTINGS))
    quantize_sublayers(model, header.get("quantization", {}))
    load_tensors(model, read_tensors(path))
