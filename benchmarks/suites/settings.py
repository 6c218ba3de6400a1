"""Values of a setting: a sample and a search in a new process, with one value and with more.

A row with N values has the time from an untrained model to the N-th result, and the memory of all.
"""

from benchmarks.suite import OURS, Case, Family, Suite

TASKS = Family(OURS, "benchmarks.peers.values", only=("TensorFlow", "JAX"))
JOBS = {"temperature": "sampled", "alpha": "searched"}


def cases(sizes: dict) -> list[Case]:
    """Texts by one, two and many temperatures; translations by as many length penalties."""
    return [
        Case(f"{name}, {count} value{'s' if count > 1 else ''}", job, (TASKS,), {"values": count})
        for name, job in JOBS.items()
        for count in (1, 2, sizes["many"])
    ]


def remarks(sizes: dict, rows: list[dict]) -> list[str]:
    """What the second value and each further one takes, beside the first."""
    seconds = {
        (row["contender"], row["case"].split(",")[0], row["values"]["values"]): row["seconds"]
        for row in rows
        if row.get("seconds")
    }
    lines, many = [], sizes["many"]
    for contender, name in dict.fromkeys(key[:2] for key in seconds):
        first, second, last = (
            seconds.get((contender, name, count), {}).get("median") for count in (1, 2, many)
        )
        if None not in (first, second, last):
            lines.append(
                f"{contender}, {name}: the first value takes {first:.2f} s, the second "
                f"{second - first:.2f} s, each further one {(last - second) / (many - 2):.2f} s."
            )
    return lines


SUITE = Suite(
    "settings",
    "values of a setting, in a new process",
    sizes={
        "dim": 128, "layers": 4, "heads": 4, "vocabulary": 280, "context": 256, "new": 64,
        "many": 12,
    },
    quick={
        "dim": 16, "layers": 1, "heads": 2, "vocabulary": 265, "context": 16, "new": 3, "many": 3,
    },
    cases=cases,
    fresh=True,
    remarks=remarks,
)  # fmt: skip
