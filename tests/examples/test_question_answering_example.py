"""The script on question answering does what it says, in a process of its own, without network."""

import importlib.util
import json
from pathlib import Path

import pytest
from processes import run_python

SCRIPT = Path(__file__).parents[2] / "examples/question_answering.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("question_answering_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, cwd):
    return run_python("tensorflow", SCRIPT, *arguments, cwd=cwd, check=False)


def test_the_test_has_other_names_sentences_and_wordings(script):
    sides = {
        wordings: script.make_questions(200, 0, side, wordings)
        for side, wordings in (("train", "train"), ("test", "test"))
    }
    for questions in sides.values():
        for q in questions:
            (answer,) = q.answers
            assert q.text[answer.start : answer.start + len(answer.text)] == answer.text
            assert "{" not in q.text + q.question
    for endings in script.ENDINGS.values():
        assert not {*script.names_of("train", endings)} & {*script.names_of("test", endings)}
    places = {*script.names_of("test", script.ENDINGS["place"])}
    found = [{a.text for q in side for a in q.answers} & places for side in sides.values()]
    assert not found[0] and len(found[1]) > 20
    for facts in script.FACTS.values():
        for sentences, wordings in facts.values():
            assert len({*sentences}) == len(sentences) and len({*wordings}) == len(wordings)
    kinds = [{q.question.split()[0] for q in side} for side in sides.values()]
    assert "Since" in kinds[1] - kinds[0]  # a wording of the test alone
    assert script.make_questions(20, 0, "train", "train") == sides["train"][:60]


def test_few_articles(script, tmp_path):
    """A fifth of them at most is the test, and what is wrong is said without a traceback."""
    path = tmp_path / "own.jsonl"
    line = '{{"question": "Where?", "text": "In Oslo, {0}.", "answers": ["Oslo"]}}\n'
    for count, sizes in [(3, (1, 1, 1)), (8, (6, 1, 1)), (24, (18, 2, 4)), (60, (45, 5, 10))]:
        path.write_text("".join(line.format(i) * 2 for i in range(count)))
        train, dev, tests = script.read_data(script.parse_arguments(["--data", str(path)]))
        ((name, test),) = tests.items()
        assert tuple(len(side) // 2 for side in (train, dev, test)) == sizes
        assert name == (f"{sizes[2]} articles" if sizes[2] > 1 else "1 article")
    more = ["--data", str(path), "--test-articles", "59"]
    with pytest.raises(SystemExit, match="--test-articles must be at most 58"):
        script.read_data(script.parse_arguments(more))
    path.write_text("".join(line.format(i) for i in range(2)))
    with pytest.raises(SystemExit, match="at least three articles"):
        script.read_data(script.parse_arguments(["--data", str(path)]))


@pytest.mark.slow
def test_from_made_questions_to_a_saved_model(tmp_path):
    settings = (
        "--run-dir", "run", "--texts", 24, "--vocabulary-size", 200, "--dim", 16,
        "--num-layers", 1, "--num-heads", 2, "--epochs", 1,
    )  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "All of it is in run" in done.stdout and "common words" in done.stdout
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {"answers.html", "results.json", "saved_model", "seed-0"}
    assert "<mark>" in (tmp_path / "run/answers.html").read_text()
    results = json.loads((tmp_path / "run/results.json").read_text())["test"]
    assert {*results} == {"new names", "new names, sentences and wordings"}
    assert all(0 <= row["seed 0"]["f1"] <= 1 for row in results.values())
    again = run(*settings, cwd=tmp_path)
    assert again.returncode == 0 and "All epochs are done." in again.stdout


@pytest.mark.slow
def test_own_questions(tmp_path):
    articles = [
        {
            "title": f"article {i}",
            "paragraphs": [{
                "context": f"{name} lives in Oslo.",
                "qas": [{"id": str(i), "question": f"Where does {name} live?",
                         "answers": [{"text": "Oslo", "answer_start": len(name) + 10}]}],
            }],
        }
        for i, name in enumerate("Ada Bob Eva Tom Lee Ida Max Ben Fay Gus Hal Ira".split())
    ]  # fmt: skip
    (tmp_path / "own.json").write_text(json.dumps({"data": articles}))
    settings = ("--data", "own.json", "--test-articles", 2, "--run-dir", "run", "--dim", 16,
                "--num-layers", 1, "--num-heads", 2, "--epochs", 1, "--vocabulary-size", 60,
                "--seeds", 2)  # fmt: skip
    done = run(*settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 questions of 2 articles" in done.stdout and "mean of the seeds" in done.stdout
    done = run("--data", "none.json", cwd=tmp_path)
    assert done.returncode == 1 and "none.json" in done.stderr
