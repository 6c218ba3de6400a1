"""The command: from a text to an encoder and on to a classifier; interrupted and gone on with."""

import csv
import json
import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from command_runs import (
    RUN_TO_SIGNAL,
    assert_same_end,
    end_of,
    note_exports,
    run_command,
    run_elsewhere,
)
from pretraining_toys import documents
from tracing import eagerly

from keras_attn.tasks import Pretrainer, TextClassifier
from keras_attn.training import checkpointing, read_training_notes

SETTINGS = """
[data]
dev_share = 0.3
vocabulary_size = 120
max_length = 24

[model]
dim = 16
num_layers = 1
num_heads = 2
intermediate_dim = 16

[training]
epochs = 2
batch_size = 8
learning_rate = 4e-3
ema_momentum = 0.5
checkpoint_steps = 2
"""
LINES = "the dog [MASK] loudly\na fish swims\tdeep down\n[MASK] [MASK]\n\n"
SENTENCES = sorted({sentence for sentence, *_ in documents(30)})
EXAMPLES = [(sentence, "ab"[i % 2]) for i, sentence in enumerate(SENTENCES)]


def command(*arguments):
    return run_command("pretraining", *arguments)


def text_of(some):
    return "\n\n".join("\n".join(document) for document in some) + "\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "text.txt").write_text(text_of(documents(40)))
    (folder / "test.txt").write_text(text_of(documents(20, seed=1)))
    (folder / "lines.txt").write_text(LINES)
    with open(folder / "train.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *EXAMPLES])
    return folder


def fit_arguments(place, run, *more):
    return (
        "fit", "--config", place / "settings.toml", "--text", place / "text.txt",
        "--run-dir", run, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    """A finished run."""
    with eagerly():
        code, out, err = command(*fit_arguments(place, place / "run"))
    assert code == 0, err
    assert "Documents for training: 26, development: 14" in out
    assert "nats a masked word" in out and "rows" in out
    assert out.splitlines()[-1] == str(place / "run/best.task")
    return place / "run"


@pytest.fixture(scope="module")
def pretrainer(run):
    return Pretrainer.load(run / "best.task")


@pytest.fixture
def loaded(run, pretrainer, monkeypatch):
    """The commands of this test take a pretrainer that is compiled already."""

    def load(path):
        assert path == run / "best.task"
        return pretrainer

    monkeypatch.setattr(Pretrainer, "load", load)


@pytest.mark.slow
def test_the_run_folder(run):
    assert {p.name for p in run.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    rows = end_of(run)[1]
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert float(rows[-1]["val_perplexity"]) < float(rows[0]["val_perplexity"]) < 200
    for name in ("masked_words_loss", "next_sentence_loss", "val_next_sentence_accuracy"):
        assert 0 <= float(rows[-1][name]) < 9
    assert "dev_share = 0.3  #" in (run / "settings.toml").read_text()


@pytest.mark.slow
def test_the_same_command_again_changes_nothing(place, run):
    before = (run / "checkpoint.npz").read_bytes()
    code, out, err = command(*fit_arguments(place, run))
    assert code == 0, err
    assert "All epochs are done." in out
    assert (run / "checkpoint.npz").read_bytes() == before


@pytest.mark.slow
def test_other_settings_or_another_text_are_refused(place, run, tmp_path):
    before = {p.name: p.read_bytes() for p in run.iterdir()}
    (tmp_path / "other.txt").write_text(text_of(documents(41)))
    for more, message in (
        (("--dim", 8), "dim is 16 there, 8 here"),
        (("--no-next-sentence",), "next_sentence is true there"),
        (("--whole-words",), "whole_words is false there"),
        (("--text", tmp_path / "other.txt"), "belongs to another run"),
        (("--text", tmp_path / "other.txt", "--dev", place / "test.txt"), "belongs to another run"),
    ):
        code, _, err = command(*fit_arguments(place, run, *more))
        assert code == 1
        assert message in err.replace("True", "true").replace("False", "false")
    assert {p.name: p.read_bytes() for p in run.iterdir()} == before


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_run_that_is_interrupted_comes_to_the_same_end(place, run, tmp_path, monkeypatch):
    """Ctrl-C in the first epoch, then the same command again."""
    save, left = checkpointing.save_training_state, [1]

    def save_and_send(*arguments):
        save(*arguments)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(checkpointing, "save_training_state", save_and_send)
    code, _, err = command(*fit_arguments(place, tmp_path))
    assert code == 130, err
    assert "same command again to resume" in err
    notes = read_training_notes(tmp_path / "checkpoint.npz")
    assert (notes["epoch"], notes["batch"]) == (0, 2)
    assert not (tmp_path / "best.task").exists()
    code, out, err = command(*fit_arguments(place, tmp_path))
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path, run)


@pytest.mark.slow
def test_a_run_that_is_killed_comes_to_the_same_end(place, tmp_path):
    """The first end is a Ctrl-C, the second comes without a warning; the third process goes on."""

    def run_to(number, writings, code):
        fit = ("pretraining", *fit_arguments(place, tmp_path / "run"), "--checkpoint-steps", 1)
        return run_elsewhere(RUN_TO_SIGNAL, int(number), writings, *fit, code=code)

    code, _, err = command(*fit_arguments(place, tmp_path / "whole"))
    assert code == 0, err
    run_to(signal.SIGINT, 2, 130)
    assert read_training_notes(tmp_path / "run/checkpoint.npz")["batch"] == 2
    run_to(signal.SIGKILL, 5, -signal.SIGKILL)
    notes = read_training_notes(tmp_path / "run/checkpoint.npz")
    assert (notes["epoch"], notes["batch"] > 0) == (1, True)
    code, out, err = command(*fit_arguments(place, tmp_path / "run"))
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path / "run", tmp_path / "whole")
    folders = tmp_path / "run", tmp_path / "whole"
    best, expected = (Pretrainer.load(folder / "best.task") for folder in folders)
    for mine, theirs in zip(best.model.weights, expected.model.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_evaluate(place, run, pretrainer, loaded, tmp_path):
    code, out, err = command(
        "evaluate", "--model", run / "best.task", "--text", place / "test.txt",
        "--to", tmp_path / "score.json",
    )  # fmt: skip
    assert code == 0, err
    score = json.loads((tmp_path / "score.json").read_text())
    expected = pretrainer.evaluate(documents(20, seed=1))
    assert {name: score[name] for name in expected.to_dict()} == expected.to_dict()
    assert "20 documents" in out and str(expected) in out


@pytest.mark.slow
def test_predict(place, run, pretrainer, loaded, tmp_path, capfd):
    arguments = ("predict", "--model", run / "best.task", "--top-k", 3, place / "lines.txt")
    code, _, err = command(*arguments)
    assert code == 0, err
    printed = capfd.readouterr().out
    code, _, err = command(*arguments, "--to", tmp_path / "out.jsonl")
    assert code == 0, err
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == printed
    one, pair, two, none = map(json.loads, printed.splitlines())
    assert [*one] == [*pair] == [*two] == [*none]
    assert [*one] == ["text", "second", "follows", "filled", "masks"]
    assert one["second"] is one["follows"] is None
    (mask,) = pretrainer.predict("the dog [MASK] loudly", top_k=3).masks
    assert [(m["word"], m["probability"]) for m in one["masks"][0]] == [
        (word, round(p, 6)) for word, p in mask
    ]
    assert one["filled"] == f"the dog {mask[0][0]} loudly"
    assert len(two["masks"]) == 2
    follows = pretrainer.predict(("a fish swims", "deep down")).follows
    assert pair == {
        "text": "a fish swims", "second": "deep down", "follows": pytest.approx(follows, abs=2e-6),
        "filled": "a fish swims deep down", "masks": [],
    }  # fmt: skip
    assert none == {"text": "", "second": None, "follows": None, "filled": "", "masks": []}


@pytest.mark.slow
def test_explain_reads_pairs(place, run, loaded, tmp_path):
    (tmp_path / "lines.txt").write_text("the dog barks\na fish swims\tdeep\n")
    code, _, err = command(
        "explain", "--model", run / "best.task", "--to", tmp_path / "page.html",
        "--title", "Heads", tmp_path / "lines.txt",
    )  # fmt: skip
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Heads" in page and "barks" in page


@pytest.mark.slow
def test_explained_pairs_are_pairs(place, run, pretrainer, loaded, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(pretrainer, "explain", lambda texts: given.extend(texts), raising=True)
    monkeypatch.setattr(Pretrainer, "page", staticmethod(lambda study, title: title))
    code, _, err = command(
        "explain", "--model", run / "best.task", "--to", tmp_path / "page.html", "--limit", 3,
        place / "lines.txt",
    )  # fmt: skip
    assert code == 0, err
    assert given == ["the dog [MASK] loudly", ("a fish swims", "deep down"), "[MASK] [MASK]"]


@pytest.mark.slow
def test_quantize(place, run, pretrainer, tmp_path):
    small = tmp_path / "small.task"
    code, out, err = command("quantize", "--model", run / "best.task", "--to", small)
    assert code == 0, err
    assert f"int8 model: {small}" in out
    again = Pretrainer.load(small)
    kernels = [w for w in again.model.weights if w.dtype == "int8"]
    assert len(kernels) > 5 and again.policy.name == "float32"
    texts = ["the dog [MASK] loudly", ("a fish swims", "deep [MASK]")]
    size = pretrainer.tokenizer.vocabulary_size
    expected = pretrainer.predict(texts, top_k=size)
    for mine, theirs in zip(again.predict(texts, top_k=size), expected, strict=True):
        for a, b in zip(mine.masks, theirs.masks, strict=True):
            a, b = dict(a), dict(b)
            assert max(abs(a[word] - b[word]) for word in b) < 0.02
    assert mine.follows == pytest.approx(theirs.follows, abs=0.05)


@pytest.mark.slow
def test_export(run, pretrainer, loaded, tmp_path, monkeypatch):
    given = note_exports(monkeypatch, Pretrainer)
    code, out, err = command(
        "export", "--model", run / "best.task", "--to", tmp_path / "m", "--top-k", 2
    )
    assert code == 0, err
    assert out == f"SavedModel: {tmp_path / 'm'}\n"
    settings = {"overwrite": False, "format": "saved_model", "top_k": 2, "batch_size": 64}
    assert given == [(tmp_path / "m", settings)]
    code, _, err = command("export", "--model", run / "best.task", "--to", tmp_path / "m")
    assert code == 1
    assert "--overwrite" in err


@pytest.mark.slow
def test_a_saved_model_of_the_command(run, pretrainer, tmp_path):
    code, _, err = command(
        "export", "--model", run / "best.task", "--to", tmp_path / "m", "--top-k", 2
    )
    assert code == 0, err
    serve = tf.saved_model.load(str(tmp_path / "m")).signatures
    found = serve["serving_default"](text=tf.constant(["the dog [MASK] loudly"]))
    (mask,) = pretrainer.predict("the dog [MASK] loudly", top_k=2).masks
    assert found["words"].numpy()[0, 0].astype(str).tolist() == [word for word, _ in mask]


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_prepared_ids_are_those_of_the_text(place, run, tmp_path):
    ids = tmp_path / "ids"
    code, out, err = command(
        "prepare", "--config", place / "settings.toml", "--text", place / "text.txt", "--to", ids
    )
    assert code == 0, err
    assert "tokens in the vocabulary" in out and "training: 26 documents" in out
    assert out.splitlines()[-1] == f"Prepared data: {ids}"
    shutil.copytree(run, tmp_path / "run")
    fit = ("fit", "--config", place / "settings.toml", "--run-dir", tmp_path / "run")
    code, out, err = command(*fit, "--prepared", ids)
    assert code == 0, err
    assert "Documents for training: 26, development: 14" in out
    assert "All epochs are done." in out
    # A text and ids at once, a folder that is there, one that holds something else.
    code, _, err = command(*fit, "--prepared", ids, "--text", place / "text.txt")
    assert code == 2
    assert "--text (and --dev) or --prepared" in err
    code, _, err = command("prepare", "--text", place / "text.txt", "--to", ids)
    assert code == 1
    assert str(ids) in err
    code, _, err = command(*fit, "--prepared", ids, "--dev-share", 0.1)
    assert code == 2
    assert "prepared with dev_share=" in err and "pretraining prepare" in err
    code, _, err = command(*fit, "--prepared", place)
    assert code == 1
    assert "no prepared.json" in err and "pretraining prepare" in err
    # What was prepared with another vocabulary does not fit a backbone.
    other = tmp_path / "other"
    command("prepare", "--text", place / "text.txt", "--vocabulary-size", 60, "--to", other)
    more = ("--prepared", other, "--backbone", run / "best.task", "--max-length", 24)
    code, _, err = command("fit", "--run-dir", tmp_path / "on", *more)
    assert code == 1
    assert "of the backbone's vocabulary" in err and "prepare --backbone" in err


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_going_on_from_an_encoder(place, run, pretrainer, tmp_path):
    """With all its weights, by the command; and in a classifier, with weights and without."""
    fit = (
        "fit", "--text", place / "test.txt", "--dev-share", 0.3, "--run-dir", tmp_path / "on",
        "--backbone", run / "best.task", "--max-length", 24, "--epochs", 1,
        "--learning-rate", 1e-9,
    )  # fmt: skip
    code, out, err = command(*fit)
    assert code == 0, err
    assert "loaded" in out.lower()
    again = Pretrainer.load(tmp_path / "on/best.task")
    for mine, theirs in zip(again.model.weights, pretrainer.model.weights, strict=True):
        if "seed" not in mine.path:
            np.testing.assert_allclose(mine, theirs, atol=1e-4)
    code, out, err = command(*fit)
    assert code == 0, err
    assert "All epochs are done." in out


@pytest.mark.slow
@pytest.mark.parametrize("weights", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("eager")
def test_a_classifier_by_the_command(place, run, pretrainer, tmp_path, weights):
    fit = (
        "fit", "--train", place / "train.csv", "--dev-share", 0.25, "--max-length", 24,
        "--backbone", run / "best.task", "--run-dir", tmp_path, "--epochs", 1,
        "--learning-rate", 1e-9, *(() if weights else ("--no-backbone-weights",)),
    )  # fmt: skip
    code, out, err = run_command("text-classification", *fit)
    assert code == 0, err
    assert ("loaded" in out.lower()) == weights
    classifier = TextClassifier.load(tmp_path / "best.task")
    assert classifier.tokenizer.get_config() == pretrainer.tokenizer.get_config()
    assert classifier.config.dim == 16 and classifier.config.num_layers == 1
    tables = [
        np.asarray(task.model.get_layer("embedding").token_embedding.embedding.embeddings)
        for task in (classifier, pretrainer)
    ]
    assert (np.abs(tables[0] - tables[1]).max() < 1e-4) == weights
    code, out, err = run_command("text-classification", *fit)
    assert code == 0, err
    assert "All epochs are done." in out


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_classifier_from_a_folder(place, run, pretrainer, tmp_path):
    from keras_attn.interop import save_pretrained

    save_pretrained(tmp_path / "bert", pretrainer.model, pretrainer.config, pretrainer.tokenizer)
    fit = (
        "fit", "--train", place / "train.csv", "--dev-share", 0.25, "--max-length", 24,
        "--backbone", tmp_path / "bert", "--run-dir", tmp_path / "run", "--epochs", 1,
    )  # fmt: skip
    code, out, err = run_command("text-classification", *fit)
    assert code == 0, err
    assert "loaded" in out.lower()


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_without_next_sentences(place, tmp_path):
    """Documents of one sentence are enough; held-out ones come from a file."""
    (tmp_path / "text.txt").write_text(text_of([row[:1] for row in documents(30)]))
    (tmp_path / "dev.jsonl").write_text('{"body": "the dog barks"}\n{"body": "a fish"}\n{}\n')
    more = (
        "--no-next-sentence", "--text", tmp_path / "text.txt", "--dev", tmp_path / "dev.jsonl",
        "--key", "body", "--on-error", "skip", "--epochs", 1,
    )  # fmt: skip
    code, out, err = command(*fit_arguments(place, tmp_path / "run", *more))
    assert code == 0, err
    assert "Documents for training: 30, development: 2" in out
    row = end_of(tmp_path / "run")[1][0]
    assert not any("next_sentence" in name for name in row)
    (tmp_path / "pairs.txt").write_text("one\ttwo\n")
    code, _, err = command("predict", "--model", tmp_path / "run/best.task", tmp_path / "pairs.txt")
    assert code == 1
    assert "has not learned which sentences" in err


WORD = "It rains.\nI stay.\n\n"


@pytest.mark.parametrize(
    ("name", "content", "more", "message"),
    [
        ("a.txt", "One sentence.\n", [], "Expected at least 2 documents of at least two sentences"),
        ("a.txt", "A.\n\nB.\n\nC.\n", ["--dev-share", 0.5], "by blank lines"),
        ("a.txt", "A b.\nC d.\nE f.\n", ["--dev-share", 0.1], "--no-next-sentence"),
        ("a.txt", WORD * 9, ["--dev-share", 0.001], "Use more text, a larger --dev-share"),
        ("a.txt", "", [], "a.txt: expected at least one document"),
        ("a.txt", b"Caf\xe9.\n", [], "a.txt: expected documents of sentences"),
        ("a.txt", "word " * 30_000, [], "line 1: a sentence of 150,000 characters"),
        ("a.jsonl", '{"text": ""}\n', [], "the document is empty"),
        ("a.jsonl", '{"text": "A."}\n', ["--key", "body"], "no 'body' among the keys 'text'"),
        ("a.txt", WORD * 9, ["--vocabulary-size", 8], "`vocabulary_size` must be at least"),
        ("a.txt", WORD * 9, ["--vocabulary-file", "vocab.txt"], "vocabulary with [MASK]"),
        ("a.txt", WORD * 9, ["--vocabulary-file", "none.txt"], "none.txt"),
        ("a.txt", WORD * 9, ["--backbone", "a.txt"], "a.txt"),
        ("a.txt", WORD * 9, ["--dev", "none.txt"], "Expected a text file, a folder"),
    ],
)
def test_bad_input_is_told_before_the_training(name, content, more, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    monkeypatch.setattr(Pretrainer, "fit", None)
    code, _, err = command("fit", "--text", name, "--run-dir", "run", *more)
    assert code == 1
    assert message in err
    assert "Traceback" not in err
    code, _, err = command("prepare", "--text", name, "--to", "ids", *more)
    assert code == 1
    assert message in err
    assert not (tmp_path / "ids").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "--model", "none.task"], 1, "Expected a saved task"),
        (["predict"], 2, "--model"),
        (["evaluate", "--model", "m"], 2, "--text"),
        (["fit", "--run-dir", "r", "--text", "none.txt"], 1, "Expected a text file"),
        (["fit", "--run-dir", "r", "--dim", "0"], 2, "--dim must be at least 1"),
        (["fit", "--run-dir", "r", "--masked-share", "1"], 2, "--masked-share must be below 1"),
        (["fit", "--run-dir", "r", "--max-length", "4"], 2, "--max-length must be at least 5"),
        (["fit", "--run-dir", "r", "--dev-share", "0"], 2, "--dev-share must be above 0"),
        (["fit", "--run-dir", "r", "--prepared", "p", "--dev", "d"], 2, "--prepared"),
        (["prepare", "--text", "t"], 2, "--to"),
        (["predict", "--model", "m", "--top-k", "0"], 2, "--top-k"),
    ],
)
def test_wrong_use(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received, _, err = command(*arguments)
    assert received == code
    assert message in err
