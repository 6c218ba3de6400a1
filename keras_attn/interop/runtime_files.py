"""ONNX and LiteRT files of Keras models, written in a process with the backend that can do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np

BACKENDS = {"onnx": "torch", "onnx-int8": "torch", "litert": "tensorflow"}
"""The backend that writes each format."""
FLOAT32 = "float32.onnx"
"""Name of the file from which int8 is written, in the same folder."""
_OPSET = 18


def write_model(model_file: str, inputs_file: str, path: str, file_format: str) -> None:
    """Writes a saved Keras model in another format; `inputs_file` has examples of its inputs.

    For `"onnx-int8"`, the float32 model stays beside the file, to be checked.
    """
    model = keras.saving.load_model(model_file, compile=False)
    if file_format == "litert":
        model.export(path, format="litert", verbose=False)
        return
    with np.load(inputs_file) as arrays:
        inputs = dict(arrays)
    if file_format == "onnx":
        _write_onnx(model, inputs, path)
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = Path(path).with_name(FLOAT32)
    _write_onnx(model, inputs, str(whole))
    # Processors without VNNI add products of 8 bits in 16, where weights of 7 bits cannot overflow.
    quantize_dynamic(whole, path, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


def _write_onnx(model: keras.Model, inputs: dict[str, np.ndarray], path: str) -> None:
    """Traces a model for any number of rows of any length."""
    import torch

    names = list(inputs)
    # A call may return them in another order.
    names_of_outputs = list(named_outputs(model.output))

    class _Traced(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
            outputs = model(by_name(model, dict(zip(names, tensors, strict=True))), training=False)
            return tuple(named_outputs(outputs)[name] for name in names_of_outputs)

    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    tensors = tuple(torch.tensor(array) for array in inputs.values())
    with torch.no_grad():
        program = torch.onnx.export(
            _Traced().eval(),
            tensors,
            dynamo=True,
            verbose=False,
            input_names=names,
            output_names=names_of_outputs,
            dynamic_shapes=((free,) * len(names),),
            opset_version=_OPSET,
        )
    if program is None:
        raise RuntimeError("PyTorch's exporter returned no program.")
    program.save(path)


def by_name(model: keras.Model, inputs: dict[str, Any]) -> Any:
    """Returns named inputs in the form that the model's call takes."""
    if isinstance(model.input, dict):
        return inputs
    return keras.tree.map_structure(lambda tensor: inputs[tensor.name], model.input)


def named_outputs(outputs: Any) -> dict[str, Any]:
    """Returns the outputs of a model, keyed by name; a single output is called `output`."""
    return dict(outputs) if isinstance(outputs, dict) else {"output": outputs}
