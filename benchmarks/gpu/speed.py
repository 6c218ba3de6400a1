"""Speed and memory on the device, by the jobs of `benchmarks.peers`."""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.child import OUT_OF_MEMORY, Contender
from benchmarks.gpu.progress import Progress
from benchmarks.summary import summarize


def measure(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """A row a case: seconds of the rounds, and the peak of memory until then."""
    for case in settings["cases"]:
        if case["name"] in progress.done:
            continue
        progress.begin(case["name"])
        values = {**settings["sizes"], **case["values"]}
        row = {
            "name": case["name"],
            "contender": settings["contender"],
            "group": settings["group"],
            "unit": case["unit"],
            "values": values,
            "status": "measured",
            "rounds": [],
        }
        try:
            job = {**settings["job"], **case.get("job", {})}
            row |= rounds(case, values, job, settings["rounds"])
            summarize(row, "wall_s")
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            row["status"] = "out of memory" if OUT_OF_MEMORY.search(said) else "error"
            row["message"] = said[:1000]
        yield row
        gc.collect()


def rounds(case: dict, values: dict, job: dict, count: int) -> dict[str, Any]:
    """Runs a job."""
    if values.get("policy") and not job["module"].endswith(".torch_nn"):
        import keras

        keras.config.set_dtype_policy(values["policy"])
    contender = Contender()
    found = contender.prepare(
        job["module"], case["function"], values, job["settings"], memory_limit=None
    )
    del found["result"]
    return {
        **found,
        "rounds": [contender.run(found["repeats"]) for _ in range(count)],
        **contender.memory(),
    }


def peak(settings: dict[str, Any], progress: Progress) -> Iterator[dict[str, Any]]:
    """The rate of matrix products of random numbers, by dtype and size: what a share is of."""
    framework = {"jax": _jax_product, "torch": _torch_product}[settings["framework"]]
    for kind in settings["kinds"]:
        for size in settings["sizes"]:
            name = f"{kind} {size}"
            if name in progress.done:
                continue
            progress.begin(name)
            product = framework(kind, size)
            product(2)
            count = max(1, round(settings["operations"] / size**3))
            best = min(_seconds(product, count) for _ in range(3))
            rate = 2 * size**3 * count / best
            yield {"name": name, "kind": kind, "size": size, "tflops": rate / 1e12}


def _seconds(product: Callable[[int], None], count: int) -> float:
    began = time.perf_counter()
    product(count)
    return time.perf_counter() - began


def _jax_product(kind: str, size: int) -> Callable[[int], None]:
    import jax

    dtype = "bfloat16" if kind == "bfloat16" else "float32"
    precision = {"tf32": "tensorfloat32", "float32": "highest"}.get(kind)
    keys = jax.random.split(jax.random.key(0))
    a, b = (jax.random.normal(key, (size, size), dtype) for key in keys)
    multiply = jax.jit(lambda a, b: jax.numpy.matmul(a, b, precision=precision))

    def run(count: int) -> None:
        for _ in range(count):
            found = multiply(a, b)
        found.block_until_ready()

    return run


def _torch_product(kind: str, size: int) -> Callable[[int], None]:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))

    def run(count: int) -> None:
        for _ in range(count):
            found = a @ b
        found[0, 0].item()  # all are done: they are in one stream

    return run


def operations(values: dict[str, Any]) -> float:
    """Of a training step of an encoder, counted as of its matrix products alone.

    6 times weights and tokens, and 12 times layers, width, length and tokens for the attention. A
    product of a weight and a number counts as two operations; a step is three forward passes.
    Weights are those of the blocks' matrices; recomputing is not counted.
    """
    D, F, layers = values["dim"], values["intermediate"], values["layers"]
    weights = layers * (4 * D * D + 2 * D * F)
    tokens = values["batch"] * values["length"]
    return 6.0 * weights * tokens + 12.0 * layers * D * values["length"] * tokens
