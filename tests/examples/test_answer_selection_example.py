"""Sentences and paragraphs as candidates, and the table of both."""

import importlib.util
import json
from pathlib import Path

import pytest

from keras_attn.records import SelectionQuestion
from keras_attn.records.questions import checked_questions
from keras_attn.tasks import AnswerSelector

SCRIPT = Path(__file__).parents[2] / "examples/answer_selection.py"
TEXT = "It is late. Ada is in Oslo.  Bob is in Rome. Oslo is cold. It is late."


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("answer_selection_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sentence_that_holds_the_answer(script):
    second = TEXT.rindex("Oslo")
    asked = [
        ("Where is Ada?", TEXT, ["Oslo"]),
        ("What is cold?", TEXT, [("Oslo", second), ("Oslo is cold", second)]),
        ("How late?", TEXT, [("late", TEXT.rindex("late")), ("Rome", TEXT.index("Rome"))]),
    ]
    found = script.sentences(checked_questions(asked))
    assert [x.answers for x in found] == [
        ("Ada is in Oslo.",), ("Oslo is cold.",), ("Bob is in Rome.", "It is late.")
    ]  # fmt: skip
    assert len(found[0].candidates) == 5
    other = [("Where?", "Nowhere.", [])]
    found = script.paragraphs(checked_questions([*asked, *other]))
    assert [x.answers for x in found] == [(TEXT,)] * 3
    assert found[0].candidates == (TEXT, "Nowhere.")


def test_means_of_word_vectors(script, tmp_path):
    """By hand: the right sentence is at 45 degrees, the other at 90; one has no known word."""
    (tmp_path / "glove.txt").write_text("cat 1 0 0\ndog 1 1 0\nsun 0 0 2\n")
    sentences = ("Sun.", "Dog!", "It is.", "sun sun")
    found = script.by_word_vectors(
        [
            SelectionQuestion("A cat?", ("Dog!",), sentences),
            SelectionQuestion("The sun", ("Sun.",), sentences),
            SelectionQuestion("Who?", ("It is.",), sentences),
        ],
        str(tmp_path / "glove.txt"),
    )
    assert [ranks.tolist() for ranks in found] == [[1.0], [1.5], [2.5]]


@pytest.mark.slow
def test_the_script(script, tmp_path, capsys):
    articles = [
        {
            "title": f"article {i}",
            "paragraphs": [
                {
                    "context": f"Number {i} is {word}. It is {n}.",
                    "qas": [
                        {"id": f"{i}{n}", "question": f"Which is {word}?",
                         "answers": [{"text": f"Number {i}", "answer_start": 0}]}
                    ],
                }
                for n, word in enumerate(["red", "big", "old"])
            ],
        }
        for i in range(12)
    ]  # fmt: skip
    (tmp_path / "squad.json").write_text(json.dumps({"data": articles}))
    sizes = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
    examples = [("Which is red?", "Number 1 is red. It is 0.")]
    backbone = AnswerSelector.create(examples, data={"max_length": 32}, model=sizes)
    backbone.save(tmp_path / "b.task")
    (tmp_path / "glove.txt").write_text("red 1 0\nbig 0 1\n")
    script.main([
        "--data", str(tmp_path / "squad.json"), "--backbone", str(tmp_path / "b.task"),
        "--word-vectors", str(tmp_path / "glove.txt"), "--test-share", "0.4",
        "--max-length", "32", "--epochs", "1", "--device", "cpu",
    ])  # fmt: skip
    out = capsys.readouterr().out
    rows = [line.split(" | ")[0] for line in out.splitlines() if line.startswith("| ")]
    assert rows == [
        "| search", "| BM25", "| mean word vectors", "| encoder", "| both", "| trained",
        "| trained, both",
    ] * 2  # fmt: skip
    assert "sentence: " in out and ", 2.0 candidates on average" in out
