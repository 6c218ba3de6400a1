"""Files with the complete state of a training run, for any backend."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attn.archives import Archive, open_archive
from keras_attn.files import atomic_write, check_format
from keras_attn.input_files import parse_object, refuse_damaged
from keras_attn.training.distribution import whole_value
from keras_attn.training.processes import is_first_process, wait_for_processes
from keras_attn.training.seeding import generator_states, set_generator_states
from keras_attn.version import __version__

STATE_VERSION = 1
_EXPECTED = "a checkpoint"
_HEADER = "header"
_GENERATORS = "generators/"


def save_training_state(
    path: str | os.PathLike, model: keras.Model, notes: dict[str, Any] | None = None
) -> None:
    """Writes the weights, random seeds, optimizer and metrics of a compiled model to a file.

    The state of the optimizer includes its moments, step, moving average of the weights (`use_ema`)
    and accumulated gradients. An existing file is replaced atomically. The format does not depend
    on the number of devices. If there are several processes, all of them must call this function;
    the first process writes the file, and the other processes wait.

    Args:
        path: The file; its folder must exist.
        model: A compiled and built model.
        notes: A dict of JSON-compatible values that `load_training_state` returns; empty if None.

    Raises:
        OSError: If the file cannot be written. An existing file does not change.
        ValueError: If the model is not compiled, or weights are not finite. An existing file does
            not change.

    Example:

    >>> import os, tempfile
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile("adam", "mse")
    >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.npz")
    >>> save_training_state(path, model, {"step": 0})
    >>> load_training_state(path, model)
    {'step': 0}
    """
    groups = _variables(model)
    arrays = {
        f"{name}/{i}": _to_numpy(variable)
        for name, group in groups.items()
        for i, variable in enumerate(group)
    }
    for i, variable in enumerate(groups["model"]):
        if not np.isfinite(arrays[f"model/{i}"]).all():
            raise ValueError(
                f"The weights {variable.path!r} are not finite, because the training "
                "diverged. They are not saved. Lower the learning rate, clip the gradients, "
                "or try another seed."
            )
    header = {
        "format_version": STATE_VERSION,
        "keras_attn": __version__,
        "keras": keras.__version__,
        "optimizer": _optimizer_name(model),
        "variables": {name: [v.path for v in group] for name, group in groups.items()},
        "notes": notes or {},
    }
    arrays |= {f"{_GENERATORS}{name}": state for name, state in generator_states().items()}
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), "uint8")
    if is_first_process():
        with atomic_write(path) as partial, open(partial, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no array has the name of an option
    wait_for_processes()


def read_training_notes(path: str | os.PathLike) -> dict[str, Any]:
    """Reads only the notes of a file written by `save_training_state`.

    Args:
        path: The file.

    Returns:
        The `notes` that were passed to `save_training_state`.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If the file is no training state, is damaged, or has a newer format.

    Example:

    >>> import os, tempfile
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.compile("adam", "mse")
    >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.npz")
    >>> save_training_state(path, model, {"epoch": 3})
    >>> read_training_notes(path)["epoch"]
    3
    """
    with open_archive(path, _EXPECTED) as archive:
        return _header(archive)["notes"]


def load_training_state(path: str | os.PathLike, model: keras.Model) -> dict[str, Any]:
    """Restores a model from a file written by `save_training_state`.

    If anything in the file does not match the model, the model is not changed.

    Args:
        path: The file.
        model: A compiled and built model with the same layers, optimizer and metrics, on any
            backend. The first batch builds metrics, for example in `model.test_on_batch(...)`.

    Returns:
        The `notes` that were passed to `save_training_state`.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If the model is not compiled, or the file is no training state, is damaged, has
            a newer format, or does not match the model.

    Example:

    >>> import os, tempfile
    >>> models = [keras.Sequential([keras.Input((n,)), keras.layers.Dense(2)]) for n in (3, 4)]
    >>> for model in models:
    ...     model.compile("sgd", "mse")
    >>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.npz")
    >>> save_training_state(path, models[0])
    >>> load_training_state(path, models[1])
    Traceback (most recent call last):
        ...
    ValueError: ... does not fit the model...
    """
    path = Path(path)
    groups = _variables(model)
    with open_archive(path, _EXPECTED) as archive:
        header, names = _header(archive), archive.arrays()
        if header["optimizer"] != _optimizer_name(model):
            raise ValueError(
                f"{path} does not fit the model. Expected: the optimizer "
                f"{_optimizer_name(model)}. Received: {header['optimizer']}."
            )
        arrays = {}
        for name, group in groups.items():
            paths = header["variables"].get(name, [])
            if len(paths) != len(group):
                raise ValueError(
                    f"{path} does not fit the model. Expected: {len(group)} variables of its "
                    f"{name}. Received: {len(paths)}. Use the settings that the file was "
                    "saved with."
                )
            for i, variable in enumerate(group):
                if f"{name}/{i}" not in names:
                    raise ValueError(f"{path} is damaged: it lacks {name}/{i}, {paths[i]!r}.")
                value = archive.array(f"{name}/{i}")
                if tuple(value.shape) != tuple(variable.shape):
                    raise ValueError(
                        f"{path} does not fit the model. Expected: shape "
                        f"{tuple(variable.shape)} of {variable.path!r}. Received: shape "
                        f"{tuple(value.shape)} of {paths[i]!r} in its {name}. Use the "
                        "settings that the file was saved with."
                    )
                arrays[name, i] = value
        generators = {
            name.removeprefix(_GENERATORS): archive.array(name)
            for name in names
            if name.startswith(_GENERATORS)
        }
    for name, group in groups.items():
        for i, variable in enumerate(group):
            variable.assign(arrays[name, i])
    set_generator_states(generators)
    return header["notes"]


def _variables(model: keras.Model) -> dict[str, list[keras.Variable]]:
    if not getattr(model, "compiled", False):
        raise ValueError("Expected a compiled model. Received: a model without an optimizer.")
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    return {
        "model": list(model.variables),
        "optimizer": list(model.optimizer.variables),
        "metrics": list(model.metrics_variables),
    }


def _to_numpy(variable: keras.Variable) -> np.ndarray:
    value = whole_value(variable)
    # NumPy files have no bfloat16.
    return value.astype("float32") if value.dtype.name == "bfloat16" else value


def _optimizer_name(model: keras.Model) -> str:
    inner = getattr(model.optimizer, "inner_optimizer", None)
    name = type(model.optimizer).__name__
    return name if inner is None else f"{name}({type(inner).__name__})"


def _header(archive: Archive) -> dict[str, Any]:
    path = archive.path
    if _HEADER not in archive.arrays():
        raise ValueError(
            f"Expected a checkpoint of keras_attn. Received: {path}, which is another kind "
            "of archive."
        )
    header = parse_object(archive.array(_HEADER).tobytes(), path, _EXPECTED)
    check_format(path, header, STATE_VERSION)
    if missing := [name for name in ("optimizer", "variables", "notes") if name not in header]:
        refuse_damaged(path, f"its header has not {missing}", _EXPECTED)
    return header
