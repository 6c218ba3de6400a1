"""Task files: settings, tokenizers and weights, with a format version."""

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_attn import trained
from keras_attn.archives import Archive, open_archive
from keras_attn.files import atomic_write, check_format, remove_partial_files
from keras_attn.input_files import kind_of, refuse_damaged
from keras_attn.layers.quantization import quantize_sublayers, quantized_sublayers
from keras_attn.models.tensors import (
    check_finite,
    from_bytes,
    load_tensors,
    model_tensors,
    to_bytes,
)
from keras_attn.models.weight_limits import check_num_layers, limited_weights
from keras_attn.version import __version__

FORMAT_VERSION = 4
_SETTINGS = "task.json"
_WEIGHTS = "model.safetensors"
_ENTRIES = ("format_version", "keras_attn", "task", "config")

# What settings of a damaged file lead to; a lack of memory or of a package is none of these.
_WRONG = (
    LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError,
    NotImplementedError,
)  # fmt: skip


def save_task(path: str | os.PathLike, task: str, config: dict[str, Any], model: Any) -> None:
    """Writes a task to a file atomically."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(
            f"Expected the path of a file. Received: {path}, which is a folder."
        )
    if path.suffix in (".keras", ".h5"):
        raise ValueError(
            f"Expected a file such as {path.with_suffix('').stem}.task, which contains the "
            f"tokenizer and the labels in addition to the model. Received: {path}, which is "
            "the name of a Keras file. `task.model.save(...)` writes only the Keras model."
        )
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"The folder of the file must exist. Received: {path}.")
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
    tensors = model_tensors(model)
    check_finite(tensors, f"{path} is not written, because the training diverged")
    weights = to_bytes(tensors, keras_attn=__version__)
    remove_partial_files(path)
    with atomic_write(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr(_SETTINGS, text, zipfile.ZIP_DEFLATED)
        archive.writestr(_WEIGHTS, weights)  # floats hardly compress


def _open(path: str | os.PathLike, task: str | None = None) -> AbstractContextManager[Archive]:
    path = Path(path).expanduser()
    kind = kind_of(path)
    if kind in ("nothing", "a folder"):
        raise FileNotFoundError(
            f"Expected a saved task, a file, at {path}. There is {kind}. Models that come with the "
            f"package: {', '.join(trained.names())}."
        )
    return open_archive(path, f"a saved task, a file written by `{task or 'Task'}.save`")


def _settings(archive: Archive, task: str | None) -> dict[str, Any]:
    """Reads the settings of an archive."""
    path = archive.path
    header = _header(archive)
    check_format(path, header, FORMAT_VERSION)
    if header["format_version"] < FORMAT_VERSION:
        raise ValueError(
            f"Expected a file of format {FORMAT_VERSION}. Received: {path} of format "
            f"{header['format_version']}, written by keras_attn {header['keras_attn']} before its "
            "first release. Train it again."
        )
    if task is not None and header["task"] != task:
        raise ValueError(f"{path} holds a {header['task']}. Expected: a {task}.")
    if not isinstance(header["config"], dict):
        refuse_damaged(path, f"its config is a {type(header['config']).__name__}")
    return header


def _header(archive: Archive) -> dict[str, Any]:
    if _SETTINGS not in archive.names:
        raise ValueError(
            f"Expected {archive.expected}. Received: {archive.path}, an archive with "
            f"{archive.names[:5]}."
        )
    header = archive.json(_SETTINGS)
    known = header.get("format_version") == FORMAT_VERSION
    missing = [name for name in (_ENTRIES if known else _ENTRIES[:1]) if name not in header]
    if missing:
        raise ValueError(
            f"Expected {archive.expected}. Received: {archive.path}, whose {_SETTINGS} lacks "
            f"{missing}."
        )
    return header


def read_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the weights of a task's file."""
    with _open(path) as archive:
        return _tensors(archive)


def _tensors(archive: Archive) -> dict[str, np.ndarray]:
    if _WEIGHTS not in archive.names:
        raise ValueError(
            f"Expected weights in {archive.path}. Received: an archive without {_WEIGHTS}."
        )
    tensors = from_bytes(archive.read(_WEIGHTS), str(archive.path))
    check_finite(tensors, f"{archive.path} cannot be used")
    return tensors


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Adds the name of the file to errors about settings or weights."""
    try:
        yield
    except _WRONG as error:
        what = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else f"{error}"
        raise ValueError(
            "Expected a saved task whose settings and weights belong together. Received: "
            f"{path}, where they do not ({what[:1000]}). The file is damaged, or from "
            "another version."
        ) from error


class SavedTask(NamedTuple):
    """The contents of a task file."""

    path: Path
    """The file."""
    config: dict[str, Any]
    """The settings that were passed to `save_task`."""
    quantization: dict[str, Any]
    """How layers are quantized; see `quantize_sublayers`."""
    tensors: dict[str, np.ndarray]
    """The weights, keyed by name."""

    def make(self, make: Callable[[dict[str, Any]], Any]) -> Any:
        """Calls `make` with the settings; raises a ValueError if they need too many weights."""
        with _naming(self.path), limited_weights(len(self.tensors), self._numbers):
            check_num_layers(self.config, len(self.tensors))
            return make(self.config)

    def check(self, build: Callable[[dict[str, Any]], Any]) -> Any:
        """Calls `build` like `make`, and keeps none of the weights that are created."""
        with _naming(self.path), limited_weights(len(self.tensors), self._numbers, keep=False):
            check_num_layers(self.config, len(self.tensors))
            return build(self.config)

    @property
    def _numbers(self) -> int:
        return sum(array.size for array in self.tensors.values())

    def load_into(self, model: Any) -> None:
        """Quantizes a model like the saved one, and loads the weights."""
        with _naming(self.path):
            quantize_sublayers(model, self.quantization)
            load_tensors(model, self.tensors)


def task_of(path: str | os.PathLike, task: str | None = None) -> str:
    """Returns the class name in a task file, which must be `task` if this is given."""
    with _open(path, task) as archive:
        return str(_settings(archive, task)["task"])


def config_of(path: str | os.PathLike, task: str) -> dict[str, Any]:
    """Reads the settings of a task's file, without its weights."""
    with _open(path, task) as archive:
        return dict(_settings(archive, task)["config"])


def read_task(path: str | os.PathLike, task: str | None) -> SavedTask:
    """Reads a task file, whose class must be `task` if this is given."""
    with _open(path, task) as archive:
        header = _settings(archive, task)
        quantization = header.get("quantization", {})
        return SavedTask(archive.path, header["config"], quantization, _tensors(archive))


def load_weights(path: str | os.PathLike, model: Any) -> None:
    """Loads the weights of a task file into its model, which it first quantizes if necessary."""
    read_task(path, None).load_into(model)
