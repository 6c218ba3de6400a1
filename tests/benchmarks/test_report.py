"""The table, the JSON file and the figures."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import report
from benchmarks.runner import agreement
from benchmarks.suite import OURS, Target
from benchmarks.summary import compare, summarize

ROOT = Path(__file__).parents[2]


def rows_of(suite, case="greedy", values=None):
    made = []
    for family, group, seconds, status in [
        (OURS, "JAX", [1.0, 2.0], "measured"),
        ("hub", "JAX", [3.0, 4.0], "measured"),
        ("foreign", "", [], "out of memory"),
    ]:
        row = {
            "suite": suite, "case": case, "contender": f"{family}, {group}".strip(", "),
            "family": family, "group": group, "ours": family == OURS, "unit": "tokens",
            "values": values or {}, "amount": 300.0, "status": status, "peak_mb": 12.5,
            "rounds": [{"wall_s": s, "cpu_s": s} for s in seconds],
        }  # fmt: skip
        summarize(row, "wall_s")
        made.append(row)
    compare(made, [Target("*", "hub", 2.0)])
    return made


def document(rows):
    options = SimpleNamespace(clock="wall_s", device="cpu", cores=None)
    return report.document(rows, {"decoding": {"dim": 3}}, {"decoding": []}, options)


def test_the_file_says_what_was_measured_on(tmp_path):
    report.write(tmp_path / "new" / "a.json", document(rows_of("decoding")))
    found = report.read(tmp_path / "new" / "a.json")
    assert set(found) == {
        "format", "date", "command", "machine", "versions", "clock", "device", "cores", "sizes",
        "rows", "remarks",
    }  # fmt: skip
    assert {"processor", "cores", "memory_gb", "gpus", "load"} <= set(found["machine"])
    assert found["machine"]["cores"] >= 1 and found["machine"]["memory_gb"] > 0
    assert {"python", "keras", "tensorflow", "numpy"} <= set(found["versions"])
    assert found["rows"][0]["rounds"] == [
        {"wall_s": 1.0, "cpu_s": 1.0},
        {"wall_s": 2.0, "cpu_s": 2.0},
    ]
    assert found["rows"][1]["comparisons"][0]["median"] == 2.5


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match=r"Received: .*a\.json"):
        report.read(tmp_path / "a.json")


def test_the_table():
    lines = report.table(rows_of("decoding"), "cpu_s").splitlines()
    assert "**decoding: greedy**" in lines
    assert "median (processor time)" in lines[3]
    assert "| keras_attn, JAX | 200 tokens/s | 150 to 300 | 12.5 | 1.00 |  |" in lines
    assert "| hub, JAX | 85.7 tokens/s | 75 to 100 | 12.5 | 2.50 (2.00 to 3.00) | 2: met |" in lines
    assert "| foreign | out of memory |  |  |  |  |" in lines


@pytest.mark.parametrize(
    "value, text", [(0.01234, "0.0123"), (12.34, "12.3"), (99.96, "100"), (1234.5, "1,234")]
)
def test_numbers(value, text):
    assert report.number(value) == text


def test_agreement_is_a_share_of_the_first():
    rows = [{"contender": "a", "result": [[1], [2]]}, {"contender": "b", "result": [[1], [3]]}]
    rows.append({"contender": "c", "result": None})
    agreement(rows)
    assert [row.get("same") for row in rows] == [1.0, 0.5, None]
    assert "result" not in rows[0]


@pytest.mark.parametrize("suite", ["decoding", "memory", "scaling"])
def test_figures(suite, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is of the extra `benchmarks`")
    from benchmarks.figures import draw

    values = {
        "memory": [{"length": 8}, {"length": 16}],
        "scaling": [{"axis": "width", "value": v, "flops": 1e9 * v} for v in (8, 16)],
    }.get(suite, [{}])
    rows = [row for v in values for row in rows_of(suite, f"case {v}", v)]
    [path] = draw(document(rows), tmp_path)
    assert path.name == f"{suite}.png"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw(tmp_path):
    from benchmarks.figures import draw

    with pytest.raises(ValueError, match="Received: none"):
        draw(document([]), tmp_path)


def test_drawing_needs_matplotlib_and_no_framework():
    """Reading, printing and drawing start at once."""
    code = (
        "import sys; import benchmarks.__main__, benchmarks.figures;"
        "sys.exit(any(m in sys.modules for m in ('keras', 'tensorflow', 'jax', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
