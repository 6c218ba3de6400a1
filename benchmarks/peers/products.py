"""The matrix products of models and nothing else: no softmax, norm, activation, sum or dropout.

What they take is what hardly anybody can be faster than on the same backend, with the same
optimizer.
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

    Beams share their sentence's keys and values of the memory, and are one row in the first step.
    What an attention gives is clipped, and what a step gives divided by its greatest logit: numbers
    stay finite, and no product can be left out.
    """
    heads, dim, wide = case["heads"], case["dim"], case["intermediate"]
    sizes = {"qkv": (dim, 3 * dim), "out": (dim, dim), "hidden": (dim, wide), "end": (wide, dim)}
    read = {"query": (dim, dim), "memory": (dim, 2 * dim), "back": (dim, dim)}
    cached = (case["batch"], heads, case["target"], dim // heads)
    rng = np.random.default_rng(0)

    def variable(shape: tuple) -> keras.Variable:
        return keras.Variable(rng.normal(0.0, dim**-0.5, shape).astype("float32"))

    def kernels(shapes: dict) -> dict:
        return {name: variable(shape) for name, shape in shapes.items()}

    encoder = [kernels(sizes) for _ in range(case["layers"])]
    decoder = [
        {**kernels({**sizes, **read}), **kernels({"keys": cached, "values": cached})}
        for _ in range(case["layers"])
    ]
    output = variable((dim, case["vocabulary"]))

    def heads_of(x: Any, rows: int) -> Any:
        x = ops.reshape(x, (rows, -1, heads, dim // heads))
        return ops.transpose(x, (0, 2, 1, 3))

    def attended(query: Any, key: Any, value: Any) -> Any:
        weights = ops.einsum("bnth,bnsh->bnts", query, key)
        return ops.clip(ops.einsum("bnts,bnsh->bnth", weights, value), -1.0, 1.0)

    def forward(x: Any, k: dict) -> Any:
        return ops.matmul(ops.matmul(x, k["hidden"]), k["end"])

    def step(x: Any, memories: list, caches: list, rows: int) -> Any:
        for k, memory, cache in zip(decoder, memories, caches, strict=True):
            query = ops.split(ops.matmul(x, k["qkv"]), 3, axis=-1)[0]
            x = attended(heads_of(query, rows), *cache)
            x = ops.matmul(ops.reshape(x, (rows, dim)), k["out"])
            query = heads_of(ops.matmul(x, k["query"]), case["batch"])
            x = ops.transpose(attended(query, *memory), (0, 2, 1, 3))
            x = forward(ops.matmul(ops.reshape(x, (rows, dim)), k["back"]), k)
        return x / ops.max(ops.abs(ops.matmul(x, output)), axis=-1, keepdims=True)

    def search(ids, steps):
        x = ops.ones((case["batch"] * case["source"], dim))
        for k in encoder:
            parts = ops.split(ops.matmul(x, k["qkv"]), 3, axis=-1)
            x = attended(*(heads_of(part, case["batch"]) for part in parts))
            x = ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, dim))
            x = forward(ops.matmul(x, k["out"]), k)
        memories = [
            [heads_of(part, case["batch"]) for part in ops.split(ops.matmul(x, k["memory"]), 2, -1)]
            for k in decoder
        ]
        caches = [[ops.convert_to_tensor(k[name]) for name in ("keys", "values")] for k in decoder]
        x = step(x[: case["batch"]], memories, caches, case["batch"])
        rows = case["batch"] * case["beams"]
        x, *caches = (
            [ops.repeat(t, case["beams"], axis=0) for t in given] for given in ([x], *caches)
        )
        found = ops.while_loop(
            lambda i, x: i < steps,
            lambda i, x: (i + 1, step(x, memories, caches, rows)),
            (ops.convert_to_tensor(1, "int32"), x[0]),
        )
        return found[1]

    every = [v for k in (*encoder, *decoder) for v in k.values()]
    compiled = CompiledFunction(search, [*every, output], jit)
    ids = translator.sources(case)
    return Job(lambda: compiled(ids, case["target"]), len(ids))
