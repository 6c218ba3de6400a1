"""An encoder block by width, batch and length, beside its counted operations.

A forward pass of a block of width D, with a feed-forward network of 4 D, over B sequences of N
tokens multiplies and adds

    B (24 N D^2 + 4 N^2 D)

times, and a training step three times that: O(N D^2) + O(N^2 D).
"""

from benchmarks.suite import Case, Suite
from benchmarks.suites.families import KERAS_ATTN, KERAS_HUB


def operations(batch: int, length: int, dim: int) -> float:
    """Of a training step of a block."""
    return 3.0 * batch * (24 * length * dim**2 + 4 * length**2 * dim)


def cases(sizes: dict) -> list[Case]:
    """One of the three grows, the others stay."""
    base = {"dim": sizes["dim"], "batch": sizes["batch"], "length": sizes["length"]}
    found = []
    for name, values in (
        ("width", {"dim": sizes["widths"]}),
        ("batch", {"batch": sizes["batches"]}),
        ("length", {"length": sizes["lengths"]}),
    ):
        key, grown = next(iter(values.items()))
        for value in grown:
            these = {**base, key: value}
            these |= {
                "heads": max(1, these["dim"] // sizes["head"]),
                "intermediate": 4 * these["dim"],
                "flops": operations(these["batch"], these["length"], these["dim"]),
                "axis": name,
                "value": value,
            }
            found.append(Case(f"{name} {value}", "encoder_stack", (KERAS_ATTN, KERAS_HUB), these))
    return found


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """Counted and measured growth of each axis."""
    lines = []
    for name in dict.fromkeys(row["contender"] for row in rows):
        for axis in ("width", "batch", "length"):
            found = [
                (row["values"]["flops"], row["seconds"]["median"])
                for row in rows
                if row["contender"] == name and row["values"]["axis"] == axis and "seconds" in row
            ]
            if len(found) < 2:
                continue
            (few, short), (many, long) = found[0], found[-1]
            lines.append(
                f"{name}, by {axis}: {many / few:.1f} times the operations, {long / short:.1f} "
                f"times the time; {many / long / 1e9:.0f} GFLOP/s at the end."
            )
    return lines


SUITE = Suite(
    "scaling",
    "a training step of an encoder block by width, batch and length, and counted operations",
    sizes={
        "dim": 256, "batch": 8, "length": 128, "head": 64, "layers": 1, "steps": 1,
        "dropout": 0.0, "widths": [64, 128, 256, 512], "batches": [1, 4, 16, 64],
        "lengths": [32, 128, 512, 1024],
    },
    quick={
        "dim": 32, "batch": 2, "length": 8, "head": 16, "widths": [16, 32], "batches": [1, 2],
        "lengths": [8, 16],
    },
    cases=cases,
    remarks=remarks,
)  # fmt: skip
