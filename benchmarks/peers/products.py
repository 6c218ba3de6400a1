"""The matrix products of models and nothing else: no softmax, norm, activation, sum or dropout.

What they take is what hardly anybody can be faster than on the same backend, with the same
optimizer.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks import encoder, gpt, translator
from benchmarks.peers import Job, keras_jobs
from keras_attn.generation import CompiledFunction
from keras_attn.training import MaskedCrossEntropy

Block = Callable[[Any, Any], Any]


def block_of(dim: int, heads: int, intermediate: int, length: int) -> Block:
    """The products of a block of self-attention and two dense layers, for training."""

    def dense(units: int, x: Any) -> Any:
        return keras.layers.Dense(units, use_bias=False)(x)

    def split(x: Any) -> Any:
        return ops.reshape(x, (-1, length, heads, dim // heads))

    def block(x: Any, memory: Any) -> Any:
        x = ops.reshape(x, (-1, dim))  # products of matrices are the fastest everywhere
        query, key, value = (split(part) for part in ops.split(dense(3 * dim, x), 3, axis=-1))
        weights = ops.einsum("btnh,bsnh->bnts", query, key)
        context = ops.einsum("bnts,bsnh->btnh", weights, value)
        x = dense(dim, ops.reshape(context, (-1, dim)))
        x = dense(dim, dense(intermediate, x))
        return ops.reshape(x, (-1, length, dim))

    return block


def encoder_stack(case: dict, jit: bool) -> Job:
    """Steps of the products of encoder blocks."""
    sizes = (case[name] for name in ("dim", "heads", "intermediate", "length"))
    return keras_jobs.stack(block_of(*sizes), case, jit)


def language_model(case: dict, jit: bool) -> Job:
    """Steps of `fit` of a GPT's products, with its embedding and its loss; the amount is tokens."""
    length, dim = case["context"], case["dim"]
    block = block_of(dim, case["heads"], 4 * dim, length)
    ids = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(case["vocabulary"], dim)(ids)
    for _ in range(case["layers"]):
        x = block(x, None)
    x = keras.layers.Dense(case["vocabulary"], use_bias=False)(ops.reshape(x, (-1, dim)))
    logits = ops.reshape(x, (-1, length, case["vocabulary"]))
    return keras_jobs.next_tokens(keras.Model(ids, logits), case, jit)


def masked_words(case: dict, jit: bool) -> Job:
    """Steps of `fit` of a BERT's products: its blocks, and the head at the masked positions.

    The embedding of the tokens and the output are one matrix, as in the model.
    """
    length, dim, vocabulary = case["length"], case["dim"], case["vocabulary"]
    block = block_of(dim, case["heads"], case["intermediate"], length)
    ids = keras.Input((length,), dtype="int32", name="token_ids")
    places = keras.Input((encoder.number_masked(case),), dtype="int32", name="masked_positions")
    embedding = keras.layers.ReversibleEmbedding(vocabulary, dim)
    x = embedding(ids)
    for _ in range(case["layers"]):
        x = block(x, None)
    x = ops.take_along_axis(x, ops.expand_dims(places, -1), axis=1)
    x = keras.layers.Dense(dim, use_bias=False)(x)
    model = keras.Model([ids, places], embedding(x, reverse=True))
    return keras_jobs.masked_words(model, MaskedCrossEntropy(ignore_id=None), {}, case, jit)


def kernels(shapes: dict[str, tuple], blocks: int, dim: int) -> list[dict[str, keras.Variable]]:
    """Random variables of these shapes for each block."""
    rng = np.random.default_rng(0)

    def variable(shape: tuple) -> keras.Variable:
        return keras.Variable(rng.normal(0.0, dim**-0.5, shape).astype("float32"))

    return [{name: variable(s) for name, s in shapes.items()} for _ in range(blocks)]


def attended(query: Any, key: Any, value: Any) -> Any:
    """Both products of an attention, clipped."""
    weights = ops.einsum("bnth,bnsh->bnts", query, key)
    return ops.clip(ops.einsum("bnts,bnsh->bnth", weights, value), -1.0, 1.0)


def writing(case: dict, jit: bool) -> Job:
    """The products of a GPT's steps, with a cache as long as it is on average; no prompt is read.

    Numbers stay finite as in `decoding`. The amount is new tokens.
    """
    rows, heads, dim, wide = case["batch"], case["heads"], case["dim"], 4 * case["dim"]
    cached = (rows, heads, case["prompt"] + case["new"] // 2, dim // heads)
    sizes = {"qkv": (dim, 3 * dim), "out": (dim, dim), "hidden": (dim, wide), "end": (wide, dim)}
    blocks = kernels({**sizes, "keys": cached, "values": cached}, case["layers"], dim)
    (last,) = kernels({"output": (case["vocabulary"], dim)}, 1, dim)  # the table of the tokens

    def step(x: Any) -> Any:
        for k in blocks:
            query = ops.split(ops.matmul(x, k["qkv"]), 3, axis=-1)[0]
            query = ops.reshape(query, (rows, heads, 1, dim // heads))
            x = ops.reshape(attended(query, k["keys"], k["values"]), (rows, dim))
            x = ops.matmul(ops.matmul(ops.matmul(x, k["out"]), k["hidden"]), k["end"])
        logits = ops.matmul(x, ops.transpose(last["output"]))
        return x / ops.max(ops.abs(logits), axis=-1, keepdims=True)

    def search(ids, steps):
        found = ops.while_loop(
            lambda i, x: i < steps,
            lambda i, x: (i + 1, step(x)),
            (ops.convert_to_tensor(0, "int32"), ops.take(last["output"], ids[:, -1], axis=0)),
        )
        return found[1]

    every = [v for k in (*blocks, last) for v in k.values()]
    compiled = CompiledFunction(search, every, jit)
    ids = gpt.prompts(case)
    return Job(lambda: compiled(ids, case["new"]), rows * case["new"])


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
    cached = {"keys": cached, "values": cached}
    encoder = kernels(sizes, case["layers"], dim)
    decoder = kernels({**sizes, **read, **cached}, case["layers"], dim)
    (last,) = kernels({"output": (dim, case["vocabulary"])}, 1, dim)
    output = last["output"]

    def heads_of(x: Any, rows: int) -> Any:
        x = ops.reshape(x, (rows, -1, heads, dim // heads))
        return ops.transpose(x, (0, 2, 1, 3))

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

    every = [v for k in (*encoder, *decoder, last) for v in k.values()]
    compiled = CompiledFunction(search, every, jit)
    ids = translator.sources(case)
    return Job(lambda: compiled(ids, case["target"]), len(ids))
