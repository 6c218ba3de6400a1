"""The command: from a table of captioned pictures to a SavedModel; interrupted and gone on with."""

import csv
import json
import signal
import sys
from pathlib import Path

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
from PIL import Image

sys.path.append(str(Path(__file__).parents[1] / "tasks"))
from captioning_toys import CAPTIONS, NAMES, PICTURES, draw, file_bytes, small
from tracing import eagerly

from keras_attn.folder_headers import write_header
from keras_attn.images import load_image
from keras_attn.images.feature_cache import FORMAT_VERSION
from keras_attn.models import image_encoder_config
from keras_attn.tasks import Caption, Captioner
from keras_attn.training import read_training_notes

SETTINGS = """
[data]
image = "photo"
caption = "text"
dev_share = 0.25
vocabulary_size = 290
max_length = 14

[encoder]
image_size = 16
filters = "8,16"
encoder_dropout = 0.1

[model]
dim = 12
units = 24
dropout = 0.1

[training]
epochs = 3
batch_size = 6
learning_rate = 2e-2
ema_momentum = 0.5
score_beams = 2
checkpoint_steps = 2

[use]
beams = 2
"""


def command(*arguments):
    return run_command("captioning", *arguments)


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("photo", "text"), *rows])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    sides = {"train": range(4), "test": range(7, 8)}
    for side, seeds in sides.items():
        (folder / side).mkdir()
        rows = []
        for seed in seeds:
            for number, (name, caption) in enumerate(zip(NAMES, CAPTIONS, strict=True)):
                Image.fromarray(draw(*name, seed)).save(folder / side / f"{seed}_{number}.png")
                rows.append((f"{seed}_{number}.png", caption))
        write(folder / side / "captions.csv", rows)
    return folder


def rows_of(place, seeds):
    """Those of the training table, with whole paths."""
    return [(place / "train" / f"{s}_{n}.png", CAPTIONS[n]) for s in seeds for n in range(6)]


def fit_arguments(place, run, *more):
    return (
        "fit", "--config", place / "settings.toml", "--train", place / "train/captions.csv",
        "--run-dir", run, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    """A finished run. Writing captions would take as long as all else: their scores are made up."""
    with eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Captioner, "caption_source", lambda *_, **settings: CAPTIONS)
        code, out, err = command(*fit_arguments(place, place / "run"))
    assert code == 0, err
    assert "24 pictures of 24, 24 captions" in out
    assert "Pictures for training: 18, development: 6" in out
    assert "Best on the development pictures: cider" in out
    assert out.splitlines()[-1] == str(place / "run/best.task")
    return place / "run"


@pytest.fixture(scope="module")
def traced(place):
    """Another one, with its scores, and to the bit as in processes of their own."""
    assert command(*fit_arguments(place, place / "traced"))[0] == 0
    return place / "traced"


@pytest.fixture(scope="module")
def captioner(run):
    return Captioner.load(run / "best.task")


@pytest.fixture(autouse=True)
def loaded(request, monkeypatch):
    """Commands take a captioner that is compiled already, where it is that of the run."""
    if "captioner" not in request.fixturenames:
        return
    run, captioner = (request.getfixturevalue(name) for name in ("run", "captioner"))
    load = Captioner.load
    monkeypatch.setattr(
        Captioner, "load", lambda path: captioner if path == run / "best.task" else load(path)
    )


@pytest.mark.slow
def test_the_run_folder(run):
    assert {p.name for p in run.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    rows = end_of(run)[1]
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[-1]["val_perplexity"]) < float(rows[0]["val_perplexity"])
    assert 'image = "photo"  #' in (run / "settings.toml").read_text()


@pytest.mark.slow
def test_the_same_command_again_changes_nothing(place, run, eager):
    before = (run / "checkpoint.npz").read_bytes()
    code, out, err = command(*fit_arguments(place, run))
    assert code == 0, err
    assert "All epochs are done." in out
    assert (run / "checkpoint.npz").read_bytes() == before


@pytest.mark.slow
def test_other_settings_or_pictures_are_refused(place, run, tmp_path):
    before = {p.name: p.read_bytes() for p in run.iterdir()}
    code, _, err = command(*fit_arguments(place, run, "--dim", 17))
    assert code == 1
    assert "dim is 12 there, 17 here" in err
    rows = [
        (place / "train" / f"{seed}_{n}.png", CAPTIONS[n]) for seed in range(4) for n in range(6)
    ]
    other = write(tmp_path / "other.csv", [*rows[1:], (rows[0][0], "another box")])
    code, _, err = command(*fit_arguments(place, run, "--train", other))
    assert code == 1
    assert "belongs to another run" in err
    assert {p.name: p.read_bytes() for p in run.iterdir()} == before


@pytest.mark.slow
def test_a_run_that_is_interrupted_and_killed_comes_to_the_same_end(place, traced, tmp_path):
    """The first end is a Ctrl-C, the second comes without a warning; the third process goes on."""

    def run_to(number, writings, code):
        fit = ("captioning", *fit_arguments(place, tmp_path))
        return run_elsewhere(RUN_TO_SIGNAL, int(number), writings, *fit, code=code)

    _, err = run_to(signal.SIGINT, 1, 130)
    assert "same command again to resume" in err
    checkpoint = tmp_path / "checkpoint.npz"
    notes = read_training_notes(checkpoint)
    assert (notes["epoch"], notes["batch"]) == (0, 2)
    assert not (tmp_path / "best.task").exists()
    run_to(signal.SIGKILL, 2, -signal.SIGKILL)
    notes = read_training_notes(checkpoint)
    assert (notes["epoch"], notes["batch"]) == (1, 2)
    code, out, err = command(*fit_arguments(place, tmp_path))
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path, traced)
    best, expected = (Captioner.load(folder / "best.task") for folder in (tmp_path, traced))
    for mine, theirs in zip(best.joined.weights, expected.joined.weights, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
def test_evaluate(place, run, captioner, tmp_path):
    arguments = (
        "evaluate", "--model", run / "best.task", "--config", place / "settings.toml",
        "--tokenization", "plain", "--to", tmp_path / "figures.json", "--data",
    )  # fmt: skip
    table = place / "test/captions.csv"
    code, out, err = command(*arguments, table, "--train", place / "train/captions.csv")
    assert code == 0, err
    images = [(place / "test" / f"7_{n}.png", caption) for n, caption in enumerate(CAPTIONS)]
    scores = captioner.evaluate(images, beams=2, tokenization="plain", train_captions=CAPTIONS)
    assert "6 pictures of 6" in out
    assert str(scores) in out
    assert "plain tokens, without Java" in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["cider"] == pytest.approx(scores.cider)
    assert (figures["tokenization"], figures["beams"]) == ("plain", 2)
    assert figures["copied"] == scores.copied
    assert [Path(row["image"]).name for row in figures["captions"]] == [
        f"7_{n}.png" for n in range(6)
    ]
    assert [row["candidate"] for row in figures["captions"]] == captioner.caption(
        [path for path, _ in images], beams=2
    )
    # Columns may be named on the line; broken and missing pictures are named, or skipped.
    (tmp_path / "zero.png").write_bytes(b"")
    (tmp_path / "a.csv").write_text(
        f"file,words\n{images[0][0]},red box\nnowhere.png,a box\nzero.png,no box\n"
    )
    columns = (tmp_path / "a.csv", "--image", "file", "--caption", "words")
    code, _, err = command(*arguments, *columns)
    assert code == 1
    assert "nowhere.png" in err
    code, out, err = command(*arguments, *columns, "--on-error", "skip")
    assert code == 0, err
    assert "nowhere.png" in out
    assert "zero.png" in out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["num_images"], figures["cider"], figures["copied"]) == (1, None, None)
    code, _, err = command(*arguments, table, "--split", "test")
    assert code == 1
    assert "captions with splits" in err


@pytest.mark.slow
def test_predict(run, captioner, tmp_path, capfd):
    folder = tmp_path / "pictures"
    (folder / "within").mkdir(parents=True)
    grey = np.asarray(Image.fromarray(PICTURES[2]).convert("L"))
    (folder / "a.png").write_bytes(file_bytes(PICTURES[0]))
    (folder / "b.JPG").write_bytes(file_bytes(PICTURES[3], "jpeg", quality=95))
    (folder / "c.png").write_bytes(file_bytes(grey))
    (folder / "d.png").write_bytes(file_bytes(PICTURES[2], mode="RGBA"))
    (folder / "e.jpg").write_bytes(file_bytes(PICTURES[2], "jpeg", "CMYK"))
    Image.fromarray(grey.astype("uint16") * 257).save(folder / "f.png")
    frames = {"save_all": True, "append_images": [Image.fromarray(PICTURES[0])]}
    (folder / "within/g.gif").write_bytes(file_bytes(PICTURES[2], "gif", **frames))
    (folder / "notes.txt").write_text("no picture")
    (tmp_path / "odd name").write_bytes(file_bytes(PICTURES[4]))
    arguments = ("predict", "--model", run / "best.task", "--beams", 2)
    code, _, err = command(*arguments, tmp_path / "odd name", folder)
    assert code == 0, err
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    paths = [tmp_path / "odd name", *(folder / f"{n}" for n in (
        "a.png", "b.JPG", "c.png", "d.png", "e.jpg", "f.png", "within/g.gif"))]  # fmt: skip
    assert [row["image"] for row in found] == [str(path) for path in paths]
    expected = captioner.caption(paths, beams=2, return_attention=True)
    assert [row["caption"] for row in found] == [caption.text for caption in expected]
    assert [row["score"] for row in found] == pytest.approx(
        [caption.score for caption in expected], abs=1e-5
    )
    # Broken pictures are named; the others get their captions.
    (folder / "h.png").write_bytes(b"")
    (folder / "i.png").write_bytes(file_bytes(PICTURES[0])[:70])
    Image.new("1", (10_000, 10_000)).save(folder / "j.png")
    lines = tmp_path / "lines.jsonl"
    given = (*arguments, "--to", lines, "--batch-size", 3, folder, "nowhere.png")
    code, out, err = command(*given)
    assert (code, out) == (1, "")
    for name, what in (
        ("h.png", "an empty file"),
        ("i.png", "cut off or damaged"),
        ("j.png", "10,000 x 10,000"),
        ("nowhere.png", "no such file"),
    ):
        (line,) = [line for line in err.splitlines() if name in line]
        assert what in line
    assert err.splitlines()[-1] == "Without a caption: 4 pictures."
    assert [json.loads(line)["caption"] for line in lines.read_text().splitlines()] == [
        row["caption"] for row in found[1:]
    ]
    before = lines.read_bytes()
    code, _, err = command(*given, "--on-error", "error")
    assert code == 1
    assert "h.png" in err
    assert lines.read_bytes() == before


@pytest.mark.slow
def test_explain(run, captioner, tmp_path, monkeypatch):
    files = [tmp_path / f"{name}.png" for name in ("a", "b")]
    for file, picture in zip(files, PICTURES[1:3], strict=True):
        file.write_bytes(file_bytes(picture))
    arguments = ("explain", "--model", run / "best.task", "--beams", 2, "--to")
    page = tmp_path / "page.html"
    code, out, err = command(*arguments, page, *files, "--title", "Why <b>?")
    assert code == 0, err
    assert out == f"{page}\n"
    written = page.read_text(encoding="utf-8")
    assert written.count("data:image/png") == 2
    assert "Why &lt;b&gt;?" in written
    for file, text in zip(files, captioner.caption(files, beams=2), strict=True):
        assert f'"title":"{file.name}: {text}"' in written
    titles = []
    plot = Caption.plot
    monkeypatch.setattr(Caption, "plot", lambda *given: titles.append(plot(*given).get_suptitle()))
    code, _, err = command(*arguments, tmp_path / "figure.png", files[0])
    assert code == 0, err
    assert titles == [f"a.png: {captioner.caption(files[0], beams=2)}"]
    assert load_image(tmp_path / "figure.png").shape[1] > 300
    zero = tmp_path / "zero.png"
    zero.write_bytes(b"")
    code, out, err = command(*arguments, tmp_path / "figures", zero, *files)
    assert (code, out) == (1, f"{tmp_path / 'figures'}\n")
    assert "zero.png" in err
    assert err.splitlines()[-1] == "Not shown: 1 picture."
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "000002-a.png", "000003-b.png",
    ]  # fmt: skip
    code, _, err = command(*arguments, page, *files, "--limit", 1)
    assert code == 0, err
    assert "Shown: 1 of 2 pictures" in err
    assert page.read_text(encoding="utf-8").count("data:image/png") == 1
    before = page.read_bytes()
    for nothing in (page, tmp_path / "none.png", tmp_path / "none"):
        code, out, _ = command(*arguments, nothing, zero)
        assert (code, out) == (1, "")
    assert page.read_bytes() == before
    code, _, err = command(*arguments, tmp_path / "figure.png", *files)
    assert code == 2
    assert "for one picture" in err
    # A folder whose name has a dot must be there: else it may be meant as a file.
    odd = tmp_path / "out.gif"
    code, _, err = command(*arguments, odd, files[0])
    assert code == 2
    assert "a figure (*.png, *.pdf, *.svg) or a folder" in err
    assert not odd.exists()
    odd.mkdir()
    code, _, err = command(*arguments, odd, files[0])
    assert code == 0, err
    assert [path.name for path in odd.iterdir()] == ["000001-a.png"]


@pytest.mark.slow
def test_export(run, captioner, tmp_path, monkeypatch):
    given = note_exports(monkeypatch, Captioner)
    arguments = ("export", "--model", run / "best.task", "--to", tmp_path / "m", "--beams", 2)
    code, out, err = command(*arguments, "--num-return-sequences", 1)
    assert code == 0, err
    assert str(tmp_path / "m") in out
    code, _, err = command(*arguments)
    assert code == 1
    assert "--overwrite" in err
    assert command(*arguments, "--alpha", 0.5, "--overwrite")[0] == 0
    limits = {"batch_size": 32, "max_pixels": 50_000_000}
    settings = [
        {"beams": 2, "alpha": 1.0, "num_return_sequences": 1, "overwrite": False},
        {"beams": 2, "alpha": 0.5, "num_return_sequences": None, "overwrite": True},
    ]
    for (path, passed), named in zip(given, settings, strict=True):
        assert path == tmp_path / "m"
        assert passed == {**passed, **named, **limits}


@pytest.mark.slow
def test_the_exported_model(run, captioner, tmp_path):
    arguments = ("export", "--model", run / "best.task", "--to", tmp_path / "m", "--beams", 2)
    code, out, err = command(*arguments, "--num-return-sequences", 1)
    assert code == 0, err
    assert str(tmp_path / "m") in out
    signatures = tf.saved_model.load(str(tmp_path / "m")).signatures
    files = [file_bytes(picture) for picture in PICTURES]
    found = signatures["serving_default"](image=tf.constant(files))["caption"].numpy()
    assert [caption.decode() for caption in found] == captioner.caption(PICTURES, beams=2)
    assert signatures["details"](image=tf.constant(files))["captions"].shape == (6, 1)


@pytest.mark.slow
def test_jax_needs_no_tensorflow(place, tmp_path):
    """From the training to a page, with captions as TensorFlow has them."""
    best = tmp_path / "run/best.task"
    picture = place / "test/7_2.png"
    config = ("--config", place / "settings.toml")
    fit = fit_arguments(place, tmp_path / "run", "--epochs", 1)
    evaluate = (
        "evaluate", "--model", best, *config, "--data", place / "test/captions.csv",
        "--to", tmp_path / "figures.json", "--tokenization", "plain",
    )  # fmt: skip
    predict = ("predict", "--model", best, *config, "--to", tmp_path / "o.jsonl", picture)
    explain = ("explain", "--model", best, *config, "--to", tmp_path / "page.html", picture)
    commands = [["captioning", *map(str, part)] for part in (fit, evaluate, predict, explain)]
    out, _ = run_elsewhere(RUN_WITHOUT, json.dumps(commands), kind="jax")
    assert ", epoch 1" in out
    here = Captioner.load(best)
    expected = here.caption(picture, beams=2, return_attention=True)
    found = json.loads((tmp_path / "o.jsonl").read_text())
    assert found["caption"] == expected.text
    assert found["score"] == pytest.approx(expected.score, abs=1e-4)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"name":"cross-attention"' in page
    assert page.count("data:image/png") == 1
    captions = [
        row["candidate"] for row in json.loads((tmp_path / "figures.json").read_text())["captions"]
    ]
    assert captions == here.caption([place / "test" / f"7_{n}.png" for n in range(6)], beams=2)


# What cannot be learnt from, and wrong use


@pytest.mark.slow
def test_broken_pictures_are_named(place, tmp_path):
    """Missing ones before the training; cut ones too; or all of them are left out."""
    rows = [
        (place / "train" / f"{seed}_{n}.png", CAPTIONS[n]) for seed in range(2) for n in range(6)
    ]
    (tmp_path / "cut.png").write_bytes(file_bytes(PICTURES[0])[:60])
    Image.new("1", (10_000, 10_000)).save(tmp_path / "huge.png")
    broken = [("nowhere.png", "a"), ("cut.png", "a"), ("huge.png", "a"), (rows[0][0], "")]
    table = write(tmp_path / "a.csv", [*rows, *broken])
    arguments = fit_arguments(place, tmp_path / "r", "--train", table, "--epochs", 1)
    code, _, err = command(*arguments)
    assert code == 1
    assert "nowhere.png" in err
    assert "caption 2 is empty" in err
    write(table, [*rows, *broken[1:3]])
    code, _, err = command(*arguments)
    assert code == 1
    assert "cut.png" in err or "huge.png" in err
    write(table, [*rows, *broken])
    with eagerly():
        code, out, err = command(
            *arguments, "--on-error", "skip", "--score", "perplexity", "--dev-share", 0.3
        )
    assert code == 0, err
    for name in ("nowhere.png", "cut.png", "huge.png"):
        assert name in out
    assert "Best on the development pictures: perplexity" in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("photo,text\n", "at least one picture"),
        ("image,text\n0_0.png,a\n", "'photo'"),
        ("photo,text\n0_0.png,a\n", "two different pictures"),
        ("photo,text\n0_0.png,a\n0_1.png,b\n", "CIDEr"),
    ],
)
def test_data_that_cannot_be_learnt_from(place, content, message, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    code, _, err = command(
        *fit_arguments(
            place, tmp_path / "r", "--train", tmp_path / "a.csv", "--image-dir", place / "train"
        )
    )
    assert code == 1
    assert message in err


@pytest.mark.slow
def test_features_of_another_encoder_are_refused(place, tmp_path, monkeypatch):
    folder = tmp_path / "features"
    folder.mkdir()
    key = {"name": "another"}
    write_header(folder / "cache.json", FORMAT_VERSION, key=key, dtype="float16", shape=[4, 8])
    frozen = tmp_path / "settings.toml"
    frozen.write_text(
        "[data]\nimage = 'photo'\ncaption = 'text'\n[encoder]\nencoder = 'mobilenetv2'\n"
        "image_size = 16\n"
    )
    encoder = small("soft").encoder
    monkeypatch.setattr(image_encoder_config, "applications_encoder", lambda *_: encoder)
    code, _, err = command(
        "fit", "--config", frozen, "--train", place / "train/captions.csv",
        "--run-dir", tmp_path / "r", "--cache-dir", folder,
    )  # fmt: skip
    assert code == 1
    assert "features with another key" in err
    assert [path.name for path in folder.iterdir()] == ["cache.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "--model", "none.task", "a.png"], 1, "Expected a saved task"),
        (["predict", "--model", "none.task", "."], 1, "Expected pictures in"),
        (["predict", "--model", "m"], 2, "PICTURES"),
        (["predict", "a.png"], 2, "--model"),
        (["predict", "--model", "m", "a.png", "--beams", "0"], 2, "--beams must be at least 1"),
        (["predict", "--model", "m", "a.png", "--to", "."], 1, "a folder"),
        (["fit", "--train", "none.csv"], 2, "--run-dir"),
        (["fit", "--run-dir", "r", "--train", "none.csv"], 1, "none.csv"),
        (
            ["fit", "--run-dir", "r", "--num-heads", "2"],
            2,
            "--num-heads is only used with model='tr",
        ),
        (["fit", "--run-dir", "r", "--encoder", "vgg16", "--filters", "8"], 2, "'small-cnn'"),
        (["fit", "--run-dir", "r", "--model", "cnn"], 2, "--model"),
        (["fit", "--run-dir", "r", "--max-length", "1"], 2, "--max-length must be at least 2"),
        (["fit", "--run-dir", "r", "--config", "none.toml"], 1, "none.toml"),
        (["evaluate", "--data", "d"], 2, "--model"),
        (["evaluate", "--model", "m"], 2, "Missing option '--data'"),
        (["evaluate", "--model", "m", "--format", "csv"], 2, "Missing option '--data'"),
        (["evaluate", "--model", "m", "--format", "emoji"], 1, "Expected a saved task"),
        (["evaluate", "--model", "m", "--data", "d", "--format", "xml"], 2, "--format"),
        (["evaluate", "--model", "m", "--data", "d", "--tokenization", "x"], 2, "--tokenization"),
        (["explain", "--model", "m", "a.png"], 2, "--to"),
        (["explain", "--model", "m", "--to", "p.html", "a.png", "--limit", "0"], 2, "--limit"),
        (["export", "--model", "none.task", "--to", "m"], 1, "Expected a saved task"),
        (["export", "--model", "m", "--to", "m", "--num-return-sequences", "0"], 2, "sequences"),
    ],
)
def test_wrong_use(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received, _, err = command(*arguments)
    assert received == code
    assert message in err
