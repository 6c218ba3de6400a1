"""What `test_attention_kernels.py` runs on another backend: `kernel_script.py FILE [EVERY]`.

It computes the cases of the file by every kernel there is and prints as JSON how far they are from
the expected results, and what JAX's intermediate results are the largest of.
"""

import json
import sys
import warnings

import extreme_cases
import keras
import kernel_cases
import numpy as np
from keras import ops

from keras_attn import layers
from keras_attn.ops import choose_attention_kernel, dot_product_attention


def differences(expected, every):
    """Of cases by kernel, with some chunks and with one; fewer of those that are quick to tell."""
    kernels = {"plain": "plain", "chunked": "chunked", "one chunk": "chunked"}
    if keras.backend.backend() == "torch":
        kernels["flash"] = "flash"
    result = {}
    for name, kernel in kernels.items():
        step = every if name == "chunked" else every * every
        numbers = {*range(len(kernel_cases.CASES))[::step], kernel_cases.EVERY_OPTION}
        for number in filter(kernel_cases.fused, numbers) if name == "flash" else numbers:
            with kernel_cases.chunks_of(512 if name == "one chunk" else 4):
                found = kernel_cases.run(number, kernel)
            difference = kernel_cases.largest_difference(number, found, expected[number])
            result[f"{name} {number}"] = difference
    for dtype in ("float16", "bfloat16"):
        for name, kernel in kernels.items():
            if every > 2 and (dtype, name) not in (("float16", "chunked"), ("bfloat16", "plain")):
                continue
            for number in (1, 14)[: 1 if every > 2 else 2]:
                with kernel_cases.chunks_of(4):
                    found = kernel_cases.run(number, kernel, dtype)
                difference = kernel_cases.largest_difference(number, found, expected[number])
                result[f"{dtype} {name} {number}"] = difference
    return result


def largest_intermediate(kernel, length, **settings):
    """Elements of the largest array that JAX makes for a context and its gradients."""
    import jax

    def loss(q, k, v):
        return ops.sum(dot_product_attention(q, k, v, kernel=kernel, **settings))

    x = jax.ShapeDtypeStruct((1, length, 2, 4), "float32")
    jaxpr = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1, 2)))(x, x, x)

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (np.prod(v.aval.shape, dtype=int) for v in equation.outvars)
            for inner in jax.tree.leaves(
                list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
            ):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from sizes(inner)

    return int(max(sizes(jaxpr.jaxpr)))


def second_gradient():
    """The error of a gradient of a gradient through chunks."""

    def total(x):
        return ops.sum(dot_product_attention(x, x, x, kernel="chunked"))

    x = np.random.default_rng(0).normal(size=(1, 4, 1, 2)).astype("float32")
    try:
        if keras.backend.backend() == "jax":
            import jax

            jax.grad(lambda x: ops.sum(jax.grad(total)(x) ** 2))(x)
        else:
            import torch

            x = torch.tensor(x, requires_grad=True)
            (first,) = torch.autograd.grad(total(x), x, create_graph=True)
            torch.autograd.grad(ops.sum(first**2), x)
    except NotImplementedError as error:
        return str(error)


def of_unknown_length():
    """How far chunks are from the formula in a model that is made for any length."""
    inputs = keras.Input((None, 8))
    layer = layers.MultiHeadSelfAttention(2, attention_kernel="chunked")
    model = keras.Model(inputs, layer(inputs, use_causal_mask=True))
    plain = layers.MultiHeadSelfAttention(2, attention_kernel="plain")
    plain.build((None, None, 8))
    plain.set_weights(layer.get_weights())
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    wanted = plain(x, use_causal_mask=True)
    return float(ops.max(ops.abs(model.predict_on_batch(x) - ops.convert_to_numpy(wanted))))


def traced():
    """How far the outputs of PyTorch's tracer are, which exports to ONNX, or the errors.

    As Keras does for unknown sizes, they are 1 where it traces; it must not decide by them.
    """
    import torch

    made = {
        f"{kernel} {heads}": layers.MultiHeadSelfAttention(
            2, num_kv_heads=heads, attention_kernel=kernel
        )
        for kernel in ("auto", "plain", "chunked", "flash")
        for heads in (2, 1)
    }
    inputs = keras.Input((None, 8))
    outputs = {name: layer(inputs, use_causal_mask=True) for name, layer in made.items()}
    for name, layer in (
        ("additive", layers.AdditiveAttention(3, window="predictive", window_size=2)),
        ("luong", layers.LuongAttention()),
    ):
        outputs[name] = layer(inputs, inputs)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    result = {}
    for name, output in outputs.items():
        model = keras.Model(inputs, output)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = torch.jit.trace(model, x[:1, :1], check_trace=False)(x)
            result[name] = float((found - model(x)).abs().max())
        except ValueError as error:
            result[name] = str(error)
    return result


def main(path, every=1):
    with np.load(path) as file:
        expected = [{} for _ in kernel_cases.CASES]
        for name in file:
            number, of = name.split()
            expected[int(number)][of] = file[name]
    result = {"differences": differences(expected, int(every))}
    x = ops.ones((1, 8, 2, 4))
    result["chosen"] = [
        choose_attention_kernel(x, x, x),
        choose_attention_kernel(x, x, x, dropout=0.1),
        choose_attention_kernel(*[ops.ones((1, 5000, 1, 1))] * 3),
        choose_attention_kernel(*[ops.ones((1, 5000, 1, 1))] * 3, return_attention_scores=True),
    ]
    try:
        result["flash"] = choose_attention_kernel(x, x, x, kernel="flash")
    except ValueError as error:
        result["flash"] = str(error)
    result["second gradient"] = second_gradient()
    result["unknown length"] = of_unknown_length()
    kernels = ["plain", "chunked", *(["flash"] if keras.backend.backend() == "torch" else [])]
    result["extreme"] = {kernel: extreme_cases.gradients(kernel) for kernel in kernels}
    result["lost"] = extreme_cases.lost(kernels[-1:] if every == "12" else kernels)
    if keras.backend.backend() == "torch":
        result["traced"] = traced()
    if keras.backend.backend() == "jax":
        result["largest"] = {
            f"{kernel} {length}": largest_intermediate(kernel, length, **settings)
            for kernel in ("plain", "chunked")
            for length in (2048, 4096)
            for settings in ({"use_causal_mask": True, "sliding_window": 100},)
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
