"""The matrix products of blocks and nothing else: no softmax, norm, activation, sum or dropout.

What they take is what no layer can be faster than, on the same backend and with the same
optimizer.
"""

from typing import Any

import keras
from keras import ops

from benchmarks.peers import Job, keras_jobs


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
