"""The table and the JSON file."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.runner import stamp

FORMAT = 1


def document(rows: list[dict], sizes: dict[str, dict], remarks: dict[str, list[str]], options: Any):
    """What is written: everything that the table was made of."""
    return {
        "format": FORMAT,
        "date": stamp(),
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "clock": options.clock,
        "device": options.device,
        "cores": options.cores or machine.available_cores(),
        "sizes": sizes,
        "rows": rows,
        "remarks": remarks,
    }


def write(path: Path, found: dict[str, Any]) -> None:
    """As JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    """A file of `write`.

    Raises:
        ValueError: For a file of something else.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(
            f"Expected a file that `python -m benchmarks run --output` wrote. Received: {path}."
        )
    return found


def number(value: float) -> str:
    """Three digits, or a whole number."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(values: dict[str, float], scale: float = 1.0) -> tuple[str, str]:
    """The median, and the range."""
    least, greatest = number(scale * values["least"]), number(scale * values["greatest"])
    return number(scale * values["median"]), f"{least} to {greatest}"


def comparison(found: dict[str, Any], named: bool) -> tuple[str, str]:
    """A ratio with its range, and its target."""
    text = f"{found['median']:.2f} ({found['least']:.2f} to {found['greatest']:.2f})"
    if named:
        text += f" {found['group']}"
    if found["target"] is None:
        return text, ""
    met = "met" if found["median"] >= found["target"] else "missed"
    return text, f"{found['target']:g}: {met}"


def cells(row: dict[str, Any]) -> list[list[str]]:
    """The lines of a row: one a comparison."""
    name = row["contender"]
    if "seconds" not in row:
        return [[name, row["status"], "", "", "", ""]]
    if row["unit"] is None:
        median, between = spread(row["seconds"], 1e3)
        median += " ms"
    else:
        median, between = spread(row["speed"])
        median += f" {row['unit']}/s"
    peak = row.get("peak_mb")
    first = [name, median, between, "" if peak is None else number(peak)]
    compared = row.get("comparisons", [])
    lines = [comparison(each, named=len(compared) > 1) for each in compared]
    if not lines:
        lines = [("1.00" if row["ours"] else "", "")]
    return [[*(first if i == 0 else ["", "", "", ""]), *line] for i, line in enumerate(lines)]


def table(rows: Sequence[dict[str, Any]], clock: str) -> str:
    """Markdown, a part for each case."""
    time = "processor time" if clock == "cpu_s" else "wall time"
    head = ["", f"median ({time})", "range", "peak MB", "keras_attn's speed / its", "target"]
    lines = []
    for case in dict.fromkeys((row["suite"], row["case"]) for row in rows):
        lines += ["", f"**{case[0]}: {case[1]}**", "", f"| {' | '.join(head)} |"]
        lines.append("|---" * len(head) + "|")
        for row in rows:
            if (row["suite"], row["case"]) == case:
                lines += [f"| {' | '.join(line)} |" for line in cells(row)]
        differing = [row for row in rows if (row["suite"], row["case"]) == case]
        differing = [row for row in differing if row.get("same", 1.0) < 1.0]
        for row in differing:
            lines.append(f"\n{row['contender']}: {row['same']:.0%} of the results are the first's.")
    return "\n".join(lines)


def heading(found: dict[str, Any]) -> str:
    """What was measured on, in a paragraph."""
    device = found["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    gpus = f", {', '.join(device['gpus'])}" if device["gpus"] else ""
    return (
        f"{device['processor']}, {device['cores']} cores, {device['memory_gb']} GB{gpus}, "
        f"{device['system']} {device['architecture']}, load {device['load'][0]}; on the "
        f"{found['device']}, {found['cores']} cores for each; {packages}\n\n    {found['command']}"
    )
