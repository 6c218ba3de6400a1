"""On JAX: arrays that compiled functions compute once for the values of variables."""

import gc
import json
import weakref

import jax
import keras
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
    embedding = Counted(5, 3, scale=False)
    embedding.build()
    return embedding


def logits_of(embedding, variables=None, around=lambda call: call()):
    def make(ids, length):
        x = ops.sum(embedding(ids), axis=1)
        kernel = prepared(embedding.output_kernel)
        logits = embedding(x, reverse=True) if kernel is None else ops.matmul(x, kernel)
        return logits * ops.cast(length, "float32")

    def run(ids, length):
        return around(lambda: make(ids, length))

    return CompiledFunction(run, embedding if variables is None else variables)


def error(embedding, found, ids=IDS, length=1):
    table = ops.convert_to_numpy(embedding.embedding.embeddings)  # with LoRA
    return float(abs(found - table[ids].sum(axis=1) @ table.T * length).max())


def made_once_for_all_functions():
    embedding = built()
    first, second = logits_of(embedding), logits_of(embedding)
    for run in (first, second, first):
        for rows in (1, 2):
            run(np.repeat(IDS, rows, axis=0), 1)
    return embedding.made


def after_changes():
    embedding = built()
    run, errors, former = logits_of(embedding), [], []
    for rows, length in ((1, 1), (2, 1), (1, 2), (2, 1)):
        ids = RNG.integers(0, 5, (rows, 3))
        for _ in range(2):
            former.append(embedding.embedding.embeddings.value)  # which somebody may keep
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


class Caller(keras.layers.Layer):
    """Keras makes another exception of one that a layer's call raises."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, x):
        return self.function()


def in_a_layer():
    embedding = built()
    run = logits_of(embedding, around=lambda call: Caller(call)(np.ones((1, 1))))
    return error(embedding, run(IDS, 1)), embedding.made


def where_errors_are_caught():
    def careful(call):
        try:
            return call()
        except Exception:
            return ops.zeros((1, 5))

    embedding = built()
    return error(embedding, logits_of(embedding, around=careful)(IDS, 1))


def with_other_values():
    """Those of a scope, and those assigned in the function."""
    embedding = built()
    variable = embedding.embedding.embeddings

    def scoped(call):
        with keras.StatelessScope([(variable, variable * -0.5)]):
            return call()

    def assigned(call):
        variable.assign(variable * -0.5)
        return call()

    return [
        error(embedding, logits_of(embedding, around=around)(IDS, 1) / 0.25)
        for around in (scoped, assigned)
    ]


def of_variables_that_are_not_given():
    """They keep the values that they had when the function was compiled.

    The function is compiled again if the layer has further variables.
    """
    embedding = built()
    run = logits_of(embedding, [])
    before = run(IDS, 1)
    embedding.embedding.embeddings.assign(np.ones((5, 3)))
    errors = [float(abs(run(IDS, 1) - before).max())]
    embedding = built()
    run = logits_of(embedding, embedding.variables)
    run(IDS, 1)
    embedding.embedding.enable_lora(2)
    embedding.embedding.lora_embeddings_b.assign(np.ones((2, 3)))
    return [*errors, error(embedding, run(IDS, 1))]


def after_a_failed_trace():
    embedding = built()
    run = logits_of(embedding)
    try:
        jax.eval_shape(lambda: run(IDS, 1))
    except jax.errors.TracerArrayConversionError:
        return error(embedding, run(IDS, 1))


def in_another_dtype():
    embedding = built()
    dtypes = []
    for policy in ("float32", "bfloat16"):
        embedding.dtype_policy = policy
        run = CompiledFunction(lambda ids, n: prepared(embedding.output_kernel), embedding)
        dtypes.append(str(run(IDS, 1).dtype))
    return dtypes


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
    checks = (
        made_once_for_all_functions, after_changes, after_lora, after_quantization, in_a_layer,
        where_errors_are_caught, with_other_values, of_variables_that_are_not_given,
        after_a_failed_trace, in_another_dtype, freed,
    )  # fmt: skip
    print(json.dumps({check.__name__: check() for check in checks}))
