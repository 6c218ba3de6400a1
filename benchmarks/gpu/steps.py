"""The steps in order of importance. Nothing heavy is imported here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite import Contender, Family
from benchmarks.suites.families import (
    BERT,
    HUB_BERT,
    KERAS_ATTN,
    KERAS_HUB,
    MARIAN,
    PRODUCTS,
    STOCK,
    TORCH,
    TORCH_COMPILED,
)
from benchmarks.suites.memory import FAMILIES as ATTENTION


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
        most: Seconds after which it is ended; three times `seconds` if None, and 120 at least.
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
    most: float | None = None

    @property
    def kind(self) -> str:
        """What it is for."""
        return self.name.split("/")[0]

    @property
    def limit(self) -> float:
        """Seconds after which it is ended."""
        return max(120.0, 3 * self.seconds) if self.most is None else self.most

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
    """A kernel, or the one that a layer chooses, against float64."""
    settings = {**KERNEL_SIZES, "kernel": kernel}
    if kernel == "flash" and backend == "jax":
        settings |= {"dtypes": ["bfloat16", "float16"], "every": {"float16": 3}}
    if kernel == "chunked":
        settings["chunk"] = 64  # several chunks at these lengths
    tiny = dict(TINY_KERNEL_SIZES)
    if kernel == "layer":
        settings["lengths"] = [[128, 128], [129, 129], [127, 256], [1, 128]]
    if backend == "tensorflow":
        settings |= {"jit": [False, True], "every": {"float32": 2, "bfloat16": 4, "float16": 8}}
    which = "cudnn" if (backend, kernel) == ("jax", "flash") else kernel
    return Step(
        f"right/layers-{backend}" if kernel == "layer" else f"right/kernels-{backend}-{which}",
        "benchmarks.gpu.kernels:check",
        seconds,
        settings,
        tiny,
        backend,
        requires=(backend, "keras"),
        by_parts=True,
        environment=FULL_PRECISION,
    )


MODELS = (
    "transformer",
    "transformer, RMS norm, rotary, gated",
    "classifier",
    "GRU, additive attention",
    "LSTM, Luong's attention",
    "language model",
)
SMALL = {
    "dim": 64, "layers": 2, "heads": 4, "intermediate": 128, "vocabulary": 300,
    "source": 24, "target": 24, "batch": 16, "beam": 4, "steps": 20,
    "longest": 40, "pairs": 32, "sentences": 32, "multiple": 8,
}  # fmt: skip
TINY_SMALL = {
    "dim": 16, "layers": 1, "heads": 2, "intermediate": 16, "vocabulary": 40,
    "source": 6, "target": 5, "batch": 3, "beam": 2, "steps": 3,
    "longest": 10, "pairs": 4, "sentences": 4, "multiple": 4,
}  # fmt: skip


def models(backend: str, seconds: float) -> Step:
    """Small models on the device beside the CPU."""
    jits = {"tensorflow": [False, True], "jax": [True], "torch": [False]}[backend]
    settings = {
        "backend": backend,
        "models": list(MODELS),
        "sizes": SMALL,
        "jits": jits,
        # XLA does not suit loops over time on TensorFlow: there they are not compiled by it.
        "without_xla": list(MODELS[3:]) if backend == "tensorflow" else [],
        "policies": ["float32", "mixed_bfloat16"],
    }
    tiny = {"sizes": TINY_SMALL, "policies": ["float32"], "models": list(MODELS[:4:2])}
    return Step(
        f"right/models-{backend}",
        "benchmarks.gpu.models:compare",
        seconds,
        settings,
        tiny,
        None,
        requires=(backend, "keras"),
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
STEPS_OF_BATCH = {32: 60, 128: 20}  # of a round: some seconds
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
        requires=tuple(dict.fromkeys((backend, *(["keras"] * bool(group)), *family.requires))),
    )


MASKED_WORDS = {
    "dim": 768, "layers": 12, "heads": 12, "intermediate": 3072, "vocabulary": 30522,
    "batch": 64, "length": 128, "longest": 128, "steps": 8, "dropout": 0.1, "share": 0.15,
}  # fmt: skip
TINY_MASKED_WORDS = {
    "dim": 16, "layers": 1, "heads": 2, "intermediate": 32, "vocabulary": 60, "batch": 4,
    "length": 16, "longest": 16, "steps": 2,
}  # fmt: skip


def masked_words(family: Family, group: str, seconds: float) -> Step:
    """Training steps of BERT-base on masked words."""
    case = {
        "name": "dropout 0.1",
        "function": "masked_words",
        "values": {"policy": "mixed_bfloat16"},
        "unit": "tokens",
    }
    contender = Contender(family, group)
    return measured("masked-words", contender, MASKED_WORDS, TINY_MASKED_WORDS, [case], seconds)


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


DECODING = {
    "dim": 512, "layers": 6, "heads": 8, "intermediate": 2048, "vocabulary": 8000,
    "source": 64, "target": 64,
}  # fmt: skip
TINY_DECODING = {
    "dim": 16, "layers": 1, "heads": 2, "intermediate": 32, "vocabulary": 60,
    "source": 6, "target": 5,
}  # fmt: skip


def decoding(family: Family, group: str, seconds: float) -> Step:
    """Greedy and beam search with caches, of one sentence and of many."""

    def cases(batches: Sequence[int], beams: Sequence[int]) -> list[dict]:
        return [
            {
                "name": f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}",
                "function": "decoding",
                "values": {"batch": batch, "beams": beam},
                "unit": "sentences",
            }
            for beam in beams
            for batch in batches
        ]

    contender, many = Contender(family, group), cases((1, 64), (1, 4))
    few = cases((2,), (1, 2))
    return measured("decoding", contender, DECODING, TINY_DECODING, many, seconds, few)


def memory(family: Family, group: str, seconds: float) -> Step:
    """A step of one layer of attention over long inputs."""

    def cases(lengths: Sequence[int]) -> list[dict]:
        return [
            {
                "name": f"length {length}",
                "function": "attention",
                "values": {"length": length},
                "unit": None,
            }
            for length in lengths
        ]

    sizes = {"heads": 8, "dim": 512, "batch": 1, "policy": "mixed_bfloat16"}
    many, few = cases((4096, 8192, 16384, 32768)), cases((8, 16))
    tiny = {"heads": 2, "dim": 16}
    return measured("memory", Contender(family, group), sizes, tiny, many, seconds, few)


def multi30k(direction: str, seed: int) -> Step:
    """A translator."""
    small = ["--epochs", "1", "--dim", "16", "--num-layers", "1", "--intermediate-dim", "16"]
    small += ["--score-pairs", "2", "--score-beams", "1", "--tokens-per-batch", "1000000"]
    return Step(
        f"good/multi30k-{direction}-{seed}",
        "benchmarks.gpu.quality:translation",
        120,  # the least that is worth a slice
        {"direction": direction, "seed": seed, "backend": "jax", "options": []},
        {"options": small},
        None,
        requires=("jax", "keras", "click", "tokenizers", "sacrebleu"),
        sliced=True,
    )


def tiny_shakespeare(seed: int) -> Step:
    """A recurrent language model of characters."""
    large = ["--num-layers", "2", "--units", "512", "--dropout", "0.4", "--epochs", "30"]
    small = ["--units", "16", "--epochs", "1", "--sequence-length", "32"]
    return Step(
        f"good/tiny-shakespeare-{seed}",
        "benchmarks.gpu.quality:text_generation",
        120,
        {"seed": seed, "backend": "jax", "options": large},
        {"options": small},
        None,
        requires=("jax", "keras", "click"),
        sliced=True,
    )


def pretraining(seed: int) -> Step:
    """An encoder on plain text: masked words and next sentences."""
    large = ["--epochs", "20", "--batch-size", "256", "--learning-rate", "1e-3"]
    large += ["--dim", "512", "--num-layers", "8", "--num-heads", "8"]
    large += ["--intermediate-dim", "2048", "--precision", "mixed_bfloat16"]
    small = ["--dim", "16", "--num-layers", "1", "--num-heads", "2", "--intermediate-dim", "16"]
    small += ["--epochs", "1", "--batch-size", "256", "--max-length", "32"]
    return Step(
        f"good/pretraining-{seed}",
        "benchmarks.gpu.quality:pretraining",
        120,
        {"seed": seed, "backend": "jax", "options": large},
        {"options": small},
        None,
        requires=("jax", "keras", "click", "tokenizers"),
        sliced=True,
    )


def steps() -> list[Step]:
    """All of them, most important first."""
    auto, plain, chunked, stock, sdpa = ATTENTION
    return [
        kernels("jax", "flash", 60),
        kernels("jax", "plain", 60),
        kernels("jax", "chunked", 90),
        kernels("jax", "layer", 60),
        models("jax", 150),
        models("tensorflow", 240),
        kernels("tensorflow", "plain", 120),
        kernels("tensorflow", "chunked", 150),
        kernels("tensorflow", "layer", 90),
        peak("jax"),
        encoder(32, KERAS_ATTN, "JAX", 90),
        encoder(32, KERAS_HUB, "JAX", 70),
        encoder(128, KERAS_ATTN, "JAX", 100),
        encoder(128, KERAS_HUB, "JAX", 80),
        encoder(32, TORCH_COMPILED, "", 80),
        memory(auto, "JAX", 60),
        decoding(KERAS_ATTN, "JAX", 90),
        decoding(KERAS_HUB, "JAX", 120),
        encoder(32, TORCH, "", 40),
        encoder(32, STOCK, "JAX", 70),
        encoder(128, TORCH_COMPILED, "", 80),
        encoder(128, TORCH, "", 50),
        encoder(128, STOCK, "JAX", 80),
        memory(sdpa, "", 40),
        memory(chunked, "JAX", 90),
        memory(plain, "JAX", 60),
        memory(stock, "JAX", 60),
        *(multi30k(direction, seed) for seed in range(3) for direction in ("de-en", "en-de")),
        *(tiny_shakespeare(seed) for seed in range(1)),
        masked_words(BERT, "JAX", 120),
        masked_words(HUB_BERT, "JAX", 120),
        *(pretraining(seed) for seed in range(1)),
        encoder(32, KERAS_ATTN, "TensorFlow XLA", 240),
        encoder(32, KERAS_HUB, "TensorFlow XLA", 200),
        encoder(32, STOCK, "TensorFlow XLA", 200),
        decoding(KERAS_ATTN, "TensorFlow XLA", 150),
        decoding(KERAS_HUB, "TensorFlow XLA", 200),
        kernels("torch", "flash", 30),
        kernels("torch", "plain", 30),
        kernels("torch", "chunked", 40),
        kernels("torch", "layer", 30),
        models("torch", 120),
        peak("torch"),
        encoder(32, KERAS_ATTN, "PyTorch", 60),
        encoder(32, KERAS_HUB, "PyTorch", 60),
        decoding(MARIAN, "", 60),
        decoding(PRODUCTS, "JAX", 60),
    ]
