"""keras_attn's BERT in ONNX Runtime, as `export_model` writes it."""

import tempfile
from pathlib import Path

import keras
import numpy as np

from benchmarks import encoder
from benchmarks.machine import available_cores
from benchmarks.peers import Job, bert
from keras_attn.interop import export_model


def read_texts(case: dict, format: str = "onnx") -> Job:
    """Mean vectors of texts, padded to the longest of a batch."""
    import onnxruntime

    model = bert.config_of(case).build()
    bert.load(model, case, head=False)
    model = keras.Model(model.input, model.output["sequence"])  # without the pooler
    batches = [np.asarray(ids, "int32") for ids in encoder.read_batches(case)]
    ids = np.tile(batches[0][:1], (2, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        export_model(path, model, inputs_of(ids), format)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = available_cores()  # else more threads spin on a core
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def read(ids):
        (x,) = session.run(None, inputs_of(ids))
        weight = (ids != 0)[..., None].astype(x.dtype)
        return (x * weight).sum(1) / weight.sum(1)

    return Job(lambda: [read(ids) for ids in batches], case["texts"])


def inputs_of(ids: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of the model."""
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": ids != 0}
