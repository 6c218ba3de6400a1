"""Biases far from zero and NaN, for every kernel: what each backend computes of them.

Imported by tests in this process and by `kernel_script.py` in a process of another backend.
"""

import keras
import kernel_cases
import numpy as np
from keras import ops

from keras_attn.ops import dot_product_attention

NAMES = ("context", "query", "key", "value")
SIZES = (0.0, -(2.0**20), -1e9, 1e9)


def extreme():
    """Queries whose keys all have one bias, which changes nothing, and exact scores.

    At 2^20 float32 tells eighths apart, which the scores are; at 1e9 the scores are zero.
    """
    rng = np.random.default_rng(3)
    query, key = (rng.integers(-3, 4, (1, t, 1, 4)) / 2 for t in (4, 6))
    query[0, 2:] = 0
    bias = np.broadcast_to(np.array(SIZES)[:, None], (1, 1, 4, 6)).copy()
    value, upstream = rng.normal(size=(1, 6, 1, 4)), rng.normal(size=(1, 4, 1, 4))
    return {"query": query, "key": key, "value": value, "upstream": upstream, "bias": bias}


def gradients(kernel):
    """The context and the gradients of query, key and value, as lists by name."""
    arrays = {name: ops.convert_to_tensor(x, "float32") for name, x in extreme().items()}
    bias, upstream = arrays.pop("bias"), arrays.pop("upstream")

    def attend(query, key, value):
        return dot_product_attention(query, key, value, bias=bias, scale=0.5, kernel=kernel)

    backend = getattr(kernel_cases, f"_{keras.backend.backend()}")
    with kernel_cases.chunks_of(4):
        context, found = backend(attend, list(arrays.values()), {}, upstream, None, False)
    return {
        name: ops.convert_to_numpy(x).tolist()
        for name, x in zip(NAMES, (context, *found), strict=True)
    }


def lost(kernels):
    """What does not have NaN where it must: a query that is NaN, and one with a bias of NaN."""
    found = []
    for kernel, dtype in [(k, d) for k in kernels for d in ("float32", "float16", "bfloat16")]:
        for causal in (False, True):
            rng = np.random.default_rng(0)
            query, key, value = rng.normal(size=(3, 1, 5, 2, 4)).astype("float32")
            bias = np.zeros((1, 1, 5, 5), "float32")
            query[0, 1, 0, 2] = bias[0, 0, 3, :] = np.nan
            wanted = np.zeros((5, 2), bool)
            wanted[1, 0] = True
            for added in (None, bias):
                wanted[3] = added is not None
                tensors = [ops.convert_to_tensor(x, dtype) for x in (query, key, value)]
                given = {} if added is None else {"bias": ops.convert_to_tensor(added)}
                with kernel_cases.chunks_of(4):
                    context = dot_product_attention(
                        *tensors, **given, use_causal_mask=causal, kernel=kernel
                    )
                context = ops.convert_to_numpy(ops.cast(context, "float32"))[0]
                if not np.array_equal(np.isnan(context).any(-1), wanted):
                    found.append([kernel, dtype, causal, *given])
    return found
