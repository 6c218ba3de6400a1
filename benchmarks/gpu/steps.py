"""The steps in order of importance. Nothing heavy is imported here."""

import re
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite import Contender, Family
from benchmarks.suites.families import (
    KERAS_ATTN,
    KERAS_HUB,
    STOCK,
    TORCH,
    TORCH_COMPILED,
)


@dataclass(frozen=True)
class Step:
    """Something to do in a process of its own.

    Args:
        name: KIND/NAME; the kind is "right", "fast" or "good".
        work: MODULE:FUNCTION, a generator `(settings, progress)` of rows.
        seconds: How long it may take on a GPU: an estimate, which decides whether it is begun.
        settings: Handed to it.
        tiny: Settings in place of these for `--tiny`.
        backend: For KERAS_BACKEND; None: it uses no framework itself.
        requires: Packages that it needs.
        device: Where alone it makes sense; None: anywhere.
        sliced: Whether it saves its state and goes on in another call.
        by_parts: Whether its rows can be done one by one where the process dies.
        environment: More of the environment.
    """

    name: str
    work: str
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)
    tiny: dict[str, Any] = field(default_factory=dict)
    backend: str | None = "jax"
    requires: tuple[str, ...] = ()
    device: str | None = None
    sliced: bool = False
    by_parts: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What it is for."""
        return self.name.split("/")[0]

    @property
    def limit(self) -> float:
        """Seconds after which it is ended."""
        return max(120.0, 3 * self.seconds)

    def sizes(self, tiny: bool) -> dict[str, Any]:
        """Its settings."""
        return {**self.settings, **(self.tiny if tiny else {})}


FULL_PRECISION = {"NVIDIA_TF32_OVERRIDE": "0"}
KERNEL_SIZES = {
    "lengths": [
        [128, 128], [129, 129], [127, 256], [256, 127], [1, 128], [1, 1], [512, 512], [130, 62],
    ],
    "heads": [[4, 4], [4, 2], [3, 1]],
    "width": 64,
    "dtypes": ["float32", "bfloat16", "float16"],
    "every": {"float16": 3},
}  # fmt: skip
TINY_KERNEL_SIZES = {
    "lengths": [[8, 8], [7, 9], [9, 7], [1, 5]],
    "heads": [[2, 2], [4, 2]],
    "width": 8,
    "dtypes": ["float32", "bfloat16"],
    "every": {"float32": 5, "bfloat16": 11},
    "chunk": 4,
}


def kernels(backend: str, kernel: str, seconds: float) -> Step:
    """A kernel against float64."""
    settings = {**KERNEL_SIZES, "kernel": kernel}
    if kernel == "flash" and backend == "jax":
        settings |= {"dtypes": ["bfloat16", "float16"], "every": {"float16": 3}}
    if kernel == "chunked":
        settings["chunk"] = 64  # several chunks at these lengths
    tiny = dict(TINY_KERNEL_SIZES)
    if backend == "tensorflow":
        settings["jit"] = [False, True]
    return Step(
        f"right/kernels-{backend}-{'cudnn' if (backend, kernel) == ('jax', 'flash') else kernel}",
        "benchmarks.gpu.kernels:check",
        seconds,
        settings,
        tiny,
        backend,
        requires=(backend, "keras"),
        by_parts=True,
        environment=FULL_PRECISION,
    )


# BERT-base's encoder.
ENCODER = {
    "dim": 768, "layers": 12, "heads": 12, "intermediate": 3072, "vocabulary": 30522,
    "length": 512, "policy": "mixed_bfloat16",
}  # fmt: skip
TINY_ENCODER = {
    "dim": 16, "layers": 1, "heads": 2, "intermediate": 32, "vocabulary": 50,
    "length": 8, "policy": "mixed_bfloat16", "steps": 2, "batch": 2,
}  # fmt: skip
STEPS_OF_BATCH = {32: 100, 128: 30}  # of a round: some seconds
DROPOUT = 0.1


def encoder(batch: int, family: Family, group: str, seconds: float) -> Step:
    """Training steps of a contender, without dropout and with it."""
    contender = Contender(family, group)
    cases = [{"name": f"dropout {rate:g}", "values": {"dropout": rate}} for rate in (0.0, DROPOUT)]
    if contender.ours:
        cases.append(
            {
                "name": f"dropout {DROPOUT:g}, not of attention weights",
                "values": {"dropout": DROPOUT},
                "job": {"settings": {**contender.settings, "attention_dropout": False}},
            }
        )
    sizes = {**ENCODER, "batch": batch, "steps": STEPS_OF_BATCH[batch]}
    cases = [{"function": "bert_encoder", "unit": "tokens", **case} for case in cases]
    return measured(f"encoder-{batch}x512", contender, sizes, TINY_ENCODER, cases, seconds)


def measured(
    what: str,
    contender: Contender,
    sizes: dict[str, Any],
    tiny: dict[str, Any],
    cases: list[dict],
    seconds: float,
    tiny_cases: list[dict] | None = None,
) -> Step:
    """A step of `speed.measure`."""
    family, group = contender.family, contender.group
    backend = contender.backend if group else "torch"
    name = "-".join([family.title, *([group] if group else [])])
    return Step(
        f"fast/{what}/{re.sub(r'[^a-z0-9_]+', '-', name.lower())}",
        "benchmarks.gpu.speed:measure",
        seconds,
        {
            "contender": family.title,
            "group": group,
            "job": {"module": family.module, "settings": contender.settings},
            "sizes": sizes,
            "cases": cases,
            "rounds": 3,
        },
        {"sizes": {**sizes, **tiny}, "cases": tiny_cases or cases, "rounds": 2},
        backend,
        requires=(backend, *(("keras",) if group else ()), *family.requires),
    )


def peak(framework: str) -> Step:
    """The rate of matrix products."""
    settings = {
        "framework": framework,
        "kinds": ["bfloat16", "tf32", "float32"],
        "sizes": [4096, 8192, 16384],
        "operations": 2e13,
    }
    tiny = {"sizes": [64, 128], "operations": 1e7}
    return Step(
        f"fast/peak-{framework}",
        "benchmarks.gpu.speed:peak",
        20,
        settings,
        tiny,
        framework,
        requires=(framework,),
    )


def steps() -> list[Step]:
    """All of them, most important first."""
    return [
        kernels("jax", "flash", 60),
        kernels("jax", "plain", 60),
        kernels("jax", "chunked", 90),
        peak("jax"),
        encoder(32, KERAS_ATTN, "JAX", 90),
        encoder(32, KERAS_HUB, "JAX", 70),
        peak("torch"),
        encoder(32, TORCH_COMPILED, "", 80),
        encoder(32, TORCH, "", 40),
        encoder(32, STOCK, "JAX", 70),
    ]
