"""The command: from SQuAD's file to answers, and what is wrong with a line or a file."""

import json

import pytest
from answering_toys import questions
from command_runs import run_command
from tracing import eagerly

from keras_attn.tasks import QuestionAnswerer

SETTINGS = """
[data]
vocabulary_size = 120
max_length = 32
max_question_length = 10
overlap = 8
dev_share = 0.3

[model]
dim = 16
num_layers = 1
num_heads = 2
intermediate_dim = 16

[training]
epochs = 1
"""


def squad(some, per_article=4):
    articles = [some[i : i + per_article] for i in range(0, len(some), per_article)]
    return {
        "data": [
            {
                "title": f"article {i}",
                "paragraphs": [
                    {
                        "context": text,
                        "qas": [
                            {
                                "id": f"{i}-{k}",
                                "question": question,
                                "answers": [{"text": a, "answer_start": at} for a, at in answers],
                            }
                        ],
                    }
                    for k, (question, text, answers) in enumerate(article)
                ],
            }
            for i, article in enumerate(articles)
        ]
    }


def command(*arguments):
    return run_command("question-answering", *arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "train.json").write_text(json.dumps(squad(questions(40))))
    (folder / "test.json").write_text(json.dumps(squad(questions(8, seed=1))))
    return folder


@pytest.fixture(scope="module")
def run(place):
    with eagerly():
        code, out, err = command(
            "fit", "--config", place / "settings.toml", "--train", place / "train.json",
            "--run-dir", place / "run",
        )  # fmt: skip
    assert code == 0, err
    assert "40 questions about" in out and "of 10 articles" in out and "windows" in out
    assert out.splitlines()[-1] == str(place / "run/best.task")
    return place / "run/best.task"


@pytest.mark.slow
def test_evaluate(place, run):
    code, out, err = command("evaluate", "--model", run, "--data", place / "test.json")
    assert code == 0, err
    report = QuestionAnswerer.load(run).evaluate(questions(8, seed=1))
    assert str(report) in out


@pytest.mark.slow
def test_predict(place, run, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("Where does Ada live?\tAda lives in Oslo.\nWhere?\t\n")
    code, _, err = command(
        "predict", "--model", run, "--n-best", 2, lines, "--to", tmp_path / "out"
    )
    assert code == 0, err
    first, second = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert "Ada lives in Oslo."[first["start"] : first["end"]] == first["text"] != ""
    assert (
        len(first["candidates"]) == 2
        and first["probability"] == (first["candidates"][0]["probability"])
    )
    assert (second["text"], second["candidates"]) == ("", [])
    lines.write_text("no tab here\n")
    code, _, err = command("predict", "--model", run, lines)
    assert code != 0 and "tab" in err


@pytest.mark.slow
@pytest.mark.parametrize(("method", "shown"), [("attention", "head"), ("gradient", "<mark>")])
def test_explain(run, tmp_path, method, shown):
    lines = tmp_path / "lines.txt"
    lines.write_text("Where does Ada live?\tAda lives in Oslo.\n")
    code, _, err = command(
        "explain", "--model", run, "--to", tmp_path / "page.html", "--method", method,
        "--n-best", 2, "--title", "What spoke", lines,
    )  # fmt: skip
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What spoke" in page and shown in page


def test_bad_data(place, tmp_path):
    bad = tmp_path / "bad.json"
    wrong = squad(questions(8))
    wrong["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["text"] = "Atlantis"
    bad.write_text(json.dumps(wrong))
    fit = ("fit", "--config", place / "settings.toml", "--run-dir", tmp_path / "run")
    code, _, err = command(*fit, "--train", bad)
    assert code == 1 and "'Atlantis', which is not in its text" in err and "'0-1'" in err
    assert not (tmp_path / "run/best.task").exists()
    code, _, err = command(*fit, "--train", tmp_path / "none.json")
    assert code == 1 and "none.json" in err
