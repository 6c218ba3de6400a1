"""Statistics of rounds."""

import statistics
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

from benchmarks.suite import Target


def summarize(row: dict[str, Any], clock: str) -> None:
    """Adds the median and the spread of a row's rounds, in seconds and as a speed."""
    seconds = [found[clock] for found in row["rounds"]]
    if not seconds:
        row["status"] = "not measured" if row["status"] == "measured" else row["status"]
        return
    row["clock"] = clock
    row["seconds"] = {
        "median": statistics.median(seconds),
        "least": min(seconds),
        "greatest": max(seconds),
    }
    if row["unit"] is not None:
        row["speed"] = {
            "median": row["amount"] / row["seconds"]["median"],
            "least": row["amount"] / row["seconds"]["greatest"],
            "greatest": row["amount"] / row["seconds"]["least"],
        }


def ratio(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    """Our speed divided by theirs: the median of the rounds' ratios, and their range.

    Where not all take the same time for the same amount, speeds are of the amount.
    """
    clock = ours["clock"]
    share = ours.get("amount", 1.0) / theirs.get("amount", 1.0)
    found = [
        share * b[clock] / a[clock] for a, b in zip(ours["rounds"], theirs["rounds"], strict=False)
    ]
    return {"median": statistics.median(found), "least": min(found), "greatest": max(found)}


def compare(rows: list[dict[str, Any]], targets: Sequence[Target] = ()) -> None:
    """Adds to each measured peer its comparisons with ours.

    A peer on Keras is compared with ours of the same group; one on its own framework with all of
    ours. Where there are several of ours in a group, the first one counts.
    """
    ours = {}
    for row in rows:
        if row["ours"] and "seconds" in row:
            ours.setdefault(row["group"], row)
    for row in rows:
        if "seconds" not in row or ours.get(row["group"]) is row:
            continue
        mates = [ours[row["group"]]] if row["group"] in ours else []
        mates = mates if row["group"] else list(ours.values())
        row["comparisons"] = [
            {
                "with": mate["contender"],
                "group": mate["group"],
                **ratio(mate, row),
                "target": target_of(row, mate["group"], targets),
            }
            for mate in mates
        ]


def target_of(row: dict[str, Any], group: str, targets: Sequence[Target]) -> float | None:
    """The least ratio wanted."""
    for target in targets:
        fits = fnmatch(row["case"], target.case) and row["family"] == target.family
        if fits and (not target.groups or group in target.groups):
            return target.ratio
    return None
