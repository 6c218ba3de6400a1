"""The command of entailment: from SICK's file to a page of alignments."""

import json

import pytest
from command_runs import note_exports, run_command
from tracing import eagerly

from keras_attn.tasks import EntailmentClassifier

HEAD = "pair_ID\tsentence_A\tsentence_B\tentailment_label\tentailment_BA\tSemEval_set\n"
PAIRS = [
    ("A dog runs.", "A dog runs", "ENTAILMENT", "B_entails_A"),
    ("A dog runs.", "A cat runs", "NEUTRAL", "B_neutral_A"),
    ("A dog runs.", "No dog runs", "CONTRADICTION", "B_contradicts_A"),
]


def command(*arguments):
    return run_command("entailment", *arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    rows = [
        "\t".join([str(i), *pair, side])
        for i, pair in enumerate(PAIRS * 3)
        for side in ("TRAIN", "TRIAL", "TEST")
    ]
    (folder / "SICK.txt").write_text(HEAD + "\n".join(rows) + "\n")
    (folder / "v.txt").write_text("dog 1 0 1\ncat 0 1 1\nruns 1 1 0\na 0 0 1\n")
    with eagerly():
        code, out, err = command(
            "fit", "--train", folder / "SICK.txt", "--reversed-pairs", "--word-vectors",
            folder / "v.txt", "--freeze-word-vectors", "--units", 4, "--projection-dim", 0,
            "--epochs", 1, "--batch-size", 9, "--run-dir", folder / "run",
        )  # fmt: skip
    assert code == 0, err
    assert "Pairs for training: 18, development: 9" in out
    assert "Labels: CONTRADICTION 6, ENTAILMENT 6, NEUTRAL 6." in out
    assert "4 of 6 words (66.7%) start from theirs, and are frozen" in out
    assert "of the weights are outside of the embedding" in out
    assert out.splitlines()[-1] == str(folder / "run/best.task")
    assert "dim = 3" in (folder / "run/settings.toml").read_text()
    return folder


@pytest.mark.slow
def test_evaluate(place, tmp_path, eager):
    code, _, err = command(
        "evaluate", "--model", place / "run/best.task", "--data", place / "SICK.txt",
        "--num-bootstrap", 0, "--to", tmp_path / "f.json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads((tmp_path / "f.json").read_text())["num_examples"] == 9
    (tmp_path / "new.csv").write_text("premise,hypothesis,label\na,b,NEUTRAL\na,b,MAYBE\n")
    new = ("evaluate", "--model", place / "run/best.task", "--data", tmp_path / "new.csv")
    code, _, err = command(*new)
    assert (code, "new.csv" in err, "(line 3: 'MAYBE' is none of" in err) == (1, True, True)
    code, out, err = command(*new, "--on-error", "skip", "--num-bootstrap", 0)
    assert (code, "Left out: 1 without a label that is known" in out) == (0, True), err
    code, _, err = command(
        "evaluate", "--model", place / "run/best.task", "--data", place / "none.txt"
    )
    assert (code, "which is not a" in err) == (1, True)


@pytest.mark.slow
def test_predict_and_explain(place, tmp_path, capfd, monkeypatch, eager):
    (tmp_path / "pairs.txt").write_text("A dog runs.\tA <b>cat</b> doesn't\nA dog\t\n")
    given = ("--model", place / "run/best.task", tmp_path / "pairs.txt")
    code, _, err = command("predict", *given)
    assert code == 0, err
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [sum(row["probabilities"].values()) for row in found] == pytest.approx([1, 1])
    code, _, err = command("explain", *given, "--to", tmp_path / "page.html")
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<table") == 2
    assert "<b>" not in page
    assert "n&#x27;t" in page
    code, _, err = command(
        "explain", *given, "--to", tmp_path / "page.html", "--method", "gradient", "--label",
        "NEUTRAL",
    )  # fmt: skip
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<bdi class="label">NEUTRAL') == 2
    (tmp_path / "pairs.txt").write_text("A dog\truns\nno tab\n")
    monkeypatch.setattr(EntailmentClassifier, "load", None)  # it is found before the work
    code, _, err = command("predict", *given)
    found = f"no tab in line 2 of {tmp_path / 'pairs.txt'}, 'no tab'"
    assert (code, found in err) == (1, True)
    code, _, err = command("explain", *given, "--to", tmp_path / "page.png")
    assert (code, "the name of a page, which must end in .html. Received: " in err) == (2, True)


@pytest.mark.slow
def test_export_and_quantize(place, tmp_path, monkeypatch, eager):
    exported = note_exports(monkeypatch, EntailmentClassifier)
    model = ("--model", place / "run/best.task", "--to")
    assert command("export", *model, tmp_path / "saved")[0] == 0
    assert [path for path, _ in exported] == [tmp_path / "saved"]
    code, _, err = command("quantize", *model, tmp_path / "small.task")
    assert code == 0, err
    assert EntailmentClassifier.load(tmp_path / "small.task").predict([]) == []
