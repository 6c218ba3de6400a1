"""The matrix products of models and nothing else: no softmax, norm, activation, sum or dropout.

What they take is what nobody can be faster than on the same backend, with the same optimizer.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks import translator
from benchmarks.peers import Job, keras_jobs
from keras_attn.generation import CompiledFunction


def encoder_stack(case: dict, jit: bool) -> Job:
    """Steps of the products of encoder blocks."""
    dim, heads = case["dim"], case["heads"]

    def dense(units: int, x: Any) -> Any:
        return keras.layers.Dense(units, use_bias=False)(x)

    def split(x: Any) -> Any:
        return ops.reshape(x, (-1, case["length"], heads, dim // heads))

    def block(x: Any, memory: Any) -> Any:
        x = ops.reshape(x, (-1, dim))  # products of matrices are the fastest everywhere
        query, key, value = (split(part) for part in ops.split(dense(3 * dim, x), 3, axis=-1))
        weights = ops.einsum("btnh,bsnh->bnts", query, key)
        context = ops.einsum("bnts,bsnh->btnh", weights, value)
        x = dense(dim, ops.reshape(context, (-1, dim)))
        x = dense(dim, dense(case["intermediate"], x))
        return ops.reshape(x, (-1, case["length"], dim))

    return keras_jobs.stack(block, case, jit)


def decoding(case: dict, jit: bool) -> Job:
    """The encoder's products once, those of the decoder step after step; no token is chosen.

    Beams share their sentence's keys and values of the memory.
    """
    steps, heads, dim = case["target"], case["heads"], case["dim"]
    wide, rows = case["intermediate"], case["batch"] * case["beams"]
    sizes = {"qkv": (dim, 3 * dim), "out": (dim, dim), "hidden": (dim, wide), "end": (wide, dim)}
    read = {"query": (dim, dim), "memory": (dim, 2 * dim), "back": (dim, dim)}
    rng = np.random.default_rng(0)

    def kernels(shapes: dict) -> dict:
        return {
            name: keras.Variable(rng.normal(0.0, shape[0] ** -0.5, shape).astype("float32"))
            for name, shape in shapes.items()
        }

    encoder = [kernels(sizes) for _ in range(case["layers"])]
    decoder = [kernels({**sizes, **read}) for _ in range(case["layers"])]
    output = keras.Variable(rng.normal(size=(dim, case["vocabulary"])).astype("float32"))

    def heads_of(x: Any, rows: int) -> Any:
        x = ops.reshape(x, (rows, -1, heads, dim // heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def attended(query: Any, key: Any, value: Any) -> Any:
        weights = ops.einsum("bnth,bnsh->bnts", query, key)
        return ops.einsum("bnts,bnsh->bnth", weights, value)

    def search(ids, steps):
        x = ops.zeros((case["batch"] * case["source"], dim)) + 1.0
        for k in encoder:
            parts = ops.split(ops.matmul(x, k["qkv"]), 3, axis=-1)
            x = attended(*(heads_of(part, case["batch"]) for part in parts))
            x = ops.matmul(ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, dim)), k["out"])
            x = ops.matmul(ops.matmul(x, k["hidden"]), k["end"])
        memories = [
            [heads_of(part, case["batch"]) for part in ops.split(ops.matmul(x, k["memory"]), 2, -1)]
            for k in decoder
        ]
        caches = ops.zeros((rows, heads, case["target"], dim // heads)) + x[0, 0]

        def body(step, x):
            for k, memory in zip(decoder, memories, strict=True):
                query = ops.split(ops.matmul(x, k["qkv"]), 3, axis=-1)[0]
                x = attended(heads_of(query, rows), caches, caches)
                x = ops.matmul(ops.reshape(x, (rows, dim)), k["out"])
                query = heads_of(ops.matmul(x, k["query"]), case["batch"])
                x = ops.transpose(attended(query, *memory), (0, 2, 1, 3))
                x = ops.matmul(ops.reshape(x, (rows, dim)), k["back"])
                x = ops.matmul(ops.matmul(x, k["hidden"]), k["end"])
            logits = ops.matmul(x, output)
            return step + 1, x / ops.max(logits, axis=-1, keepdims=True)  # so that it is wanted

        start = ops.convert_to_tensor(0, "int32"), ops.zeros((rows, dim)) + x[:1]
        return ops.while_loop(lambda step, x: step < steps, body, start)[1]

    every = [v for k in (*encoder, *decoder) for v in k.values()]
    compiled = CompiledFunction(search, [*every, output], jit)
    ids = translator.sources(case)
    return Job(lambda: compiled(ids, steps), len(ids))
