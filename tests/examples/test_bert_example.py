"""The script on BERT does what it says, in a process of its own, without network."""

import importlib.util
import json
from pathlib import Path

import pytest
from processes import run_python

SCRIPT = Path(__file__).parents[2] / "examples/bert.py"
NOUNS = "film book play song dish walk game tale scene role cast end".split()
WORDS = {"bad": "dull poor awful boring".split(), "good": "great fine lovely superb".split()}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("bert_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, cwd):
    return run_python("tensorflow", SCRIPT, *arguments, cwd=cwd, check=False)


@pytest.mark.slow
def test_from_a_file_to_a_saved_model(tmp_path):
    rows = [
        f"The {noun} was {word}. I saw the {noun} twice. It is a {word} {noun}.\t{label}\n"
        for noun in NOUNS
        for label, words in WORDS.items()
        for word in words
    ]
    (tmp_path / "texts.tsv").write_text("review\tstars\n" + "".join(rows))
    settings = (
        "--data", "texts.tsv", "--text", "review", "--label", "stars", "--run-dir", "run",
        "--vocabulary-size", 150, "--max-length", 64, "--dim", 16, "--num-layers", 1,
        "--num-heads", 2, "--epochs", 2, "--labels", 30, "--tuning-epochs", 2, "--dev-share", 0.1,
        "--mask", "The [MASK] was dull.",
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "All of it is in run" in done.stdout
    assert "The [MASK] was dull.\n    " in done.stdout
    assert "layer  head  previous  next  same  special  other  spread  role" in done.stdout
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {
        "heads.html", "pretrained", "pretraining", "random_weights", "results.json", "saved_model",
    }  # fmt: skip
    results = json.loads((tmp_path / "run/results.json").read_text())
    first, second = results["classifiers"]
    assert [first["start"], second["start"]] == ["random weights", "pretrained"]
    assert first["labels"] == second["labels"] == 30
    assert first["num_examples"] == second["num_examples"] == results["sizes"]["test"]
    for what in ("masked words", "next sentences"):
        assert all(0 <= value <= 1 for value in results["pretraining"][what].values())
    assert results["pretraining"]["perplexity"] < 150
    loaded = done.stdout.split("new and random: 2 tensors of head")
    assert len(loaded) == 2  # one of the two begins with the encoder
    page = (tmp_path / "run/heads.html").read_text(encoding="utf-8")
    assert "See whether" in page  # the notes of the lectures

    # The same command goes on with what is there: nothing is trained again.
    again = run(*settings, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("All epochs are done.") == 3
    same = json.loads((tmp_path / "run/results.json").read_text())
    assert same["pretraining"] == results["pretraining"]


def test_arguments(script):
    args = script.parse_arguments([])
    assert (args.labels, args.mask) == (1000, None)
    assert script.parse_arguments(["--mask", "a [MASK]", "--mask", "b"]).mask == ["a [MASK]", "b"]


def test_its_sentences_have_masks(script):
    assert all(text.count("[MASK]") == 1 for text in script.MASKS)
    assert all(len(pair) == 2 for pair in script.PAIRS)


def test_tables(script):
    scores = {
        "masked words": {"encoder": 0.25}, "next sentences": {"a coin": 0.5}, "perplexity": 80.0,
    }  # fmt: skip
    assert script.scores_table(scores).splitlines()[2:] == [
        "| masked words | encoder | 25.0 % |", "| next sentences | a coin | 50.0 % |",
    ]  # fmt: skip
    estimate = {"value": 0.75, "interval": [0.7, 0.8]}
    figures = dict.fromkeys(("accuracy", "macro_f1", "log_loss"), estimate)
    row = {"start": "pretrained", "labels": 1000, "seconds": 61.2, **figures}
    line = script.accuracy_table([row]).splitlines()[2]
    assert line == "| pretrained | 1,000 | 61 | 0.750 (0.700 to 0.800) | 0.750 | 0.750 |"


def test_without_data_it_names_the_other_choice(script, tmp_path):
    for more in (["--data", str(tmp_path / "none.csv")], ["--wheel", str(tmp_path / "none.whl")]):
        with pytest.raises(SystemExit, match="Other data: --data FILE"):
            script.read_data(script.parse_arguments(more))
