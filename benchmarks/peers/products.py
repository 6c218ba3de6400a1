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

    split = keras.layers.Reshape((case["length"], heads, dim // heads))
    join = keras.layers.Reshape((case["length"], dim))

    def block(x: Any, memory: Any) -> Any:
        query, key, value = (split(part) for part in ops.split(dense(3 * dim, x), 3, axis=-1))
        weights = ops.einsum("btnh,bsnh->bnts", query, key)
        context = ops.einsum("bnts,bsnh->btnh", weights, value)
        return dense(dim, dense(case["intermediate"], dense(dim, join(context))))

    return keras_jobs.stack(block, case, jit)
