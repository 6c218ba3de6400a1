"""A loss over a large vocabulary: time and peak memory of a step, plain and in chunks."""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import KERAS_ATTN

FAMILIES = (
    KERAS_ATTN.having("keras_attn, plain loss", chunked=False),
    KERAS_ATTN.having("keras_attn, loss in chunks", chunked=True),
)


def cases(sizes: dict) -> list[Case]:
    """Each vocabulary."""
    return [
        Case(f"vocabulary {size}", "loss", FAMILIES, {"vocabulary": size})
        for size in sizes["vocabularies"]
    ]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """Peak memory in chunks beside the plain one."""
    plain = {
        (row["case"], row["group"]): row.get("peak_mb")
        for row in rows
        if row["family"] == FAMILIES[0].title
    }
    return [
        f"{row['case']}, {row['group']}: in chunks {row['peak_mb'] / peak:.2f} of the peak memory."
        for row in rows
        if row["family"] == FAMILIES[1].title
        and row.get("peak_mb")
        and (peak := plain.get((row["case"], row["group"])))
    ]


SUITE = Suite(
    "loss",
    "a training step of a last layer over a large vocabulary, plain and in chunks",
    sizes={"dim": 256, "batch": 32, "length": 128, "vocabularies": [8000, 32000]},
    quick={"dim": 16, "batch": 2, "length": 8, "vocabularies": [50]},
    cases=cases,
    remarks=remarks,
)
