"""The command `regression`: from a file of texts with numbers to predictions."""

import json

import pytest
from command_runs import run_command

NUMBER = {"dull": 2.0, "poor": 1.5, "awful": 1.0, "great": 4.5, "fine": 3.5, "superb": 5.0}
EXAMPLES = [
    (f"the {noun} was {word}", number)
    for noun in "film book play song dish walk".split()
    for word, number in NUMBER.items()
]


@pytest.mark.slow
def test_the_command(tmp_path, capfd, eager):
    rows = [f"{text};{str(y).replace('.', ',')}" for text, y in EXAMPLES]
    (tmp_path / "a.csv").write_text("\n".join(["review;stars", *rows]))
    columns = ("--text", "review", "--number", "stars")
    code, out, err = run_command(
        "regression", "fit", "--train", tmp_path / "a.csv", *columns, "--epochs", 1, "--dim", 8,
        "--pair-buckets", 0, "--near-duplicates", "anywhere", "--dev-share", 0.3,
        "--run-dir", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "36 texts, numbers from 1 to 5" in out
    assert "mean absolute error" in out and "intervals of" in out
    best = tmp_path / "run/best.task"
    code, out, err = run_command(
        "regression", "evaluate", "--model", best, "--data", tmp_path / "a.csv", *columns,
        "--num-bootstrap", 5, "--to", tmp_path / "figures.json",
    )  # fmt: skip
    assert code == 0, err
    assert "Mean absolute error" in out
    assert json.loads((tmp_path / "figures.json").read_text())["within"]["value"] > 0.5
    (tmp_path / "lines.txt").write_text("the film was great\n")
    capfd.readouterr()
    code, _, err = run_command("regression", "predict", "--model", best, tmp_path / "lines.txt")
    assert code == 0, err
    found = json.loads(capfd.readouterr().out)
    assert found["low"] < found["number"] < found["high"]


@pytest.mark.slow
def test_development_numbers_that_are_names(tmp_path):
    (tmp_path / "a.csv").write_text("text,stars\na,1\nb,2\n")
    (tmp_path / "b.csv").write_text("text,stars\na,good\nb,bad\n")
    code, _, err = run_command(
        "regression", "fit", "--train", tmp_path / "a.csv", "--dev", tmp_path / "b.csv",
        "--number", "stars", "--run-dir", tmp_path / "run",
    )  # fmt: skip
    assert code == 1
    assert "b.csv: expected a text and a number on each line. Received: 2 of 3 lines" in err
    assert "'good' is not a number" in err
    assert not (tmp_path / "run").exists()
