"""The command `answer-selection`: from files of questions and answers to a search."""

import csv
import json

import pytest
from command_runs import run_command
from tracing import eagerly

from keras_attn.tasks import AnswerSelector, SimilarityScorer

ANIMALS = "dog cat bird hound fish horse cow sheep".split()
SIZES = ("--dim", 16, "--num-layers", 1, "--num-heads", 2, "--intermediate-dim", 32)


pytestmark = pytest.mark.usefixtures("eager")


def command(*arguments):
    return run_command("answer-selection", *arguments)


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The end of a run."""
    folder = tmp_path_factory.mktemp("selection")
    rows = [f"where is the {x};the {x} is in place {i}" for i, x in enumerate(ANIMALS)]
    (folder / "faq.csv").write_text("\n".join(["Q;A", *rows, f"who is it;{rows[0][17:]}"]))
    (folder / "more.txt").write_text("nobody knows\n")
    with eagerly():
        code, out, err = command(
            "fit", "--train", folder / "faq.csv", "--delimiter", ";", "--question", "Q",
            "--answer", "A", "--answers", folder / "more.txt", "--dev-share", 0.25, *SIZES,
            "--vocabulary-size", 80, "--max-length", 16, "--epochs", 1, "--run-dir", folder / "run",
        )  # fmt: skip
    assert code == 0, err
    assert "9 questions, " in out and " answers to choose from.\n" in out
    assert "Best on the development questions: MRR" in out
    return folder / "run/best.task"


@pytest.mark.slow
def test_evaluate_and_predict(best, tmp_path, capfd):
    selector = AnswerSelector.load(best)
    in_order = [f"the {x} is in place {i}" for i, x in enumerate(ANIMALS)]
    assert [x for x in selector.answers if x in in_order] == in_order
    assert selector.answers[-1] == "nobody knows" and len(selector.answers) >= 9
    (tmp_path / "test.tsv").write_text("who knows\tnobody knows\nthe dog\tthe dog is in place 0\n")
    columns = ("--question", 0, "--answer", 1)
    code, out, err = command(
        "evaluate", "--model", best, "--data", tmp_path / "test.tsv", *columns, "--by", "both",
        "--lexical-weight", 0.9, "--num-bootstrap", 5, "--to", tmp_path / "figures.json",
    )  # fmt: skip
    assert code == 0, err
    assert "2 questions, 2 different answers" in out and "MRR" in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    questions = [("who knows", "nobody knows"), ("the dog", "the dog is in place 0")]
    report = selector.evaluate(questions, by="both", lexical_weight=0.9, num_bootstrap=5)
    assert (figures["by"], figures["lexical_weight"]) == ("both", 0.9)
    assert figures["reciprocal_rank"] == pytest.approx(report.reciprocal_rank)
    (tmp_path / "new.tsv").write_text("who knows\tnobody knows\nthe dog\tnowhere\n")
    new = ("evaluate", "--model", best, "--data", tmp_path / "new.tsv", *columns)
    code, _, err = command(*new)
    assert (code, "among those to choose from (line 2: 'nowhere')" in err) == (1, True)
    code, out, err = command(*new, "--on-error", "skip", "--num-bootstrap", 0)
    assert (code, "1 question, 1 different answer. Left out: 1 with" in out) == (0, True), err
    (tmp_path / "lines.txt").write_text("where is the dog\n\n")
    capfd.readouterr()
    code, _, err = command("predict", "--model", best, "--top-k", 2, tmp_path / "lines.txt")
    assert code == 0, err
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert len(rows) == 2
    predicted = selector.predict(["where is the dog", ""], top_k=2)
    for row, expected in zip(rows, predicted, strict=True):
        assert [x["answer"] for x in row] == [x.answer for x in expected]
        assert [x["score"] for x in row] == pytest.approx([x.score for x in expected], abs=1e-5)
    code, _, err = command(
        "evaluate", "--model", best, "--data", tmp_path / "test.tsv", *columns,
        "--lexical-weight", 0.4,
    )  # fmt: skip
    assert (code, "--lexical-weight" in err) == (2, True)


@pytest.mark.slow
def test_explain(best, tmp_path):
    (tmp_path / "lines.txt").write_text("where is the dog\nwho knows\n")
    code, out, err = command(
        "explain", "--model", best, "--to", tmp_path / "page.html", tmp_path / "lines.txt"
    )
    assert (code, out.strip()) == (0, str(tmp_path / "page.html")), err
    page = (tmp_path / "page.html").read_text()
    answer = AnswerSelector.load(best).predict("where is the dog", top_k=1)[0].answer
    assert "knows" in page and answer.split()[-1] in page


@pytest.mark.slow
def test_an_index_without_training(best, tmp_path):
    (tmp_path / "answers.tsv").write_text("answer\tn\nthe cat is big\t1\na dog\t2\na dog\t3\n")
    code, out, err = command(
        "index", "--backbone", best, "--answers", tmp_path / "answers.tsv", "--max-length", 16,
        "--to", tmp_path / "m.task",
    )  # fmt: skip
    assert code == 0, err
    assert "new and random: 0 tensors" in out and "2 answers" in out
    code, _, err = command(
        "index", "--backbone", best, "--answers", tmp_path / "answers.tsv", "--to", best
    )
    assert (code, "already exists. Give another file, or pass --overwrite" in err) == (1, True)
    made = AnswerSelector.load(tmp_path / "m.task")
    assert made.answers == ("the cat is big", "a dog")
    expected = AnswerSelector.load(best).embed(["a dog"], normalize=True)
    assert made.embed(["a dog"], normalize=True) == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
def test_pairs_are_what_similarity_reads(best, tmp_path):
    (tmp_path / "test.csv").write_bytes(b'question,answer\n"who, then",nobody knows\n"a\nb",so\n')
    code, out, err = command(
        "pairs", "--model", best, "--data", tmp_path / "test.csv", "--negatives", 3, "--by",
        "words", "--to", tmp_path / "pairs.csv",
    )  # fmt: skip
    assert code == 0, err
    assert "8 pairs" in out
    with open(tmp_path / "pairs.csv", newline="", encoding="utf-8") as file:
        head, first, *others = csv.reader(file)
    assert (head, first) == (
        ["sentence1", "sentence2", "score"], ["who, then", "nobody knows", "1.0"]
    )  # fmt: skip
    assert [row[2] for row in others] == ["0.0"] * 3 + ["1.0"] + ["0.0"] * 3
    assert others[3][0] == "a\nb"
    data = SimilarityScorer.Data(train=str(tmp_path / "pairs.csv"), dev=str(tmp_path / "pairs.csv"))
    assert len(SimilarityScorer.read(data).train) == 8
