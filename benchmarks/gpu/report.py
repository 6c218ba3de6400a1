"""The tables of all results in a folder: `report.md`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.speed import operations
from benchmarks.gpu.steps import Step
from benchmarks.report import number

NAME = "report.md"
Found = list[tuple[Step, dict[str, Any] | None]]

TARGETS = {"KerasHub": 1.6, "share": 0.5}


def write(steps: Sequence[Step], folder: Path, tiny: bool) -> None:
    """Writes the report of what is in the folder."""
    found: Found = []
    for step in steps:
        path = folder / f"{step.name}.json"
        read = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        found.append((step, read))
    parts = [heading(found, tiny), right(found), *fast(found), good(found), missing(found)]
    partial = folder / f"{NAME}.partial"
    partial.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    partial.replace(folder / NAME)


def summary(step: Step, record: dict[str, Any]) -> str:
    """A result in a line."""
    rows = record["rows"]
    text = "passed" if step.kind == "right" and record["status"] == "done" else record["status"]
    if step.kind == "right" and rows:
        text += f", {sum(row['ok'] for row in rows)} of {len(rows)} cases"
    message = (record.get("message") or "").strip().split("\n")
    text += f": {message[0]}" if message[0] else ""
    if len(message) > 1:
        text += f" ... {message[-1]}"
    return text[:300]


def table(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Markdown."""
    rows = [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows])


def heading(found: Found, tiny: bool) -> str:
    """What was measured on, and by which commands."""
    lines = ["# Results of `python -m benchmarks gpu`"]
    if tiny:
        lines.append("**Tiny sizes: they show that the steps run, and nothing about speed.**")
    records = [record for _, record in found if record]
    machines, commands = [], []
    for record in sorted(records, key=lambda record: record["date"]):
        device = record["machine"]
        packages = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        text = (
            f"{'; '.join(device['gpus']) or 'no GPU'}; {device['processor']}, {device['cores']} "
            f"cores, {device['memory_gb']} GB, {device['system']} {device['architecture']}; "
            f"{packages}"
        )
        if text not in machines:
            machines.append(text)
        if record["command"] not in commands:
            commands.append(record["command"])
    if records:
        dates = sorted(record["date"] for record in records)
        lines.append(f"From {dates[0]} to {dates[-1]}.")
    lines += machines
    lines.append("\n".join(f"    {command}" for command in commands))
    return "\n\n".join(line for line in lines if line)


def right(found: Found) -> str:
    """Which checks passed, and the worst errors."""
    lines, failures = [], []
    for step, record in found:
        if step.kind != "right" or not record:
            continue
        rows = record["rows"]
        worst: dict[str, tuple[float, float]] = {}
        for row in rows:
            if "error" in row:
                kind = row.get("dtype", "")
                error = float(row["error"])
                worst[kind] = max(worst.get(kind, (0.0, 0.0)), (error, row["tolerance"]))
            if not row["ok"]:
                reason = row.get("message") or (
                    f"error {number(float(row['error']))} of {row.get('where', '')}, "
                    f"tolerance {row['tolerance']:g}"
                )
                failures.append(f"- `{step.name}`: {row['name']}: {' '.join(reason.split())[:300]}")
        errors = "; ".join(
            f"{kind} {error:.1e} ({limit:g})".strip() for kind, (error, limit) in worst.items()
        )
        status = "passed" if record["status"] == "done" else record["status"]
        passed = f"{sum(row['ok'] for row in rows)} of {len(rows)}" if rows else ""
        computed = record.get("computed_on") or ""
        lines.append([step.name, status, passed, errors, computed, f"{record['seconds']:.0f} s"])
    if not lines:
        return ""
    head = ["step", "", "cases", "worst error (tolerance)", "computed on", ""]
    text = f"## Right\n\n{table(head, lines)}"
    if failures:
        more = f"\n- and {len(failures) - 30} more" if len(failures) > 30 else ""
        text += "\n\nFailures:\n\n" + "\n".join(failures[:30]) + more
    return text


def best_peak(found: Found) -> dict[str, tuple[float, str]]:
    """The greatest rate of each kind of product in TFLOP/s, and where it was reached."""
    best: dict[str, tuple[float, str]] = {}
    for step, record in found:
        if step.name.startswith("fast/peak") and record:
            framework = step.settings["framework"]
            for row in record["rows"]:
                reached = (row["tflops"], f"{framework}, {row['size']} x {row['size']}")
                best[row["kind"]] = max(best.get(row["kind"], (0.0, "")), reached)
    return best


def fast(found: Found) -> list[str]:
    """A part for each thing that was measured."""
    peaks = best_peak(found)
    parts = []
    if peaks:
        lines = [[kind, number(rate), where] for kind, (rate, where) in peaks.items()]
        parts.append("**Matrix products**\n\n" + table(["", "TFLOP/s", "best with"], lines))
    groups: dict[tuple[str, str], list[dict]] = {}
    for step, record in found:
        if step.kind != "fast" or step.name.startswith("fast/peak") or not record:
            continue
        what = step.name.split("/")[1]
        rows = record["rows"] or [
            {
                "name": case["name"],
                "contender": step.settings["contender"],
                "group": step.settings["group"],
                "status": record["status"],
            }
            for case in step.settings["cases"]
        ]
        for row in rows:
            groups.setdefault((what, row["name"]), []).append(row)
    for (what, case), rows in groups.items():
        make = encoder_table if what.startswith("encoder") else speed_table
        parts.append(f"**{what}, {case}**\n\n{make(rows, peaks)}")
    return ["## Fast", *parts] if parts else []


def name_of(row: dict[str, Any]) -> str:
    """The contender and what it runs on."""
    return f"{row['contender']}, {row['group']}" if row["group"] else row["contender"]


def ratios(rows: Sequence[dict[str, Any]], row: dict[str, Any], wanted: str = "") -> str:
    """The speed of keras_attn in the same group, or in each, divided by that of a peer.

    Args:
        rows: Of one case.
        row: One of them.
        wanted: Added for KerasHub on JAX.
    """
    if row["contender"].startswith("keras_attn") or "seconds" not in row:
        return ""
    ours: dict[str, dict] = {}
    for each in rows:
        if each["contender"].startswith("keras_attn") and "seconds" in each:
            ours.setdefault(each["group"], each)
    mates = [ours[row["group"]]] if row["group"] in ours else []
    mates = mates if row["group"] else list(ours.values())
    texts = []
    for mate in mates:
        ratio = row["seconds"]["median"] / mate["seconds"]["median"]
        text = f"{ratio:.2f}" + (f" {mate['group']}" if len(mates) > 1 else "")
        if row["contender"] == "keras_hub" and row["group"] == "JAX":
            text += wanted
        texts.append(text)
    return ", ".join(texts)


def encoder_table(rows: Sequence[dict[str, Any]], peaks: dict[str, tuple[float, str]]) -> str:
    """Milliseconds, tokens a second, and the share of the peak."""
    lines = []
    for row in rows:
        if "seconds" not in row:
            lines.append([name_of(row), row["status"], "", "", "", "", ""])
            continue
        values, seconds = row["values"], row["seconds"]
        step = [1e3 * seconds[k] / values["steps"] for k in ("median", "least", "greatest")]
        rate = operations(values) / step[0] * 1e3
        share = ""
        if "bfloat16" in peaks:
            share = f"{rate / 1e12 / peaks['bfloat16'][0]:.1%}"
            if row["contender"].startswith("keras_attn") and row["group"] == "JAX":
                share += f" (wanted: {TARGETS['share']:.0%})"
        lines.append(
            [
                name_of(row),
                f"{step[0]:.1f} ({step[1]:.1f} to {step[2]:.1f})",
                number(row["speed"]["median"]),
                number(rate / 1e12),
                share,
                number(row["peak_mb"]) if row.get("peak_mb") else "",
                ratios(rows, row, f" (wanted: {TARGETS['KerasHub']:g})"),
            ]
        )
    head = [
        "", "ms a step", "tokens/s", "TFLOP/s", "share of the peak", "peak MB",
        "keras_attn's speed / its",
    ]  # fmt: skip
    return table(head, lines)


def speed_table(rows: Sequence[dict[str, Any]], peaks: dict[str, tuple[float, str]]) -> str:
    """Milliseconds, and memory."""
    lines = []
    for row in rows:
        if "seconds" not in row:
            lines.append([name_of(row), row["status"], "", "", ""])
            continue
        seconds = [1e3 * row["seconds"][k] for k in ("median", "least", "greatest")]
        speed = f"{number(row['speed']['median'])} {row['unit']}/s" if row["unit"] else ""
        lines.append(
            [
                name_of(row),
                f"{number(seconds[0])} ({number(seconds[1])} to {number(seconds[2])})",
                speed,
                number(row["peak_mb"]) if row.get("peak_mb") else "",
                ratios(rows, row),
            ]
        )
    head = ["", "ms", "", "peak MB", "keras_attn's speed / its"]
    return table(head, lines)


def good(found: Found) -> str:
    """What trainings came to."""
    lines = []
    for step, record in found:
        for row in record["rows"] if step.kind == "good" and record else ():
            shown = [f"{k} {v}" for k, v in row.items() if k not in ("name", "signatures", "done")]
            status = "" if record["status"] == "done" else record["status"]
            lines.append([step.name, row["name"], "; ".join(shown), status])
    return f"## Good\n\n{table(['step', '', 'figures', ''], lines)}" if lines else ""


def missing(found: Found) -> str:
    """What has no result, and why."""
    lines = []
    for step, record in found:
        if record is None:
            lines.append([step.name, "not yet run"])
        elif record["status"] not in ("done", "failed"):
            lines.append([step.name, summary(step, record).replace("|", "/")])
        for row in record["rows"] if record and step.kind == "fast" else ():
            if row.get("status", "measured") != "measured":
                said = " ".join(row.get("message", "").replace("|", "/").split())[:200]
                lines.append([f"{step.name}: {row['name']}", f"{row['status']}: {said}"])
    return f"## Missing\n\n{table(['step', 'why'], lines)}" if lines else ""
