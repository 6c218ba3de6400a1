"""Attention over long inputs: time and peak memory of a step of one layer, by length."""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import KERAS_ATTN, PYTORCH, STOCK

FAMILIES = (
    KERAS_ATTN.having(kernel="auto"),
    KERAS_ATTN.having("keras_attn, plain kernel", kernel="plain"),
    KERAS_ATTN.having("keras_attn, chunked kernel", kernel="chunked"),
    STOCK.having("keras.layers.MultiHeadAttention"),
    PYTORCH.having("PyTorch SDPA"),
)


def cases(sizes: dict) -> list[Case]:
    """Each length; long ones take one round, without a warm-up beside the first step."""
    return [
        Case(
            f"length {length}",
            "attention",
            FAMILIES,
            {"length": length, "warm_up": length <= sizes["warm"]},
            rounds=None if length <= sizes["warm"] else 1,
        )
        for length in sizes["lengths"]
    ]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """How memory grew from the shorter to the longer end, where both were measured."""
    lines = []
    for name in dict.fromkeys(row["contender"] for row in rows if row["ours"]):
        peaks = {
            row["values"]["length"]: row["peak_mb"]
            for row in rows
            if row["contender"] == name and row.get("peak_mb")
        }
        longer = [length for length in peaks if length >= sizes["from"]]
        if len(longer) < 2:
            continue
        first, last = min(longer), max(longer)
        grown = peaks[last] / peaks[first]
        lines.append(
            f"{name}: from {first} to {last} tokens ({last / first:g} times), {grown:.1f} times "
            f"the peak memory; wanted: at most {last / first:g} times."
        )
    return lines


SUITE = Suite(
    "memory",
    "attention over long inputs, forward and backward: time and peak memory by length",
    sizes={
        "heads": 8, "dim": 512, "batch": 1, "warm": 4096, "from": 4096,
        "lengths": [512, 1024, 2048, 4096, 8192, 16384, 32768],
    },
    quick={"heads": 2, "dim": 16, "lengths": [32, 64], "from": 32},
    cases=cases,
    remarks=remarks,
)  # fmt: skip
