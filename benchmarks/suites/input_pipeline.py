"""Batches of token ids: how fast they are made, alone and beside training."""

from dataclasses import replace

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import KERAS_ATTN, TF_DATA

ALONE = (replace(KERAS_ATTN, keras=False), TF_DATA)
BESIDE = (
    KERAS_ATTN.having("keras_attn, TokenBatches", held=False),
    KERAS_ATTN.having("keras_attn, batches held in memory", held=True),
)


def cases(sizes: dict) -> list[Case]:
    """Alone, and an epoch of `fit`."""
    few = {"pairs": sizes["fitted"], "dropout": 0.0}
    return [
        Case("batches alone", "batches", ALONE, unit="target tokens"),
        Case("fit", "fitting", BESIDE, few, unit="target tokens"),
    ]


SUITE = Suite(
    "input",
    "batches bucketed by length, alone and beside training",
    sizes={
        "dim": 128, "layers": 2, "heads": 4, "intermediate": 512, "vocabulary": 8000,
        "longest": 128, "pairs": 20000, "fitted": 256, "batch_tokens": 2048, "multiple": 8,
        "shapes": 4,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200, "pairs": 100,
        "fitted": 24, "longest": 32, "batch_tokens": 256, "multiple": 16, "shapes": 2,
    },
    cases=cases,
)  # fmt: skip
