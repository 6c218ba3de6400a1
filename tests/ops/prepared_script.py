"""On JAX: arrays that compiled functions compute once for the values of variables."""

import gc
import json
import weakref

import numpy as np
from keras import ops

from keras_attn.generation import CompiledFunction
from keras_attn.layers import TokenEmbedding
from keras_attn.layers.quantization import quick_deletions
from keras_attn.ops.prepared import prepared

IDS = np.array([[1, 2, 3]])
RNG = np.random.default_rng(0)


class Counted(TokenEmbedding):
    """Counts how often it makes its kernel."""

    made = 0

    def output_kernel(self):
        self.made += 1
        return super().output_kernel()


def built():
    embedding = Counted(5, 3)
    embedding.build()
    return embedding


def logits_of(embedding):
    def run(ids, length):
        x = ops.cast(ids, "float32")
        kernel = prepared(embedding.output_kernel)
        logits = embedding(x, reverse=True) if kernel is None else ops.matmul(x, kernel)
        return logits * ops.cast(length, "float32")

    return CompiledFunction(run, embedding)


def error(embedding, found, ids=IDS, length=1):
    kernel = ops.convert_to_numpy(embedding.embedding.embeddings).T  # with LoRA
    return float(abs(found - ids @ kernel * length).max())


def made_once_for_all_functions():
    embedding = built()
    first, second = logits_of(embedding), logits_of(embedding)
    for run in (first, second, first):
        for rows in (1, 2):
            run(np.repeat(IDS, rows, axis=0), 1)
    return embedding.made


def after_changes():
    embedding = built()
    run, errors = logits_of(embedding), []
    for rows, length in ((1, 1), (2, 1), (1, 2), (2, 1)):
        ids = RNG.integers(0, 5, (rows, 3))
        for _ in range(2):
            embedding.embedding.embeddings.assign(RNG.normal(size=(5, 3)))
            errors.append(error(embedding, run(ids, length), ids, length))
    return max(errors), embedding.made


def after_lora():
    embedding = built()
    run = logits_of(embedding)
    run(IDS, 1)
    embedding.embedding.enable_lora(2)
    errors = []
    for value in (1.0, 0.0):
        embedding.embedding.lora_embeddings_b.assign(np.full((2, 3), value))
        errors.append(error(embedding, run(IDS, 1)))
    return max(errors)


def after_quantization():
    embedding = built()
    run = logits_of(embedding)
    exact = run(IDS, 1)
    with quick_deletions():
        embedding.embedding.quantize("int8")
    return float(abs(run(IDS, 1) - exact).max() / abs(exact).max())


def freed():
    embedding = built()
    run = logits_of(embedding)
    run(IDS, 1)
    value = weakref.ref(embedding.embedding.embeddings.value)
    embedding.embedding.embeddings.assign(np.ones((5, 3)))
    gc.collect()
    old_value = value() is None
    run(IDS, 1)
    layer = weakref.ref(embedding)
    del embedding, run
    gc.collect()
    return old_value, layer() is None


if __name__ == "__main__":
    checks = (made_once_for_all_functions, after_changes, after_lora, after_quantization, freed)
    print(json.dumps({check.__name__: check() for check in checks}))
