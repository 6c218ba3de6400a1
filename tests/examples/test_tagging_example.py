"""The script on tagging does what it says, in a process of its own, without network."""

import importlib.util
import json
from pathlib import Path

import pytest
from processes import run_python

SCRIPT = Path(__file__).parents[2] / "examples/tagging.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("tagging_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, cwd):
    return run_python("tensorflow", SCRIPT, *arguments, cwd=cwd, check=False)


def names_of(sentences, kind):
    found = set()
    for text in sentences:
        for word, label in zip(*text, strict=True):
            found |= {word} if label[2:] == kind else set()
    return found


def test_the_test_has_other_names_and_templates(script):
    sides = [script.make_sentences(300, seed, side) for seed, side in enumerate(("train", "test"))]
    shared = {"New", "Upper", *script.FIRST, *script.SORTS, *script.MONTHS}
    for kind in ("PER", "LOC", "ORG"):
        train, test = (names_of(side, kind) - shared for side in sides)
        assert len(train) > 5 and len(test) > 5 and not train & test
    outlines = [
        {tuple(w for w, label in zip(*text, strict=True) if label == "O") for text in side}
        for side in sides
    ]
    assert not outlines[0] & outlines[1]
    for text in sides[0]:
        assert len(text.words) == len(text.labels) and not any("{" in w for w in text.words)
    assert script.make_sentences(20, 0, "train") == sides[0][:20]


def test_few_sentences(script, tmp_path):
    path = tmp_path / "own.txt"
    for count in (3, 8):
        path.write_text("".join(f"w{i} O\n\n" for i in range(count)))
        sides = script.read_data(script.parse_arguments(["--data", str(path)]))
        assert all(sides) and sum(map(len, sides)) == count
    path.write_text("w O\n\nx O\n")
    with pytest.raises(SystemExit, match="three different sentences"):
        script.read_data(script.parse_arguments(["--data", str(path)]))


@pytest.mark.slow
def test_from_templates_to_a_saved_model(tmp_path):
    settings = (
        "--run-dir", "run", "--sentences", 60, "--vocabulary-size", 200, "--dim", 16,
        "--num-layers", 1, "--num-heads", 2, "--epochs", 2, "--text", "Ada <b> left Redcliff.",
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "All of it is in run" in done.stdout
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {"entities.html", "results.json", "saved_model", "tagger", "why.html"}
    page = (tmp_path / "run/entities.html").read_text()
    assert "&lt;" in page and "&gt;" in page and "<b>" not in page
    assert 0 <= json.loads((tmp_path / "run/results.json").read_text())["test"]["f1"] <= 1
    again = run(*settings, cwd=tmp_path)
    assert again.returncode == 0 and "All epochs are done." in again.stdout


@pytest.mark.slow
def test_own_sentences(tmp_path):
    rows = [f"{name} B-X\n{verb} O\n" for name in "Ada Bob Eva Tom".split() for verb in
            "codes sleeps reads writes runs".split()]  # fmt: skip
    (tmp_path / "own.txt").write_text("\n".join(rows))
    settings = ("--data", "own.txt", "--run-dir", "run", "--dim", 16, "--num-layers", 1,
                "--num-heads", 2, "--epochs", 1, "--vocabulary-size", 60)  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "entities: F1" in done.stdout
    done = run("--data", "none.txt", cwd=tmp_path)
    assert done.returncode == 1 and "none.txt" in done.stderr
