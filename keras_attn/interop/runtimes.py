"""Export of Keras models to ONNX Runtime and LiteRT."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_attn.export import run_on_backend
from keras_attn.files import atomic_write
from keras_attn.interop.runtime_files import BACKENDS, FLOAT32, by_name, named_outputs
from keras_attn.packages import check_installed
from keras_attn.progress import tell

FORMATS = tuple(BACKENDS)
_PACKAGES = {
    "onnx": ("torch", "onnx", "onnxscript", "onnxruntime"),
    "litert": ("tensorflow", "ai_edge_litert"),
}
_SCRIPT = """\
import importlib, sys
import keras_attn
for name in sys.argv[5:]:
    importlib.import_module(name)
from keras_attn.interop.runtime_files import write_model
write_model(*sys.argv[1:5])
"""
_OURS = ("keras", "keras_attn")
_ROUNDING = 0.5
"""Largest distance of int8's outputs, as a share of the length of float32's.

It finds a file that is broken, not one that rounds too much: the float32 file is compared exactly.
A real encoder has .3 for odd texts, where logits are small.
"""


def export_model(
    path: str | os.PathLike[str],
    model: keras.Model,
    inputs: Mapping[str, npt.ArrayLike],
    format: str = "onnx",
    *,
    tolerance: float = 1e-4,
) -> None:
    """Exports a Keras model to a file that ONNX Runtime or LiteRT runs.

    The model must take rows of ids, masks or segments, and compute its outputs in one pass, as an
    encoder with heads does. The exported file accepts any number of rows of any length. A separate
    process writes it with the backend that has an exporter for the format: PyTorch for ONNX,
    TensorFlow for LiteRT. Before the file is moved to `path`, its outputs are compared with the
    outputs of the model, for `inputs` and for the first column of their first row, `(1, 1)`.

    Recurrent layers cannot be exported to ONNX, because PyTorch unrolls them for one length.
    Models that generate text are not supported, because they run a step in a loop.

    Args:
        path: The file, such as `"model.onnx"` or `"model.tflite"`. It is written atomically.
        model: A functional model with one input, or a list or dict of inputs. Its layers come from
            Keras and keras_attn, or are registered (`keras.saving.register_keras_serializable`) in
            a module that can be imported.
        inputs: Example inputs, keyed by the keys of the dict or the names of the `keras.Input`s:
            arrays of one shape `(B, T)`, with at least two rows
            and two columns.
        format: `"onnx"`, `"onnx-int8"` or `"litert"`. In `"onnx-int8"`, the weights of matrix
            products are stored as 8-bit integers, and ONNX Runtime rounds the activations to 8 bits
            while it runs (dynamic quantization).
        tolerance: Maximum absolute difference between the outputs of the file and of the model.
            With `format="onnx-int8"`, it applies to the float32 model before quantization; after
            it, the norm of the difference may be at most half the norm of the output.

    Raises:
        ImportError: If the packages of the format are not installed.
        RuntimeError: If the model cannot be exported, or the outputs of the file differ from the
            outputs of the model.
        ValueError: If the format is unknown, `inputs` are not the inputs of the model or do not
            have one shape `(B, T)`, or a registered class or function is defined in `__main__`.

    Example:

    >>> import numpy as np
    >>> from keras_attn.interop import export_model
    >>> from keras_attn.models import BertConfig, with_heads
    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> model = with_heads(config, ["classes"], num_classes=3)
    >>> ids = np.array([[2, 9, 3], [2, 3, 0]], "int32")
    >>> inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    >>> export_model("model.onnx", model, inputs)  # doctest: +SKIP
    """
    check_format(format)
    arrays = _checked(model, inputs)
    modules = _modules(model)
    with atomic_write(path) as partial, tempfile.TemporaryDirectory() as folder:
        source, examples = Path(folder, "model.keras"), Path(folder, "inputs.npz")
        written = Path(folder, f"written.{'tflite' if format == 'litert' else 'onnx'}")
        model.save(source)
        by_argument: dict[str, Any] = dict(arrays)
        np.savez(examples, **by_argument)
        arguments = (str(source), str(examples), str(written), format, *modules)
        what = f"The model cannot be exported as {format}"
        run_on_backend(BACKENDS[format], _SCRIPT, arguments, what)
        tell("loading the file, and comparing its outputs")
        if format == "onnx-int8":
            _check(model, arrays, _onnx(written.with_name(FLOAT32)), format, tolerance)
        run = _litert(written) if format == "litert" else _onnx(written)
        _check(model, arrays, run, format, tolerance, rounded=format == "onnx-int8")
        partial.write_bytes(written.read_bytes())


def output_names(model: keras.Model) -> list[str]:
    """Returns the names of the outputs in the exported file."""
    return list(named_outputs(model.output))


def check_format(format: str) -> None:
    """Raises an error if a format is unknown, or a package to write or check it is missing."""
    if format not in BACKENDS:
        raise ValueError(
            f"`format` must be 'saved_model' or one of {list(FORMATS)}. Received: {format!r}."
        )
    for module in _PACKAGES[format.partition("-")[0]]:
        check_installed(module, f"format={format!r}")


def _checked(model: keras.Model, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, np.ndarray]:
    """The inputs as arrays of the model's dtypes."""
    tensors = model.input
    if not isinstance(tensors, dict):
        tensors = {x.name: x for x in keras.tree.flatten(tensors)}
    if set(inputs) != set(tensors):
        raise ValueError(
            f"`inputs` must be the inputs of the model, {sorted(tensors)}. Received: "
            f"{sorted(inputs)}."
        )
    arrays = {name: np.asarray(inputs[name], x.dtype) for name, x in tensors.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or any(len(x) != 2 or min(x) < 2 for x in shapes.values()):
        raise ValueError(
            "`inputs` must have one shape (B, T), with at least two rows and two columns. "
            f"Received: {shapes}."
        )
    return arrays


def _modules(model: keras.Model) -> list[str]:
    """The modules of a user's registered classes and functions, which a new process imports."""
    registered = keras.saving.get_custom_objects()
    names = set(re.findall(r'"([^"]+>[^"]+)"', model.to_json()))  # such as "package>Name"
    of_names = {name: registered[name].__module__ for name in sorted(names & set(registered))}
    here = [name for name, module in of_names.items() if module == "__main__"]
    if here:
        raise ValueError(
            "Expected a model whose registered classes and functions can be imported, because "
            f"another process exports it. Received: {', '.join(here)}, defined in the program "
            "itself. Move them to a module."
        )
    own = {module for module in of_names.values() if module.partition(".")[0] not in _OURS}
    return sorted(own)


def _onnx(path: Path) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Runs an ONNX file."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, inputs), strict=True))


def _litert(path: Path) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Runs a LiteRT file."""
    from ai_edge_litert.interpreter import Interpreter

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        interpreter = Interpreter(str(path))
        for input_ in interpreter.get_input_details():
            interpreter.resize_tensor_input(input_["index"], next(iter(inputs.values())).shape)
        outputs = interpreter.get_signature_runner()(**inputs)
        return {"output" if name == "output_0" else name: x for name, x in outputs.items()}

    return run


def _check(
    model: keras.Model,
    arrays: dict[str, np.ndarray],
    run: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
    format: str,
    tolerance: float,
    rounded: bool = False,
) -> None:
    """Raises a RuntimeError if a file does not run, or has other outputs than the model."""
    for part in (arrays, {name: array[:1, :1] for name, array in arrays.items()}):
        try:
            received = run(part)
        except Exception as error:
            shape = next(iter(part.values())).shape
            raise RuntimeError(
                f"The model cannot be exported as {format}: the file does not run for inputs "
                f"of shape {shape}: {error}"
            ) from error
        _compare(model, part, received, tolerance, rounded)


def _compare(
    model: keras.Model,
    inputs: dict[str, np.ndarray],
    received: dict[str, np.ndarray],
    tolerance: float,
    rounded: bool,
) -> None:
    """Raises a RuntimeError if outputs are not those of the model."""
    tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
    outputs = named_outputs(model(by_name(model, tensors), training=False))
    for name, output in outputs.items():
        expected = keras.ops.convert_to_numpy(keras.ops.cast(output, "float32"))
        found = received[name].astype("float32")
        same = found.shape == expected.shape
        if same and rounded:
            distance = np.linalg.norm(found - expected)
            same = bool(distance <= _ROUNDING * np.linalg.norm(expected))
        elif same:
            same = np.allclose(found, expected, rtol=0, atol=tolerance)
        if not same:
            raise RuntimeError(
                f"The exported file returns a different `{name}` than the model, and is not "
                f"kept. Expected: {expected.ravel()[:4]} ... of shape {expected.shape}. "
                f"Received: {found.ravel()[:4]} ... of shape {found.shape}."
            )
