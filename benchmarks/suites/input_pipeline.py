"""Batches of token ids: how fast they are made, alone and beside training; buckets and packing."""

from dataclasses import replace

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import KERAS_ATTN, TF_DATA

ALONE = (replace(KERAS_ATTN, keras=False), TF_DATA)
BESIDE = (
    KERAS_ATTN.having("keras_attn, TokenBatches", held=False),
    KERAS_ATTN.having("keras_attn, batches held in memory", held=True),
)
PACKED = (
    KERAS_ATTN.having("keras_attn, bucketed", packed=False),
    KERAS_ATTN.having("keras_attn, packed rows", packed=True),
)


def cases(sizes: dict) -> list[Case]:
    """Alone, an epoch of `fit`, and an epoch on packed rows beside bucketed batches."""
    few = {"pairs": sizes["fitted"], "dropout": 0.0}
    whole = {"pairs": sizes["packed"], "dropout": 0.0}
    return [
        Case("batches alone", "batches", ALONE, unit="target tokens"),
        Case("fit", "fitting", BESIDE, few, unit="target tokens"),
        Case("packing", "packing", PACKED, whole, unit="target tokens"),
    ]


SUITE = Suite(
    "input",
    "batches bucketed by length, alone and beside training",
    sizes={
        "dim": 128, "layers": 2, "heads": 4, "intermediate": 512, "vocabulary": 8000,
        "longest": 128, "pairs": 20000, "fitted": 256, "packed": 512, "batch_tokens": 2048,
        "multiple": 8, "shapes": 4, "row": 128,
    },
    quick={
        "dim": 32, "layers": 1, "heads": 2, "intermediate": 64, "vocabulary": 200, "pairs": 100,
        "fitted": 24, "packed": 24, "row": 32, "longest": 32, "batch_tokens": 256, "multiple": 16,
        "shapes": 2,
    },
    cases=cases,
)  # fmt: skip
