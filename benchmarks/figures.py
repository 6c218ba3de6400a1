"""Figures of what a run found."""

from pathlib import Path
from typing import Any

from benchmarks.report import number

HEIGHT = 0.27  # inches of a bar
OURS, PEERS = "#0b6e99", "#b5bcc2"
COLOURS = ("#0b6e99", "#d9730d", "#4d6461", "#ad1a72", "#937264", "#6940a5", "#dfab01", "#e03e3e")


def draw(found: dict[str, Any], folder: Path) -> list[Path]:
    """Draws a PNG for each suite of a document; returns their paths.

    Raises:
        ValueError: If nothing was measured.
    """
    suites = list(dict.fromkeys(row["suite"] for row in found["rows"] if "seconds" in row))
    if not suites:
        raise ValueError("Expected a file with measured rows. Received: none.")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suite in suites:
        rows = [row for row in found["rows"] if row["suite"] == suite]
        figure = {"memory": by_length, "scaling": by_axis}.get(suite, bars)(rows)
        path = folder / f"{suite}.png"
        figure.savefig(path, dpi=120)
        paths.append(path)
    return paths


def new_figure(width: float, height: float) -> Any:
    """An empty one, without the global state of pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(
            "Expected matplotlib, which draws. Received: none; pip install matplotlib"
        ) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def colours(rows: list[dict]) -> dict[str, str]:
    """One for each contender."""
    names = list(dict.fromkeys(row["contender"] for row in rows))
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}


def bars(rows: list[dict]) -> Any:
    """Speeds, or times, of each case: medians, with the range of the rounds."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    groups = [[row for row in rows if row["case"] == case] for case in cases]
    heights = [HEIGHT * len(group) + 0.7 for group in groups]
    figure = new_figure(8, sum(heights))
    axes = figure.subplots(len(cases), squeeze=False, height_ratios=heights)[:, 0]
    for axis, case, group in zip(axes, cases, groups, strict=True):
        faster = group[0]["unit"] is not None
        key, scale = ("speed", 1.0) if faster else ("seconds", 1e3)
        unit = f"{group[0]['unit']}/s" if faster else "ms"
        axis.set_title(f"{case}: {unit}", loc="left", fontsize=10)
        for i, row in enumerate(group):
            if key not in row:
                axis.text(0, i, f" {row['status']}", va="center", fontsize=8)
                continue
            middle, least, most = (scale * row[key][k] for k in ("median", "least", "greatest"))
            error = [[middle - least], [most - middle]]
            colour = OURS if row["ours"] else PEERS
            axis.barh(i, middle, 0.7, xerr=error, color=colour, ecolor="0.3")
            axis.text(most, i, f" {number(middle)}", va="center", fontsize=8)
        axis.set_yticks(range(len(group)), [row["contender"] for row in group], fontsize=8)
        axis.set_ylim(len(group) - 0.4, -0.6)
        plain(axis)
    return figure


def plain(axis: Any) -> None:
    """Without a box."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", labelsize=8)


def by_length(rows: list[dict]) -> Any:
    """Peak memory and time of each contender by length; a cross where memory ran out."""
    figure = new_figure(10, 4.5)
    panels = (
        ("peak memory, MB", lambda row: row.get("peak_mb")),
        ("a step, s", lambda row: row.get("seconds", {}).get("median")),
    )
    axes = figure.subplots(1, 2)
    for axis, (title, value) in zip(axes, panels, strict=True):
        for name, colour in colours(rows).items():
            own = [row for row in rows if row["contender"] == name]
            points = [(row["values"]["length"], value(row)) for row in own if value(row)]
            if not points:
                continue
            line = "-o" if own[0]["ours"] else "--s"
            axis.plot(*zip(*points, strict=True), line, color=colour, label=name, markersize=4)
            ended = [row["values"]["length"] for row in own if row["status"] == "out of memory"]
            if ended:
                axis.plot(min(ended), points[-1][1], "x", color=colour, markersize=9)
        log_log(axis, title)
        axis.set_xlabel("length; a cross: out of memory", fontsize=8)
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def log_log(axis: Any, title: str) -> None:
    """Both axes in powers."""
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_title(title, loc="left", fontsize=10)
    plain(axis)


def by_axis(rows: list[dict]) -> Any:
    """Measured time by width, batch and length; dotted, the counted operations at one speed."""
    names = list(dict.fromkeys(row["values"]["axis"] for row in rows))
    figure = new_figure(4 * len(names), 4)
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, names, strict=True):
        here = [row for row in rows if row["values"]["axis"] == name and "seconds" in row]
        for contender, colour in colours(rows).items():
            own = [row for row in here if row["contender"] == contender]
            if not own:
                continue
            grown = [row["values"]["value"] for row in own]
            times = [1e3 * row["seconds"]["median"] for row in own]
            counted = [row["values"]["flops"] for row in own]
            axis.plot(grown, times, "-o", color=colour, label=contender, markersize=4)
            speed = counted[-1] / times[-1]
            axis.plot(grown, [flops / speed for flops in counted], ":", color=colour, linewidth=1)
        log_log(axis, f"by {name}")
    axes[0].set_ylabel("a step, ms; dotted: operations / speed at the end", fontsize=8)
    axes[0].legend(fontsize=7, frameon=False)
    return figure
