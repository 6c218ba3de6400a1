"""Attention kernels on the device against float64: values and gradients."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import keras
import numpy as np
from keras import ops

from benchmarks.gpu import kernel_cases
from benchmarks.gpu.progress import NotAvailable, Progress
from keras_attn.layers import MultiHeadAttention
from keras_attn.ops import choose_attention_kernel, chunked_attention, dot_product_attention

# Of the results, relative to 1 where they are larger.
TOLERANCE = {"float32": 5e-5, "float16": 0.01, "bfloat16": 0.1}


def check(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """A row a case and dtype. JAX compiles several at a time, in threads."""
    full_precision()
    kernel, dtypes = settings["kernel"], settings["dtypes"]
    if kernel == "flash":
        dtypes = [dtype for dtype in dtypes if obstacle(dtype) is None]
        if not dtypes:
            raise NotAvailable("; ".join(obstacle(dtype) for dtype in settings["dtypes"]))
    if settings.get("chunk"):
        chunked_attention.CHUNK = settings["chunk"]
    sizes = {name: settings[name] for name in ("lengths", "heads", "width")}
    made = list(kernel_cases.cases(**sizes))
    if kernel == "layer":
        made = [case for case in made if goes_through_layers(case)]
    work = []
    for dtype in dtypes:
        every = settings.get("every", {}).get(dtype, 1)
        for case in made[::every]:
            for jit in settings.get("jit", [None]):
                how = {None: "", True: ", XLA", False: ", without XLA"}[jit]
                name = f"{kernel} {dtype}: {case['name']}{how}"
                if name not in progress.done:
                    work.append((name, case, kernel, dtype, jit))
    threads = keras.backend.backend() == "jax" and not progress.alone
    if not threads:
        for each in work:
            yield row(progress, *each)
        return
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        for done in as_completed([pool.submit(row, progress, *each) for each in work]):
            yield done.result()


def full_precision() -> None:
    """Products of float32 in float32, not in TF32."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
    elif backend == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)
    else:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def obstacle(dtype: str) -> str | None:
    """Why there is no flash kernel for a dtype here; None if there is one."""
    x = ops.ones((1, 128, 1, 64), dtype)
    try:
        choose_attention_kernel(x, x, x, kernel="flash")
    except ValueError as error:
        return str(error)
    return None


def row(
    progress: Progress, name: str, case: dict, kernel: str, dtype: str, jit: bool | None
) -> dict[str, Any]:
    """What came of a case."""
    progress.begin(name)
    found = {"name": name, "kernel": kernel, "dtype": dtype, "tolerance": TOLERANCE[dtype]}
    try:
        arrays = rounded(kernel_cases.make(case), dtype)
        results, chosen = compute(case, arrays, kernel, dtype, jit)
        wanted = kernel_cases.reference(case, arrays)
        error, where = kernel_cases.largest_error(case, arrays, results, wanted)
    except Exception as raised:
        return {**found, "ok": False, "message": f"{type(raised).__name__}: {raised}"[:1000]}
    ok = error <= found["tolerance"]
    return {**found, "ok": ok, "error": error, "where": where, "chosen": chosen}


def rounded(arrays: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """The numbers that the dtype holds, as float64: the rounding of what is given is no error."""

    def round_trip(x: np.ndarray) -> np.ndarray:
        given = ops.cast(ops.convert_to_tensor(x.astype("float32")), dtype)
        return np.asarray(ops.convert_to_numpy(ops.cast(given, "float32")), "float64")

    return {n: round_trip(x) if x.dtype == np.float64 else x for n, x in arrays.items()}


def compute(
    case: dict, arrays: dict[str, np.ndarray], kernel: str, dtype: str, jit: bool | None
) -> tuple[dict[str, np.ndarray], str]:
    """The context and the gradients as float64, and the kernel that "auto" takes."""
    names = [name for name in kernel_cases.DIFFERENTIATED if name in arrays]
    tensors = [ops.convert_to_tensor(arrays[name].astype("float32"), "float32") for name in names]
    tensors = [ops.cast(x, dtype) for x in tensors]
    upstream = ops.cast(ops.convert_to_tensor(arrays["upstream"].astype("float32")), dtype)
    hiding = {n: ops.convert_to_tensor(arrays[n]) for n in ("mask", "key_lengths") if n in arrays}
    told = {
        "use_causal_mask": bool(case.get("causal")),
        "sliding_window": kernel_cases.window(case),
    }

    def attend(tensors, hiding):
        given = dict(zip(names, tensors, strict=True))
        return dot_product_attention(**given, **hiding, **told, kernel=kernel)

    if kernel == "layer":
        attend = layer_of(case, dtype)
    both = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}[keras.backend.backend()]
    context, gradients = both(attend, tensors, hiding, upstream, jit)
    found = dict(zip(["context", *names], [context, *gradients], strict=True))
    if keras.backend.standardize_dtype(context.dtype) != dtype:
        raise TypeError(f"Expected a context in {dtype}. Received: {context.dtype}.")
    chosen = choose_attention_kernel(**dict(zip(names, tensors, strict=True)), **hiding, **told)
    return {n: _float64(x) for n, x in found.items()}, chosen


def goes_through_layers(case: dict) -> bool:
    """Whether `MultiHeadAttention` has a way to say what hides keys."""
    return not (case.get("bias") or case.get("window") or case.get("mask") == "11TS")


def layer_of(case: dict, dtype: str) -> Callable:
    """`MultiHeadAttention` whose projections change nothing: its heads are those of the case.

    Padding is a `value_mask` `(B, S)`, with the promise that it is right padding where the case has
    lengths; other masks are an `attention_mask` `(B, T, S)` or `(B, 1|N, T, S)`.
    """
    (N, K), H, S = case["heads"], case["width"], case["S"]
    right_padding = bool(case.get("lengths"))
    layer = MultiHeadAttention(
        N, H, num_kv_heads=K, use_bias=False, right_padding=right_padding, dtype=dtype
    )
    layer.build((None, None, N * H), (None, None, K * H))
    for dense in (layer.query_dense, layer.key_dense, layer.value_dense, layer.output_dense):
        dense.kernel.assign(np.eye(dense.kernel.shape[0]))

    def attend(tensors, hiding):
        query, key, value = (ops.reshape(x, (*x.shape[:2], -1)) for x in tensors)
        told = {"use_causal_mask": bool(case.get("causal"))}
        mask = hiding.get("mask")
        if "key_lengths" in hiding:
            lengths = ops.reshape(hiding["key_lengths"], (-1, 1))
            told["value_mask"] = ops.arange(S) < lengths
        elif mask is not None and case["mask"] in ("right", "left"):
            told["value_mask"] = mask[:, 0, 0]
        elif mask is not None:
            told["attention_mask"] = mask[:, 0] if case["mask"] == "BTS" else mask
        return ops.reshape(layer(query, value, key, **told), (*query.shape[:2], N, H))

    return attend


def _float64(x: Any) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(ops.cast(x, "float32")), "float64")


def _jax(attend: Callable, tensors: list, hiding: dict, upstream: Any, jit: bool | None) -> tuple:
    import jax

    def both(tensors, hiding, upstream):
        context, pull_back = jax.vjp(lambda x: attend(x, hiding), tensors)
        return context, pull_back(upstream)[0]

    return (both if jit is False else jax.jit(both))(tensors, hiding, upstream)


def _tensorflow(
    attend: Callable, tensors: list, hiding: dict, upstream: Any, jit: bool | None
) -> tuple:
    import tensorflow as tf

    @tf.function(jit_compile=bool(jit), autograph=False)
    def both(tensors, hiding, upstream):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            context = attend(tensors, hiding)
        zero = tf.UnconnectedGradients.ZERO
        return context, tape.gradient(context, tensors, upstream, unconnected_gradients=zero)

    return both(tensors, hiding, upstream)


def _torch(attend: Callable, tensors: list, hiding: dict, upstream: Any, jit: bool | None) -> tuple:
    tensors = [x.detach().clone().requires_grad_(True) for x in tensors]
    context = attend(tensors, hiding)
    context.backward(upstream)
    # None: nothing depends on it, as the weights of a single key.
    return context.detach(), [ops.zeros_like(x) if x.grad is None else x.grad for x in tensors]
