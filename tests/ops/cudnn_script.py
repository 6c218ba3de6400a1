"""What `test_flash_attention.py` runs on JAX: calls of cuDNN's kernel, computed by JAX's own.

Where there is a CUDA GPU cuDNN computes them.
"""

import json
import sys

import jax
import kernel_cases
import numpy as np
from keras import ops

from keras_attn.ops import attention_kernels, choose_attention_kernel, dot_product_attention

GIVEN = []
GPU = jax.default_backend() == "gpu"
ORIGINAL = jax.nn.dot_product_attention


def instead(query, key, value, **kwargs):
    """Keeps what cuDNN would be told, refuses what it would refuse, and computes it."""
    assert kwargs["implementation"] == "cudnn"
    B, T, N, H = query.shape
    S = key.shape[1]
    assert {x.dtype.name for x in (query, key, value)} <= {"bfloat16", "float16"}
    assert key.shape == value.shape
    assert H % 8 == 0
    for name in ("mask", "bias"):
        if kwargs[name] is not None:
            assert kwargs[name].shape[2:] == (T, S)
            assert kwargs[name].shape[0] in (1, B)
            assert kwargs[name].shape[1] in (1, N)
            assert not T % 2
            assert not S % 2
    assert kwargs["mask"] is None or kwargs["mask"].dtype == bool
    assert kwargs["bias"] is None or kwargs["bias"].dtype == query.dtype
    if kwargs["key_value_seq_lengths"] is not None:
        assert kwargs["key_value_seq_lengths"].dtype == "int32"
        assert kwargs["key_value_seq_lengths"].shape == (B,)
    if kwargs["is_causal"]:
        assert T == S
    if kwargs["local_window_size"] is not None:
        assert kwargs["is_causal"]
        assert kwargs["local_window_size"][1] == 0
    told = {name: getattr(x, "shape", x) for name, x in kwargs.items() if x is not None}
    GIVEN.append({"shapes": [query.shape, key.shape], **told})
    return ORIGINAL(query, key, value, **{**kwargs, "implementation": "cudnn" if GPU else "xla"})


def differences(expected):
    result = {}
    first = kernel_cases.EVERY_OPTION
    options = filter(kernel_cases.fused, range(first, len(kernel_cases.CASES)))
    for number in (*range(1, first, 2), *options):
        found = kernel_cases.run(number, "flash", "bfloat16")
        result[str(number)] = kernel_cases.largest_difference(number, found, expected[number])
    return result


def told(T, S, **options):
    """What cuDNN is told of a call, and whether it is chosen."""
    q, kv = ops.ones((2, T, 4, 12), "bfloat16"), ops.ones((2, S, 2, 12), "bfloat16")
    dot_product_attention(q, kv, kv, kernel="flash", **options)
    return [choose_attention_kernel(q, kv, kv, **options), GIVEN[-1]]


def reason(**settings):
    q = ops.ones((1, 128, 2, settings.get("H", 8)), settings.get("dtype", "bfloat16"))
    try:
        return choose_attention_kernel(q, q, q, kernel="flash")
    except ValueError as error:
        return str(error)


def main(path):
    jax.nn.dot_product_attention = instead
    expected = [{} for _ in kernel_cases.CASES]
    with np.load(path) as file:
        for name in file:
            number, of = name.split()
            expected[int(number)][of] = file[name]
    result = {"here": reason()}
    if not GPU:
        attention_kernels.cuda_capability = lambda: (9, 0)
    result["differences"] = differences(expected)
    lengths, mask = np.array([130, 0]), np.ones((2, 1, 1, 131), bool)
    result["told"] = {
        "bare": told(130, 130),
        "short": told(1, 130),
        "causal": told(130, 130, use_causal_mask=True),
        "lengths": told(131, 131, key_lengths=lengths),
        "causal lengths": told(130, 130, use_causal_mask=True, key_lengths=lengths),
        "window": told(130, 130, use_causal_mask=True, sliding_window=7),
        "window lengths": told(
            130, 130, use_causal_mask=True, sliding_window=7, key_lengths=lengths
        ),
        "both ways": told(130, 130, sliding_window=7),
        "not square": told(129, 131, use_causal_mask=True),
        "mask": told(130, 131, mask=mask),
        "bias": told(130, 130, bias=np.zeros((1, 4, 1, 130), "float32"), use_causal_mask=True),
    }
    result["reasons"] = [reason(), reason(dtype="float32"), reason(H=264), reason(H=200)]
    attention_kernels.cuda_capability = lambda: (8, 6)
    result["reasons"] += [reason(H=200), reason(H=128)]
    attention_kernels.cuda_capability = lambda: (7, 5)
    result["reasons"].append(reason())
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
