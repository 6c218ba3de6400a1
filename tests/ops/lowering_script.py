"""What training steps become for a CUDA GPU, lowered on a machine without one.

JAX asks the library and the device what they are, and so do we; all else is as it would be there.
"""

import functools
import json
import re
import sys

import jax
import keras
import numpy as np
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from keras import ops

from keras_attn import layers
from keras_attn.ops import attention_kernels, dot_product_attention

cudnn.check_cudnn_version = lambda: 91000
cudnn.check_compute_capability = lambda capability: True
HERE = attention_kernels.cuda_capability

B, T, D, N = 2, 256, 32, 4


def lowered(layer, *tensors, **masks):
    """The program of a loss and its gradients, of the dtype of the layer."""
    attention_kernels.cuda_capability = HERE
    # Builds it; arrays would compile each operation.
    layer(
        *[keras.Input(batch_shape=x.shape) for x in tensors],
        **{k: keras.Input(batch_shape=x.shape, dtype="bool") for k, x in masks.items()},
    )
    attention_kernels.cuda_capability = lambda: (9, 0)
    state = [v.value for v in layer.trainable_variables]

    def loss(weights, tensors, masks):
        pairs = list(zip(layer.trainable_variables, weights, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return ops.sum(ops.cast(layer(*tensors, **masks), "float32"))

    step = jax.jit(jax.grad(loss))
    return step.trace(state, tensors, masks).lower(lowering_platforms=("cuda",)).as_text()


def found(text):
    calls = re.findall(r'custom_call @("?)(__cudnn\$\w+)', text)
    pairs = f"{B}x{N}x{T}x{T}x"
    conditional = text.count("stablehlo.case") + text.count("stablehlo.if")
    return {
        "kernels": sorted({name for _, name in calls}),
        "conditional": conditional > 0,
        "of all pairs": pairs in text,
        "kept for gradients": kept(text, pairs),
    }


def kept(text, pairs):
    """Whether a branch hands on numbers for every query and key: of what comes out of a case."""
    ends = re.findall(r"^\s*\}\) : \(tensor<i32>\) -> (.*)$", text, flags=re.MULTILINE)
    return any(pairs in end for end in ends)


def main(how):
    x = np.ones((B, T, D), "float32")
    keys = np.arange(T) < [[T], [9]]
    each = np.ones((B, T, T), bool)
    result = {}
    for policy in ("mixed_bfloat16", "mixed_float16"):

        def make(cls=layers.MultiHeadSelfAttention, policy=policy, **settings):
            return cls(N, dtype=policy, **settings)

        cases = {
            "bare": (make(), (x,), {}),
            "mask": (make(), (x,), {"mask": keys}),
            "promise": (make(right_padding=True), (x,), {"mask": keys}),
            "each": (make(), (x,), {"attention_mask": each}),
            "block": (
                make(layers.DecoderBlock, intermediate_dim=8),
                (x, x),
                {"padding_mask": keys, "memory_mask": keys},
            ),
            "plain": (make(attention_kernel="plain"), (x,), {"mask": keys}),
        }
        for name, (layer, tensors, masks) in cases.items():
            if how == "quick" and policy == "mixed_float16" and name != "mask":
                continue  # what is asked for depends on the other settings, or on the dtype
            result[f"{name} {policy}"] = found(lowered(layer, *tensors, **masks))
        if how == "whole" or policy == "mixed_bfloat16":
            result[f"causal {policy}"] = found(lowered(Causal(make()), x, mask=keys))
    result["differences"] = differences()
    print(json.dumps(result))


def differences():
    """Values and gradients both ways, with JAX's own kernel in the place of cuDNN's."""
    original = jax.nn.dot_product_attention
    told = []

    def instead(*args, **kwargs):
        told.append(kwargs["key_value_seq_lengths"] is not None)
        return original(*args, **{**kwargs, "implementation": "xla"})

    rng = np.random.default_rng(0)
    q, k, v = (ops.array(rng.normal(size=(3, 130, n, 8)), "bfloat16") for n in (4, 2, 2))
    masks = {
        "right": np.arange(130) < [[130], [7], [0]],
        "left": np.arange(130) >= [[0], [7], [130]],
        "holes": rng.random((3, 130)) > 0.3,
        "one": np.arange(130)[None] < 50,
    }

    @functools.partial(jax.jit, static_argnums=(1, 2))
    def run(mask, causal, kernel, q, k, v):  # as constants they would be folded for seconds
        def loss(q, k, v):
            y = dot_product_attention(
                q, k, v, mask=mask[:, None, None], use_causal_mask=causal, kernel=kernel
            )
            y = ops.cast(y, "float32")
            return ops.sum(ops.sin(y)), y

        return jax.grad(loss, (0, 1, 2), has_aux=True)(q, k, v)

    largest = 0.0
    for causal in (False, True):
        for mask in masks.values():  # compiled for each of their two shapes
            attention_kernels.cuda_capability, jax.nn.dot_product_attention = HERE, original
            each = np.broadcast_to(mask, (3, 130))
            expected = jax.tree.leaves(run(each, causal, "plain", q, k, v))
            attention_kernels.cuda_capability = lambda: (9, 0)
            jax.nn.dot_product_attention = instead
            for a, b in zip(
                jax.tree.leaves(run(mask, causal, "auto", q, k, v)), expected, strict=True
            ):
                a, b = np.asarray(a, "float32"), np.asarray(b, "float32")
                largest = max(largest, float((np.abs(a - b) / (1 + np.abs(b))).max()))
    return {"largest": largest, "by lengths": all(told), "calls": len(told)}


class Causal(keras.layers.Layer):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.supports_masking = True

    def call(self, x, mask=None):
        return self.layer(x, mask=mask, use_causal_mask=True)


if __name__ == "__main__":
    main(sys.argv[1])
