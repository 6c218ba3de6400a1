"""keras_attn's BERT in ONNX Runtime and OpenVINO, as `export_model` writes it."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from benchmarks import encoder
from benchmarks.machine import available_cores
from benchmarks.peers import Job, bert
from keras_attn.interop import export_model


def read_texts(case: dict, format: str = "onnx", runtime: str = "onnxruntime") -> Job:
    """Mean vectors of texts, padded to the longest of a batch."""
    model = bert.config_of(case).build()
    bert.load(model, case, head=False)
    model = keras.Model(model.input, model.output["sequence"])  # without the pooler
    batches = [np.asarray(ids, "int32") for ids in encoder.read_batches(case)]
    ids = np.tile(batches[0][:1], (2, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        export_model(path, model, inputs_of(ids), format)
        call = RUNTIMES[runtime](path)

    def read(ids):
        x = call(inputs_of(ids))
        weight = (ids != 0)[..., None].astype(x.dtype)
        return (x * weight).sum(1) / weight.sum(1)

    return Job(lambda: [read(ids) for ids in batches], case["texts"])


def in_onnx_runtime(path: Path) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    """A model as a function of its inputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = available_cores()  # else more threads spin on a core
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def in_openvino(path: Path) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    """A model as a function of its inputs."""
    import openvino

    settings = {"INFERENCE_NUM_THREADS": available_cores(), "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    return lambda inputs: compiled(inputs)[0]


RUNTIMES = {"onnxruntime": in_onnx_runtime, "openvino": in_openvino}


def inputs_of(ids: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of the model."""
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": ids != 0}
