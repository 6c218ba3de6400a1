"""The command: from CoNLL columns to a tagger; interrupted and gone on with; pages and exports."""

import json
import os
import signal

import click
import numpy as np
import pytest
from command_runs import assert_same_end, end_of, note_exports, run_command
from tagging_toys import sentences
from tracing import eagerly

from keras_attn.cli.step_settings import options_of
from keras_attn.cli.task_command import all_steps, merged
from keras_attn.tasks import Tagger
from keras_attn.training import checkpointing

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
learning_rate = 1e-2
checkpoint_steps = 2
"""


def command(*arguments):
    return run_command("tagging", *arguments)


def columns(some):
    rows = ["\n".join(f"{w} X {label}" for w, label in zip(*pair, strict=True)) for pair in some]
    return "-DOCSTART- X O\n\n" + "\n\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "train.txt").write_text(columns(sentences(40)))
    rows = [json.dumps({"words": w, "labels": labels}) for w, labels in sentences(12, seed=1)]
    (folder / "test.jsonl").write_text("\n".join(rows))
    (folder / "lines.txt").write_text("Ada meets Bob in New Rome.\n\n(Tom) codes\n")
    return folder


def fit_arguments(place, run, *more):
    return (
        "fit", "--config", place / "settings.toml", "--train", place / "train.txt",
        "--run-dir", run, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    """A finished run."""
    with eagerly():
        code, out, err = command(*fit_arguments(place, place / "run"))
    assert code == 0, err
    assert "train.txt: 40 sentences of" in out and "labels O " in out and "held out: " in out
    assert "Sentences for training: " in out and " rows, " in out
    assert "Best on the development sentences: entity F1 " in out
    assert out.splitlines()[-1] == str(place / "run/best.task")
    return place / "run"


@pytest.fixture(scope="module")
def tagger(run):
    return Tagger.load(run / "best.task")


@pytest.fixture
def loaded(run, tagger, monkeypatch):
    """The commands of this test take a tagger that is compiled already."""
    monkeypatch.setattr(Tagger, "load", lambda path: tagger)


@pytest.mark.slow
def test_the_run_folder(run):
    rows = end_of(run)[1]
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert 0 <= float(rows[-1]["val_f1"]) <= 1 and 0 < float(rows[-1]["val_accuracy"]) <= 1
    assert "label_column = -1" in (run / "settings.toml").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_a_run_that_is_interrupted_comes_to_the_same_end(place, run, tmp_path, monkeypatch):
    """Ctrl-C in the first epoch, then the same command again, and once more."""
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
    code, out, err = command(*fit_arguments(place, tmp_path))
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path, run)
    code, out, _ = command(*fit_arguments(place, tmp_path))
    assert code == 0 and "All epochs are done." in out
    for more, message in (
        (("--dim", 8), "dim is 16 there"),
        (("--lora-rank", 1), "lora_rank is 0"),
    ):
        code, _, err = command(*fit_arguments(place, tmp_path, *more))
        assert code == 1 and message in err


@pytest.mark.slow
@pytest.mark.usefixtures("eager")
def test_fine_tuning_of_a_backbone(place, run, tmp_path):
    fit = (
        "fit", "--train", place / "test.jsonl", "--dev", place / "train.txt", "--backbone",
        run / "best.task", "--max-length", 24, "--run-dir", tmp_path, "--epochs", 1,
        "--lora-rank", 2, "--frozen-layers", 0, "--layer-decay", 0.9, "--learning-rate", 1e-9,
    )  # fmt: skip
    code, out, err = command(*fit)
    assert code == 0, err
    assert "loaded: 19 tensors of embedding, encoder, tags" in out  # it has the same labels
    mine, theirs = (Tagger.load(f / "best.task").model for f in (tmp_path, run))
    for a, b in zip(mine.weights, theirs.weights, strict=True):
        if "seed" not in a.path:
            np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
def test_evaluate(place, run, tagger, loaded, tmp_path):
    code, out, err = command(
        "evaluate", "--model", run / "best.task", "--data", place / "test.jsonl",
        "--num-bootstrap", 20, "--to", tmp_path / "score.json",
    )  # fmt: skip
    assert code == 0, err
    expected = tagger.evaluate(sentences(12, seed=1), num_bootstrap=20)
    score = json.loads((tmp_path / "score.json").read_text())
    assert score["f1"] == expected.f1 and score["accuracy"] == expected.accuracy
    assert str(expected) in out and "12 sentences" in out
    with pytest.warns(UserWarning, match=r"256 of 256 words have labels .* as errors: X \(256\)"):
        code, _, err = command(
            "evaluate", "--model", run / "best.task", "--data", place / "train.txt",
            "--word-column", 0, "--label-column", 1,
        )  # fmt: skip
    assert code == 0, err  # labels that were never seen are errors, not exceptions


@pytest.mark.slow
def test_predict(place, run, tagger, loaded, tmp_path, capfd):
    arguments = ("predict", "--model", run / "best.task", place / "lines.txt")
    code, _, err = command(*arguments)
    assert code == 0, err
    first, empty, last = map(json.loads, capfd.readouterr().out.splitlines())
    expected = tagger.predict("Ada meets Bob in New Rome.")
    assert (first["words"], first["labels"]) == (expected.words, expected.labels)
    assert first["entities"] == [e._asdict() for e in expected.entities]
    assert empty == {"words": [], "labels": [], "probabilities": [], "entities": []}
    assert [*first] == [*empty] == [*last]
    assert last["words"] == ["(", "Tom", ")", "codes"]
    code, _, err = command(*arguments, "--no-split", "--to", tmp_path / "out.jsonl")
    assert code == 0, err
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[2])["words"] == ["(Tom)", "codes"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "shown"), [("attention", "head"), ("gradient", "for the word")])
def test_explain(place, run, loaded, tmp_path, method, shown):
    code, _, err = command(
        "explain", "--model", run / "best.task", "--to", tmp_path / "page.html", "--method",
        method, "--title", "What speaks", place / "lines.txt",
    )  # fmt: skip
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What speaks" in page and shown in page


@pytest.mark.slow
def test_quantize(run, tmp_path):
    code, _, err = command("quantize", "--model", run / "best.task", "--to", run / "best.task")
    assert (code, "already exists" in err) == (1, True)
    code, out, err = command("quantize", "--model", run / "best.task", "--to", tmp_path / "s.task")
    assert code == 0, err
    assert "int8 model" in out
    assert len(Tagger.load(tmp_path / "s.task").predict("Ada codes").labels) == 2


@pytest.mark.slow
def test_export(run, loaded, tmp_path, monkeypatch):
    given = note_exports(monkeypatch, Tagger)
    code, out, err = command("export", "--model", run / "best.task", "--to", tmp_path / "m")
    assert code == 0, err
    assert out == f"SavedModel: {tmp_path / 'm'}\n"
    assert given == [
        (
            tmp_path / "m",
            {"overwrite": False, "format": "saved_model", "batch_size": 64, "max_words": 5_000_000},
        )
    ]


def test_a_settings_file_may_have_what_is_required(tmp_path):
    (tmp_path / "s.toml").write_text('[data]\ntrain = "a.txt"\n')
    given = dict.fromkeys(option.name for _, option in options_of(Tagger, all_steps(Tagger)["fit"]))
    assert merged(Tagger, "fit", tmp_path / "s.toml", given)["data"].train == "a.txt"
    line = {**given, "train": "b.txt"}
    assert merged(Tagger, "fit", tmp_path / "s.toml", line)["data"].train == "b.txt"
    with pytest.raises(click.UsageError, match="Missing option '--train'"):
        merged(Tagger, "fit", None, given)


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        ("Ada B-PER\ncodes\n", (), "line 2: 1 columns in 'codes'"),
        ("", (), "at least one sentence"),
        ("Ada B-PER\n", (), "Expected two different sentences or more"),
        ("a O\n\nb O\n\nc O\n\nd O\n", ("--dev-share", 0.5), "at least two labels"),
        ("Ada B-PER\n", ("--word-column", 1, "--label-column", 1), "different columns"),
        ("Ada B-PER\n", ("--dev", "none.txt"), "none.txt, which is not a"),
        (
            "Ada B-PER\n\nb O\n\nc O\n\nd O\n",
            ("--dev-share", 0.5, "--backbone", "none.task"),
            "none.task",
        ),
    ],
)
def test_bad_input_is_told_before_the_training(content, more, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(content)
    monkeypatch.setattr(Tagger, "_fit", None)
    code, _, err = command("fit", "--train", "train.txt", "--run-dir", "run", *more)
    assert code == 1
    assert message in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "--run-dir", "r"], 2, "--train"),
        (["fit", "--run-dir", "r", "--train", "t", "--layer-decay", "0"], 2, "--layer-decay"),
        (["fit", "--run-dir", "r", "--train", "t", "--lora-rank", "-1"], 2, "--lora-rank"),
        (["fit", "--run-dir", "r", "--train", "t", "--dev-share", "1"], 2, "--dev-share"),
        (["evaluate", "--model", "m"], 2, "--data"),
        (["explain", "--model", "m", "--to", "x", "--method", "lime"], 2, "--method"),
        (["predict", "--model", "none.task"], 1, "Expected a saved task"),
    ],
)
def test_wrong_use(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received, _, err = command(*arguments)
    assert received == code
    assert message in err
