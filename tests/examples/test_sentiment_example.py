"""The script on sentiment does what it says, in a process of its own, without network."""

import importlib.util
import itertools
import json
import os
from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples/sentiment.py"
NOUNS = "film book play song dish walk game tale scene role cast end".split()
WORDS = {"bad": "dull poor awful boring".split(), "good": "great fine lovely superb".split()}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("sentiment_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, cwd, **environment):
    return run_python("tensorflow", SCRIPT, *arguments, cwd=cwd, check=False, **environment)


@pytest.mark.slow
def test_from_a_file_to_a_saved_model(script, tmp_path):
    rows = [
        f"the {noun} was {word} and the {other} too\t{label}\n"
        for noun, other in itertools.pairwise(NOUNS)
        for label, words in WORDS.items()
        for word in words
    ]
    (tmp_path / "texts.tsv").write_text("review\tstars\n" + "".join(rows))
    settings = (
        "--data", "texts.tsv", "--text", "review", "--label", "stars", "--run-dir", "run",
        "--vocabulary-size", 150, "--epochs", 2,
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The ladder, on texts that none of them saw" in done.stdout
    assert "All of it is in run" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "texts.tsv"]
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {"bag", "rnn", "transformer", "explained.html", "results.json", "saved_model"}
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert [row["model"] for row in results["models"]] == ["tfidf", "bag", "rnn", "transformer"]
    assert all(row["accuracy"]["value"] > 0.3 for row in results["models"])
    assert results["sizes"]["train"] == 61
    for row in results["models"][1:]:
        deleted = {f"deletion_{method}" for method in script.METHODS}
        assert {"temperature", *deleted} <= set(row)
        assert f"| {row['model']} | {row['weights']:,} |" in done.stdout
    page = (tmp_path / "run/explained.html").read_text(encoding="utf-8")
    assert "transformer: gradient x input" in page
    assert "transformer: integrated gradients" in page
    assert "bag: attention" in page

    # The same command goes on with what is there: nothing is trained again.
    again = run(*settings, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("All epochs are done.") == 3
    same = json.loads((tmp_path / "run/results.json").read_text())
    for row, other in zip(same["models"], results["models"], strict=True):
        assert {**row, "seconds": 0} == {**other, "seconds": 0}


def test_arguments(script, tmp_path):
    args = script.parse_arguments([])
    assert (args.limit, args.models) == (16_000, ["bag", "rnn", "transformer"])
    assert script.parse_arguments(["--models", "rnn", "bag"]).models == ["rnn", "bag"]
    for wrong in (["--models", "cnn"], ["--models"], ["--limit", "x"]):
        with pytest.raises(SystemExit) as stop:
            script.parse_arguments(wrong)
        assert stop.value.code == 2


def test_its_settings_are_settings(script):
    from keras_attn.tasks import TextClassifier

    for name, settings in script.MODELS.items():
        assert TextClassifier.kinds.made(settings["model"]).name == name
        assert TextClassifier.Training.made(settings["training"]).epochs > 2


def test_data(script, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\nGood.,pos\nBad.,neg\n")
    args = script.parse_arguments(["--data", str(tmp_path / "a.csv")])
    assert [tuple(x)[:2] for x in script.read_data(args)] == [("Good.", "pos"), ("Bad.", "neg")]
    assert "2 texts" in capsys.readouterr().out
    for more, message in (
        (["--data", str(tmp_path / "none.csv")], "none.csv"),
        (["--data", str(tmp_path / "a.csv"), "--text", "review"], "'text'"),
        (["--wheel", str(tmp_path / "none.whl")], "none.whl"),
    ):
        with pytest.raises(SystemExit, match="Other data: --data FILE") as stop:
            script.read_data(script.parse_arguments(more))
        assert message in str(stop.value)


def test_table(script):
    def estimate(value):
        return {"value": value, "interval": [value - 0.01, value + 0.02]}

    figures = {name: estimate(0.9) for name in ("accuracy", "macro_f1", "auc", "log_loss", "ece")}
    curve = {"area": 0.5, "random_area": 0.75}
    network = {"model": "rnn", "weights": 12345, "deletion_gradient": curve}
    rows = [{"model": "tfidf", "seconds": 1.2, **figures}, {**network, "seconds": 60.7, **figures}]
    lines = script.table(rows).splitlines()
    assert {line.count("|") for line in lines} == {12}
    first = "| tfidf |  | 1 | 0.900 (0.890 to 0.920) | 0.900 | 0.900 | 0.900 | 0.900 |  |  |  |"
    assert lines[2] == first
    second = "| rnn | 12,345 | 61 | 0.900 (0.890 to 0.920) | 0.900 | 0.900 | 0.900 | 0.900 "
    assert lines[3] == second + "|  | 0.250 |  |"


@pytest.mark.slow
def test_without_network_it_names_the_other_choice(tmp_path):
    """pip is made to fail by an index that is not there."""
    done = run(
        "--cache-dir", "cache", cwd=tmp_path, PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
    )  # fmt: skip
    assert done.returncode != 0
    assert "--data FILE" in done.stderr
