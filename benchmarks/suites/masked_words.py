"""Training steps of BERT on masked words: `model.fit`, from ids to a step of Adam.

The blocks are those of the suite `training`, between embeddings and the head of masked words. All
contenders read the same rows, have the same initial weights, and minimize the same loss; each has
the one that its users have.
"""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import BERT, HUB_BERT, PRODUCTS


def cases(sizes: dict) -> list[Case]:
    """Each length with its heads, without dropout and with it."""
    return [
        Case(
            f"length {length}, {heads} heads" + (f", dropout {rate:g}" if rate else ""),
            "masked_words",
            (BERT, HUB_BERT) if rate else (BERT, HUB_BERT, PRODUCTS),
            {"length": length, "longest": length, "heads": heads, "dropout": rate},
            "tokens",
        )
        for length, heads in zip(sizes["lengths"], sizes["head_counts"], strict=False)
        for rate in (0.0, sizes["dropout"])
    ]


SUITE = Suite(
    "masked_words",
    "training steps of BERT on masked words, by fit",
    sizes={
        "dim": 256, "layers": 4, "intermediate": 1024, "vocabulary": 8000, "batch": 32,
        "steps": 8, "dropout": 0.1, "share": 0.15, "lengths": [64, 128], "head_counts": [8, 4],
    },
    quick={
        "dim": 32, "layers": 1, "intermediate": 64, "vocabulary": 200, "batch": 4, "steps": 2,
        "lengths": [16], "head_counts": [2],
    },
    cases=cases,
)  # fmt: skip
