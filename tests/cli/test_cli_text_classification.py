"""The command: from a file of labelled texts to a SavedModel; interrupted and gone on with."""

import csv
import json
import signal

import numpy as np
import pytest
import tensorflow as tf
from command_runs import (
    RUN_TO_SIGNAL,
    RUN_WITHOUT,
    assert_same_end,
    end_of,
    note_exports,
    run_command,
    run_elsewhere,
)

from keras_attn.tasks import TextClassifier
from keras_attn.training import read_training_notes

NOUNS = "film book play song dish walk game tale".split()
WORDS = {"bad": "dull poor awful boring".split(), "good": "great fine lovely superb".split()}
ROWS = [
    (f"The {noun} was {word}, really", label)
    for noun in NOUNS
    for label, words in WORDS.items()
    for word in words
]
TEST = [("A great film, and a fine walk", "good"), ("Dull", "bad"), ("superb; \U0001f600", "good")]
SETTINGS = """
[data]
text = "review"
label = "stars"
dev_share = 0.2
vocabulary_size = 120
max_length = 16

[model]
dim = 8
pair_buckets = 30

[training]
epochs = 3
batch_size = 5
learning_rate = 3e-2
ema_momentum = 0.5
checkpoint_steps = 2
"""


def command(*arguments):
    return run_command("text-classification", *arguments)


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("review", "stars"), *rows])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    write(folder / "train.csv", ROWS)
    write(folder / "test.csv", TEST)
    return folder


def fit_arguments(place, run, *more):
    return (
        "fit", "--config", place / "settings.toml", "--train", place / "train.csv",
        "--run-dir", run, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    """A finished run."""
    code, out, err = command(*fit_arguments(place, place / "run"))
    assert code == 0, err
    assert "Texts for training: 51, development: 13" in out
    assert "Labels: bad 32, good 32" in out
    assert "Best on the development texts: accuracy" in out
    assert out.splitlines()[-1] == str(place / "run/best.task")
    return place / "run"


def test_the_run_folder(run):
    assert {p.name for p in run.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    rows = end_of(run)[1]
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[-1]["val_log_loss"]) < float(rows[0]["val_log_loss"])
    assert 'text = "review"  #' in (run / "settings.toml").read_text()


@pytest.mark.slow
def test_the_same_command_again_changes_nothing(place, run):
    before = (run / "checkpoint.npz").read_bytes()
    code, out, err = command(*fit_arguments(place, run))
    assert code == 0, err
    assert "All epochs are done." in out
    assert (run / "checkpoint.npz").read_bytes() == before


def test_other_settings_or_texts_are_refused(place, run, tmp_path):
    before = {p.name: p.read_bytes() for p in run.iterdir()}
    code, _, err = command(*fit_arguments(place, run, "--dim", 17))
    assert code == 1
    assert "dim is 8 there, 17 here" in err
    other = write(tmp_path / "other.csv", [*ROWS[1:], ("The film was dull, in truth", "bad")])
    code, _, err = command(*fit_arguments(place, run, "--train", other))
    assert code == 1
    assert "belongs to another run" in err
    assert {p.name: p.read_bytes() for p in run.iterdir()} == before


@pytest.mark.slow
def test_a_run_that_is_interrupted_and_killed_comes_to_the_same_end(place, run, tmp_path):
    """The first end is a Ctrl-C, the second comes without a warning; the third process goes on."""

    def run_to(number, writings, code):
        fit = ("text-classification", *fit_arguments(place, tmp_path))
        return run_elsewhere(RUN_TO_SIGNAL, int(number), writings, *fit, code=code)

    _, err = run_to(signal.SIGINT, 3, 130)
    assert "same command again to resume" in err
    checkpoint = tmp_path / "checkpoint.npz"
    notes = read_training_notes(checkpoint)
    assert (notes["epoch"], notes["batch"]) == (0, 6)
    assert not (tmp_path / "best.task").exists()
    run_to(signal.SIGKILL, 6, -signal.SIGKILL)
    notes = read_training_notes(checkpoint)
    assert notes["epoch"] == 1
    assert notes["batch"] > 0
    code, out, err = command(*fit_arguments(place, tmp_path))
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path, run)
    best, expected = (TextClassifier.load(folder / "best.task") for folder in (tmp_path, run))
    assert best.temperature == expected.temperature
    for mine, theirs in zip(best.model.weights, expected.model.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(scope="module")
def classifier(run):
    return TextClassifier.load(run / "best.task")


@pytest.fixture(autouse=True)
def loaded(run, classifier, monkeypatch):
    """Commands take a classifier that is compiled already, where it is that of the run."""
    load = TextClassifier.load

    def find(path):
        return classifier if path == run / "best.task" else load(path)

    monkeypatch.setattr(TextClassifier, "load", find)


def test_evaluate(place, run, classifier, tmp_path):
    arguments = (
        "evaluate", "--model", run / "best.task", "--config", place / "settings.toml",
        "--num-bootstrap", 50, "--to", tmp_path / "figures.json", "--data",
    )  # fmt: skip
    code, out, err = command(*arguments, place / "test.csv")
    assert code == 0, err
    report = classifier.evaluate(TEST, num_bootstrap=50)
    assert "3 texts" in out
    assert str(report) in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures.pop("batch_size"), figures.pop("num_bootstrap")) == (64, 50)
    assert figures == json.loads(json.dumps(report.to_dict()))
    # Columns may be named on the line, and bad lines skipped.
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"words,kind\nA great film,good\n\xff,bad\n,bad\nDull,bad\n")
    columns = (broken, "--text", "words", "--label", "kind")
    code, _, err = command(*arguments, *columns)
    assert code == 1
    assert "line 3" in err
    assert "line 4" in err
    code, out, err = command(*arguments, *columns, "--on-error", "skip")
    assert code == 0, err
    assert json.loads((tmp_path / "figures.json").read_text())["num_examples"] == 2
    new = write(tmp_path / "new.csv", [*TEST, ("Who knows", "maybe")])
    code, _, err = command(*arguments, new)
    assert (code, "(line 5: 'maybe' is none of 'bad', 'good')" in err) == (1, True)
    code, _, err = command(*fit_arguments(place, tmp_path / "run", "--dev", new))
    assert (code, "(line 5: 'maybe' is none of 'bad', 'good')" in err) == (1, True)
    code, out, err = command(*arguments, new, "--on-error", "skip")
    assert (code, "Left out: 1 without a label that is known" in out) == (0, True), err


@pytest.mark.slow
def test_another_delimiter(place, run, tmp_path):
    for name, rows in (("train.csv", ROWS), ("test.csv", TEST)):
        with open(tmp_path / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=";").writerows([("review", "stars"), *rows])
    fit = fit_arguments(place, tmp_path / "run", "--train", tmp_path / "train.csv", "--epochs", 1)
    code, _, err = command(*fit, "--delimiter", "|")
    assert (code, "`delimiter`" in err) == (1, True)
    code, out, err = command(*fit, "--delimiter", ";")
    assert code == 0, err
    assert "Labels: bad 32, good 32" in out
    evaluate = ("evaluate", "--model", run / "best.task", "--config", place / "settings.toml")
    code, out, err = command(*evaluate, "--data", tmp_path / "test.csv", "--delimiter", ";")
    assert code == 0, err
    assert "3 texts" in out
    code, _, err = command(*evaluate, "--data", place / "test.csv", "--delimiter", ";;")
    assert (code, "one character, except" in err, "Received: ';;'" in err) == (1, True, True), err
    without = ("evaluate", "--model", run / "best.task", "--data", tmp_path, "--delimiter", ";")
    code, _, err = command(*without)
    assert (code, "is only used with the formats csv and tsv" in err) == (1, True), err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("review,stars\nGood,ugly\n", "'bad', 'good'"),
        ("words,kind\nGood,good\n", "words"),
        ("review,stars\n", "no"),
    ],
)
def test_evaluate_on_other_data(place, run, content, message, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    code, _, err = command(
        "evaluate", "--model", run / "best.task", "--config", place / "settings.toml",
        "--data", tmp_path / "a.csv",
    )  # fmt: skip
    assert code == 1
    assert message in err


def test_predict(run, classifier, tmp_path, capfd):
    lines = ["A great film", "", "dull \u6f22 \U0001f600", "x" * 5000]
    (tmp_path / "lines.txt").write_bytes("\r\n".join(lines).encode() + b"\n\xff\xfe great\n")
    (tmp_path / "more.txt").write_text("boring")
    code, _, err = command(
        "predict", "--model", run / "best.task", tmp_path / "lines.txt", tmp_path / "more.txt"
    )
    assert code == 0, err
    assert "1 lines are no UTF-8" in err
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    expected = classifier.predict([*lines, "\ufffd\ufffd great", "boring"])
    assert [row["label"] for row in found] == [p.label for p in expected]
    for row, prediction in zip(found, expected, strict=True):
        assert list(row["probabilities"]) == ["bad", "good"]
        assert row["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-6)
    code, _, err = command(
        "predict", "--model", run / "best.task", "--batch-size", 1, "--to", tmp_path / "o.jsonl",
        tmp_path / "more.txt",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads((tmp_path / "o.jsonl").read_text())["label"] == "bad"


@pytest.mark.slow
def test_predict_a_table(run, classifier, tmp_path, capfd):
    """Its columns and rows are kept, and the predictions stand behind them."""
    texts = ["A great film", "dull; or so"]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "words"), *enumerate(texts)])
    predict = ("predict", "--model", run / "best.task", tmp_path / "a.csv")
    code, _, err = command(*predict, "--text", "words", "--to", tmp_path / "o.csv")
    assert code == 0, err
    with open(tmp_path / "o.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "words", "label", "probability", "probabilities"]
    assert [row["words"] for row in rows] == texts
    for row, expected in zip(rows, classifier.predict(texts), strict=True):
        assert row["label"] == expected.label
        assert json.loads(row["probabilities"]) == pytest.approx(expected.probabilities)
        assert float(row["probability"]) == pytest.approx(expected.probabilities[expected.label])
    before = (tmp_path / "o.csv").read_bytes()
    for more, message, expected_code in (
        (("--text", "id", "--prefix", "", tmp_path / "a.csv"), "Give one file", 2),
        (("--text", "none"), "a column 'none'", 1),
        (
            ("--text", "words", "--to", tmp_path / "o.txt"),
            "which must end in .csv",
            1,
        ),
    ):
        code, _, err = command(*predict, *more)
        assert code == expected_code
        assert message in err
    again = ("predict", "--model", run / "best.task", tmp_path / "o.csv", "--text", "words")
    code, _, err = command(*again, "--to", tmp_path / "o.csv")
    assert code == 1
    assert "expected a table without a column 'label'" in err and "--prefix" in err
    assert (tmp_path / "o.csv").read_bytes() == before
    capfd.readouterr()
    assert command(*again, "--prefix", "new_")[0] == 0
    assert (
        capfd.readouterr()
        .out.splitlines()[0]
        .endswith("new_label,new_probability,new_probabilities")
    )


@pytest.mark.slow
def test_explain_heads(classifier, tmp_path):
    """Of a Transformer that does not weight its tokens."""
    model = {"model": "bert", "dim": 8, "num_heads": 2, "num_layers": 1, "intermediate_dim": 8}
    TextClassifier(
        classifier.tokenizer, ["bad", "good"], model=model, data={"max_length": 16}
    ).save(tmp_path / "heads.task")
    (tmp_path / "lines.txt").write_text("A great film\n\n")
    code, _, err = command(
        "explain", "--model", tmp_path / "heads.task", "--method", "attention", "--to",
        tmp_path / "page.html", "--title", "Heads", tmp_path / "lines.txt",
    )  # fmt: skip
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Heads</title>" in page and "great" in page and "2 special, no word" in page


def test_explain(run, classifier, tmp_path, eager):
    (tmp_path / "lines.txt").write_text("The <b>great</b> film\nA dull walk\nA third one\n")
    page = tmp_path / "page.html"
    arguments = ("explain", "--model", run / "best.task", "--to", page, tmp_path / "lines.txt")
    code, out, err = command(*arguments, "--limit", 2, "--title", "Why?")
    assert code == 0, err
    assert out == f"{page}\n"
    assert "the first 2. See --limit" in err
    written = page.read_text(encoding="utf-8")
    assert "<title>Why?</title>" in written
    assert "third" not in written
    assert "&lt;" in written
    assert "<b>" not in written
    assert "attention" in written
    code, _, err = command(*arguments, "--method", "gradient", "--label", "bad", "--limit", 3)
    assert code == 0, err
    assert "--limit" not in err
    assert "gradient x input" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    for more, message in (
        (("--label", "bad"), "method='gradient'"),
        (("--method", "gradient", "--label", "ugly"), "'bad', 'good'"),
    ):
        code, _, err = command(*arguments, *more)
        assert code == 1
        assert message in err
    assert page.read_bytes() == before


def test_export(run, classifier, tmp_path, monkeypatch):
    given = note_exports(monkeypatch, TextClassifier)
    arguments = ("export", "--model", run / "best.task", "--to", tmp_path / "m")
    code, out, err = command(*arguments, "--method", "gradient")
    assert code == 0, err
    assert str(tmp_path / "m") in out
    code, _, err = command(*arguments)
    assert code == 1
    assert "--overwrite" in err
    assert command(*arguments, "--overwrite")[0] == 0
    settings = [
        {"method": "gradient", "overwrite": False, "format": "saved_model", "batch_size": 64},
        {"method": None, "overwrite": True, "format": "saved_model", "batch_size": 64},
    ]
    assert given == [(tmp_path / "m", named) for named in settings]


@pytest.mark.slow
def test_the_exported_model(run, classifier, tmp_path):
    arguments = ("export", "--model", run / "best.task", "--to", tmp_path / "m")
    code, out, err = command(*arguments, "--method", "gradient")
    assert code == 0, err
    assert str(tmp_path / "m") in out
    serve = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    outputs = serve(text=tf.constant([text for text, _ in TEST]))
    assert [label.decode() for label in outputs["label"].numpy()] == [
        prediction.label for prediction in classifier.predict([text for text, _ in TEST])
    ]
    expected = classifier.explain(TEST[1][0], method="gradient").weights
    np.testing.assert_allclose(outputs["weights"][1][: len(expected)], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bag", "rnn"])
def test_jax_needs_no_tensorflow(place, model, tmp_path):
    """From the training to a page, and predictions as TensorFlow has them."""
    best = tmp_path / "run/best.task"
    (tmp_path / "lines.txt").write_text("A great film\nDull\n")
    rnn = "model = 'rnn'\nunits = 8"
    settings = SETTINGS if model == "bag" else SETTINGS.replace("pair_buckets = 30", rnn)
    (tmp_path / "jax.toml").write_text(settings)
    fit = fit_arguments(
        place, tmp_path / "run", "--epochs", 1,
        "--config", tmp_path / "jax.toml", "--tokenizer", "byte_pair", "--vocabulary-size", 280,
    )  # fmt: skip
    evaluate = (
        "evaluate", "--model", best, "--data", place / "test.csv", "--config",
        place / "settings.toml", "--to", tmp_path / "figures.json", "--num-bootstrap", 0,
    )  # fmt: skip
    predict = ("predict", "--model", best, "--to", tmp_path / "o.jsonl", tmp_path / "lines.txt")
    explain = (
        "explain", "--model", best, "--to", tmp_path / "page.html", "--method", "gradient",
        tmp_path / "lines.txt",
    )  # fmt: skip
    commands = [
        ["text-classification", *map(str, part)] for part in (fit, evaluate, predict, explain)
    ]
    out, _ = run_elsewhere(RUN_WITHOUT, json.dumps(commands), kind="jax")
    assert "epoch 1; temperature" in out
    assert "gradient x input" in (tmp_path / "page.html").read_text(encoding="utf-8")
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    here = TextClassifier.load(best)
    for row, prediction in zip(found, here.predict(["A great film", "Dull"]), strict=True):
        assert row["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-5)
    figures = json.loads((tmp_path / "figures.json").read_text())
    report = here.evaluate(TEST, num_bootstrap=0)
    assert figures["log_loss"]["value"] == pytest.approx(report.log_loss.value, abs=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("review,stars\n" + "".join(f"A {noun},5\n" for noun in NOUNS), "at least two classes"),
        ("text,label\nGood,5\nBad,1\n", "'review'"),
        ("review,stars\nGood,5\n,1\n", "line 3"),
        ("review,stars\nGood,5\nBad,1\n", "dev_share"),
    ],
)
def test_data_that_cannot_be_learnt_from(place, content, message, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    code, _, err = command(*fit_arguments(place, tmp_path / "r", "--train", tmp_path / "a.csv"))
    assert code == 1
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "--model", "none.task"], 1, "Expected a saved task"),
        (["predict", "--model", "m", "none.txt"], 1, "Expected a file"),
        (["predict"], 2, "--model"),
        (["predict", "--model", "m", "--encoding", "ansi1"], 2, "the name of a codec"),
        (["predict", "--model", "m", "--batch-size", "0"], 2, "--batch-size"),
        (["fit", "--train", "none.csv"], 2, "--run-dir"),
        (["fit", "--run-dir", "r", "--train", "none.csv"], 1, "none.csv"),
        (["fit", "--run-dir", "r", "--units", "64"], 2, "--units is only used with model='rnn'"),
        (["fit", "--run-dir", "r", "--model", "cnn"], 2, "--model"),
        (["fit", "--run-dir", "r", "--max-length", "1"], 2, "--max-length must be at least 2"),
        (["fit", "--run-dir", "r", "--config", "none.toml"], 1, "none.toml"),
        (["evaluate", "--model", "m"], 2, "--data"),
        (["evaluate", "--model", "m", "--data", "d", "--split", "all"], 2, "--split"),
        (["evaluate", "--model", "m", "--data", "none.csv"], 1, "none.csv"),
        (["evaluate", "--model", "m", "--data", "d", "--format", "xml"], 2, "--format"),
        (["explain", "--model", "m"], 2, "--to"),
        (["explain", "--model", "m", "--to", "p", "--method", "lime"], 2, "--method"),
        (["explain", "--model", "m", "--to", "p", "--limit", "0"], 2, "--limit"),
        (
            ["explain", "--model", "m", "--to", "p.png"],
            2,
            "which must end in .html",
        ),
        (["export", "--model", "none.task", "--to", "m"], 1, "Expected a saved task"),
    ],
)
def test_wrong_use(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received, _, err = command(*arguments)
    assert received == code
    assert message in err


@pytest.mark.slow
def test_pairs(place, run, tmp_path, capfd, eager):
    """A column of second texts; lines with a tab, and what a line without one is told."""
    rows = [(f"the {a}", f"a {b}", "xy"[a == b]) for a in NOUNS for b in NOUNS]
    with open(tmp_path / "train.tsv", "w", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in [("#1 String", "#2", "stars"), *rows])
    (tmp_path / "lines.txt").write_text("the film\ta book\nthe song\ta\tsong\n")
    (tmp_path / "single.txt").write_text("the film\ta book\n\nthe film\n")
    columns = ("--text", "#1 String", "--text-pair", "#2")
    best = tmp_path / "run/best.task"
    code, out, err = command(
        "fit", "--config", place / "settings.toml", "--train", tmp_path / "train.tsv", *columns,
        "--epochs", 1, "--run-dir", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "64 pairs of 65 lines" in out
    code, out, err = command(
        "evaluate", "--model", best, "--config", place / "settings.toml", "--num-bootstrap", 0,
        "--data", tmp_path / "train.tsv", *columns,
    )  # fmt: skip
    assert code == 0, err
    capfd.readouterr()
    code, _, err = command("predict", "--model", best, tmp_path / "lines.txt")
    assert code == 0, err
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    expected = TextClassifier.load(best).predict([("the film", "a book"), ("the song", "a\tsong")])
    for row, prediction in zip(found, expected, strict=True):
        assert row["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-6)
    explain = ("explain", "--model", best, "--to", tmp_path / "page.html")
    assert command(*explain, tmp_path / "lines.txt")[0] == 0
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count('class="text"') == 4
    for step in (("predict", "--model", best), explain):
        code, _, err = command(*step, tmp_path / "single.txt")
        assert code == 1
        assert "a tab between them" in err and f"line 2 of {tmp_path / 'single.txt'}, ''." in err
    # A classifier of single texts takes a line whole, with its tabs.
    code, _, err = command("predict", "--model", run / "best.task", tmp_path / "lines.txt")
    assert code == 0, err
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    (whole, _) = TextClassifier.load(run / "best.task").predict(["the film\ta book", ""])
    assert found[0]["probabilities"] == pytest.approx(whole.probabilities, abs=1e-6)
