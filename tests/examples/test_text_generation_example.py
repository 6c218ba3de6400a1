"""The script on text generation does what it says, in a process of its own, without network."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, str(ROOT / "examples/text_generation.py"), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
    )


def test_from_a_file_to_a_saved_model(tmp_path):
    (tmp_path / "text.txt").write_text("to be, or not to be: that is the question.\n" * 60)
    settings = (
        "--data", "text.txt", "--run-dir", "run", "--units", 24, "--sequence-length", 16,
        "--batch-size", 8, "--epochs", 3, "--num-characters", 40, "--prompt", "to be",
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bits per character of 258" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "text.txt"]
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert names == ["generator.task", "results.json", "saved_model"]
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["bits_per_character"] < 3.5
    assert all(len(text) == 45 and text[:5] == "to be" for text in results["samples"].values())
    assert len(results["samples"]) == 6

    again = run(*settings[:2], "--run-dir", "again", *settings[4:], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    same = json.loads((tmp_path / "again/results.json").read_text())
    assert {**same, "minutes": 0} == {**results, "minutes": 0}

    other = run(*settings, cwd=tmp_path)
    assert other.returncode != 0
    assert "not empty" in other.stderr


def test_without_network_it_names_the_other_choices(tmp_path):
    """pip is made to fail by an index that is not there."""
    done = run(
        "--cache-dir", "cache", cwd=tmp_path, PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
    )  # fmt: skip
    assert done.returncode != 0
    assert "text file of your own" in done.stderr
    assert "--archive FILE" in done.stderr
