"""keras_attn with int8 weights, or trained by LoRA; both beside the same without."""

import os
import tempfile

import numpy as np
from keras import ops

from benchmarks import translator
from benchmarks.peers import Job, keras_jobs
from benchmarks.peers.ours import decoding_of, make_translator
from benchmarks.translator import FIRST
from keras_attn.adapt import enable_lora
from keras_attn.generation import CompiledFunction
from keras_attn.layers.quantization import quantize_sublayers, sublayers
from keras_attn.training import MaskedCrossEntropy


def _made(case: dict, int8: bool):
    model = make_translator(case)
    if int8:
        how = {"mode": "int8", "config": None}
        kinds = ("Dense", "ReversibleEmbedding")
        found = [path for path, layer in sublayers(model) if type(layer).__name__ in kinds]
        quantize_sublayers(model, dict.fromkeys(found, how))
    return model


def saving(case: dict, int8: bool, **settings) -> Job:
    """Writes the weights; the amount is bytes on the disk."""
    model = _made(case, int8)
    path = os.path.join(tempfile.mkdtemp(), "model.weights.h5")
    model.save_weights(path)
    return Job(lambda: model.save_weights(path), os.path.getsize(path))


def reading(case: dict, jit: bool, int8: bool) -> Job:
    """Logits of given targets; results are the most probable tokens. The amount is tokens."""
    model = _made(case, int8)
    sources = translator.sources(case)
    shape = len(sources), case["target"]
    targets = np.random.default_rng(4).integers(FIRST, case["vocabulary"], shape).astype("int32")

    def predict(ids, length):
        logits = model({"source_ids": ids, "target_ids": ops.convert_to_tensor(targets)})
        return ops.argmax(logits, axis=-1)

    compiled = CompiledFunction(predict, model, jit)
    return Job(lambda: compiled(sources, 1), targets.size, lambda found: found.ravel().tolist())


def decoding(case: dict, jit: bool, int8: bool) -> Job:
    """As that of `ours`; results are tokens, not sentences."""
    job = decoding_of(_made(case, int8), case, jit)
    return Job(job.run, job.amount, lambda found: found.ravel().tolist())


def training(case: dict, jit: bool, rank: int) -> Job:
    """Steps of the translator; of all weights where `rank` is 0. The amount is steps."""
    model = make_translator(case)
    if rank:
        enable_lora(model, rank)
    rng = np.random.default_rng(4)
    shapes = [(case["batch"], case[name]) for name in ("source", "target", "target")]
    source, target, labels = (rng.integers(FIRST, case["vocabulary"], s) for s in shapes)
    inputs = {"source_ids": source.astype("int32"), "target_ids": target.astype("int32")}
    batch = (inputs, labels.astype("int32"))
    return keras_jobs.training(model, MaskedCrossEntropy(), [batch], jit)
