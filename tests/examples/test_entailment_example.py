"""The ladder of entailment: each run once, the test pairs only where they are asked for."""

import importlib.util
from pathlib import Path

import pytest

from keras_attn.tasks import EntailmentClassifier

SCRIPT = Path(__file__).parents[2] / "examples/entailment.py"
HEAD = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tentailment_BA\tSemEval_set\n"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("entailment_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def arguments(tmp_path):
    rows = [
        f"{i}\tA dog runs.\tA {noun} runs.\t{label}\t{swapped}\t{side}\n"
        for i, (noun, label, swapped) in enumerate(
            [("dog", "ENTAILMENT", "B_entails_A"), ("cat", "NEUTRAL", "B_neutral_A")] * 4
        )
        for side in ("TRAIN", "TRIAL", "TEST")
    ]
    (tmp_path / "SICK.txt").write_text(HEAD + "".join(rows))
    (tmp_path / "v.txt").write_text("dog 1 0\ncat 0 1\nruns 1 1\nyes 0 0\n")
    return [
        "--data", tmp_path / "SICK.txt", "--vectors", tmp_path / "v.txt", "--run-dir",
        tmp_path / "runs", "--attention", "none", "last", "--seeds", 0, 1, "--epochs", 1,
        "--units", 3, "--vector-words", 4, "--device", "cpu",
    ]  # fmt: skip


def run(script, arguments, *more):
    script.main([str(argument) for argument in (*arguments, *more)])


@pytest.mark.slow
def test_the_script(script, arguments, tmp_path, capsys, monkeypatch):
    run(script, arguments)
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    assert rows[0] == "| attention | weights | trial, mean | of each seed |"
    assert [row.split(" | ")[0] for row in rows[1:]] == ["| none", "| last"]
    assert "The commonest label has 50.0 % of the trial pairs." in out
    assert not list(tmp_path.glob("runs/*/test.json"))
    assert [p.parent.name for p in tmp_path.glob("runs/*/alignment.png")] in (
        ["last-0", "last-1"], ["last-1", "last-0"],
    )  # fmt: skip
    run(script, arguments, "--test")
    assert len(list(tmp_path.glob("runs/*/test.json"))) == 4
    monkeypatch.setattr(EntailmentClassifier, "evaluate", None)  # the test is not measured again
    capsys.readouterr()
    run(script, arguments, "--test")
    out = capsys.readouterr().out
    assert "All epochs are done." in out
    assert "| test, mean | of each seed |" in out


def test_the_table(script):
    rows = [
        {"attention": "none", "seed": seed, "trial": value, "weights": 1234}
        for seed, value in enumerate([60.0, 61.0, 62.0])
    ]
    assert "| none | 1,234 | 61.0 ± 0.6 | 60.0, 61.0, 62.0 |" in script.table(rows, 56.4, False)
