"""The command: from a text file to a SavedModel; interrupted and gone on with."""

import csv
import json
import signal

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

from keras_attn.records import split_text
from keras_attn.tasks import TextGenerationUse, TextGenerator
from keras_attn.training import read_training_notes

TEXT = "to be, or not to be: that is the question.\r\n" * 60
SETTINGS = """
[data]
dev_share = 0.1
test_share = 0.2
sequence_length = 16

[model]
units = 16
dim = 8
dropout = 0.1

[training]
epochs = 3
batch_size = 8
learning_rate = 1e-2
ema_momentum = 0.5
checkpoint_steps = 2

[use]
temperature = 0.5
"""


def command(*arguments, **more):
    return run_command("text-generation", *arguments, **more)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "text.txt").write_bytes(TEXT.encode())
    return folder


def fit_arguments(place, run, *more):
    return (
        "fit", "--config", place / "settings.toml", "--text", place / "text.txt",
        "--run-dir", run, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    """A finished run."""
    code, out, err = command(*fit_arguments(place, place / "run"))
    assert code == 0, err
    assert "test: 516\nCharacters for training: 1,805, development: 259" in out
    assert "Best on the development characters: bits per character" in out
    return place / "run"


@pytest.mark.slow
def test_the_run_folder(run):
    assert {p.name for p in run.iterdir()} == {
        ".lock", "best.task", "checkpoint.npz", "log.csv", "settings.toml",
    }  # fmt: skip
    rows = end_of(run)[1]
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert float(rows[-1]["val_bits_per_character"]) < float(rows[0]["val_bits_per_character"])
    assert "sequence_length = 16  #" in (run / "settings.toml").read_text()


@pytest.mark.slow
def test_the_same_command_again_changes_nothing(place, run):
    before = (run / "checkpoint.npz").read_bytes()
    code, out, err = command(*fit_arguments(place, run))
    assert code == 0, err
    assert "All epochs are done." in out
    assert (run / "checkpoint.npz").read_bytes() == before


@pytest.mark.slow
def test_other_settings_or_another_text_are_refused(place, run, tmp_path):
    code, _, err = command(*fit_arguments(place, run, "--units", 17))
    assert code == 1
    assert "units is 16 there, 17 here" in err
    (tmp_path / "other.txt").write_text(TEXT + "!")
    before = (run / "settings.toml").read_text()
    more = ("--text", tmp_path / "other.txt", "--checkpoint-steps", 3)
    code, _, err = command(*fit_arguments(place, run, *more))
    assert code == 1
    assert "belongs to another run" in err
    assert (run / "settings.toml").read_text() == before


@pytest.mark.slow
def test_a_run_that_is_interrupted_and_killed_comes_to_the_same_end(place, run, tmp_path):
    """The first end is a Ctrl-C, the second comes without a warning; the third process goes on."""

    def run_to(number, writings, code):
        fit = ("text-generation", *fit_arguments(place, tmp_path))
        return run_elsewhere(RUN_TO_SIGNAL, int(number), writings, *fit, code=code)

    _, err = run_to(signal.SIGINT, 3, 130)
    assert "same command again to resume" in err
    checkpoint = tmp_path / "checkpoint.npz"
    notes = read_training_notes(checkpoint)
    assert (notes["epoch"], notes["batch"]) == (0, 6)
    run_to(signal.SIGKILL, 6, -signal.SIGKILL)
    notes = read_training_notes(checkpoint)
    assert notes["epoch"] == 1
    assert notes["batch"] > 0
    code, out, err = command(*fit_arguments(place, tmp_path))
    assert code == 0, err
    assert "Resuming in epoch" in out
    assert_same_end(tmp_path, run)


@pytest.fixture(scope="module")
def generator(run):
    return TextGenerator.load(run / "best.task")


@pytest.fixture
def loaded(run, generator, monkeypatch):
    """Commands after this take a generator that is compiled already."""

    def load(path):
        assert path == run / "best.task"
        return generator

    return lambda: monkeypatch.setattr(TextGenerator, "load", load)


@pytest.mark.slow
def test_evaluate(place, run, generator, loaded, tmp_path):
    _, dev, test = split_text(TEXT.replace("\r\n", "\n"), 0.1, 0.2)
    texts = {"test": test, "dev": dev, "all": TEXT.replace("\r\n", "\n")}
    for split, text in texts.items():
        code, out, err = command(
            "evaluate", "--model", run / "best.task", "--text", place / "text.txt", "--split",
            split, "--config", place / "settings.toml", "--to", tmp_path / "score.json",
        )  # fmt: skip
        assert code == 0, err
        score = json.loads((tmp_path / "score.json").read_text())
        expected = generator.evaluate(text)
        assert score["bits_per_character"] == pytest.approx(expected.bits_per_character, rel=1e-6)
        assert score["characters"] == len(text)
        assert f"{expected.bits_per_character:.4f} bits per character" in out
        where = f"{place / 'text.txt'}{'' if split == 'all' else f', {split} part'}"
        assert f"{where}: {len(text):,} characters" in out
        loaded()
    best = min(float(row["val_bits_per_character"]) for row in end_of(run)[1])
    assert generator.evaluate(dev).bits_per_character == pytest.approx(best, rel=1e-5)


@pytest.mark.slow
def test_predict(place, run, generator, loaded, tmp_path, capfd):
    arguments = ("predict", "--model", run / "best.task", "--config", place / "settings.toml")
    code, _, err = command(*arguments, "--num-characters", 20)
    assert code == 0, err
    assert capfd.readouterr().out == generator.generate("", 20, temperature=0.5) + "\n"
    loaded()
    code, _, err = command(
        *arguments, "--prompt", "to be", "--prompt", "é", "--count", 2, "--seed", 3, "--top-k", 4,
        "--num-characters", 15, "--to", tmp_path / "texts.txt",
    )  # fmt: skip
    assert code == 0, err
    expected = generator.generate(
        ["to be", "to be", "é", "é"], 15, temperature=0.5, top_k=4, seed=3
    )
    written = (tmp_path / "texts.txt").read_text(encoding="utf-8")
    assert written == "\n-----\n".join(expected) + "\n"


@pytest.mark.slow
def test_prompts_from_files_and_standard_input(run, generator, loaded, tmp_path, capfd):
    """A prompt a line; a blank one is the empty prompt."""
    (tmp_path / "prompts.txt").write_text("to be\n\né\n", encoding="utf-8")
    arguments = ("predict", "--model", run / "best.task", "--num-characters", 15)
    expected = "\n-----\n".join(generator.generate(["to be", "", "é"], 15)) + "\n"
    for more, stdin in (
        ((tmp_path / "prompts.txt",), "other"),
        (("-",), "to be\r\n\r\né\r\n"),
        ((), "to be\n\né"),
        (("--prompt", "to be", "--prompt", "", "--prompt", "é"), "other\n"),
    ):
        loaded()
        code, _, err = command(*arguments, *more, stdin=stdin)
        assert code == 0, err
        assert capfd.readouterr().out == expected
    loaded()
    code, _, err = command(*arguments, "--count", 2, stdin="to be\né\n")
    assert code == 0, err
    twice = generator.generate(["to be", "to be", "é", "é"], 15)
    assert capfd.readouterr().out == "\n-----\n".join(twice) + "\n"
    for more, code in ((("--prompt", "a", tmp_path / "prompts.txt"), 2), (("none.txt",), 1)):
        received, _, err = command(*arguments, *more)
        assert received == code
        assert ("--prompt or FILES" if code == 2 else "none.txt, which is not a") in err


@pytest.mark.slow
def test_predict_shows_texts_while_they_are_written(run, generator, loaded, capfd, monkeypatch):
    loaded()
    arguments = ("predict", "--model", run / "best.task", "--num-characters", 20)
    streams = []
    stream = generator.stream
    monkeypatch.setattr(
        generator, "stream", lambda *a, **k: (streams.append(a), stream(*a, **k))[1]
    )
    stops = ("--stop", "o", "--stop", "be")
    prompts = ("--prompt", "to", "--prompt", "é")
    code, _, err = command(*arguments, *prompts, "--seed", 3, "--stream", *stops)
    assert code == 0, err
    expected = generator.generate(["to", "é"], 20, seed=3, stop=["o", "be"])
    assert capfd.readouterr().out == "\n-----\n".join(expected) + "\n"
    assert len(streams) == 2
    # One text in a terminal is shown so, and nothing else is.
    monkeypatch.setattr("os.isatty", lambda place: place == 1)
    for more, times in ((("--seed", 3, *stops), 3), (prompts, 3), (("--no-stream",), 3)):
        code, _, err = command(*arguments, *more)
        assert code == 0, err
        assert len(streams) == times
    assert capfd.readouterr().out.startswith(
        generator.generate("", 20, seed=3, stop=["o", "be"]) + "\n"
    )


@pytest.mark.slow
def test_export(run, tmp_path, monkeypatch):
    given = note_exports(monkeypatch, TextGenerator)
    arguments = ("export", "--model", run / "best.task", "--to", tmp_path / "m")
    code, out, err = command(*arguments, "--top-p", 0.9)
    assert code == 0, err
    assert str(tmp_path / "m") in out
    code, _, err = command(*arguments)
    assert code == 1
    assert "--overwrite" in err
    ((path, settings),) = given
    assert path == tmp_path / "m"
    assert (settings["temperature"], settings["top_p"], settings["overwrite"]) == (0.8, 0.9, False)


@pytest.mark.slow
def test_the_exported_model(run, generator, tmp_path):
    code, _, err = command(
        "export", "--model", run / "best.task", "--to", tmp_path / "m", "--top-p", 0.9
    )
    assert code == 0, err
    serve = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    text = serve(prompt=tf.constant(["to"]), seed=tf.constant([3]), num_characters=tf.constant(12))[
        "text"
    ].numpy()[0]
    expected = generator.generate(["to"], 12, seed=[3], temperature=0.8, top_p=0.9)
    assert text.decode() == expected[0]
    code, _, err = command("export", "--model", run / "best.task", "--to", tmp_path / "m")
    assert code == 1
    assert "--overwrite" in err


@pytest.mark.slow
def test_without_a_development_text_the_last_weights_are_kept(place, tmp_path):
    code, out, err = command(*fit_arguments(place, tmp_path, "--dev-share", 0, "--epochs", 1))
    assert code == 0, err
    assert "Best" not in out
    assert TextGenerator.load(tmp_path / "best.task").sequence_length == 16
    with open(tmp_path / "log.csv", newline="") as file:
        assert "val_bits_per_character" not in next(csv.reader(file))


@pytest.mark.slow
def test_jax_needs_no_tensorflow(place, tmp_path):
    (tmp_path / "dev.txt").write_text("to be, or not")
    fit = fit_arguments(
        place, tmp_path / "run", "--epochs", 1, "--dev", tmp_path / "dev.txt",
        "--vocabulary-size", 9,
    )  # fmt: skip
    predict = (
        "predict", "--model", tmp_path / "run/best.task", "--num-characters", 9,
        "--to", tmp_path / "text.txt",
    )  # fmt: skip
    commands = [["text-generation", *map(str, arguments)] for arguments in (fit, predict)]
    out, _ = run_elsewhere(RUN_WITHOUT, json.dumps(commands), kind="jax")
    assert "test: 516\nCharacters for training: 2,064, development: 13" in out
    assert "9 ids" in out
    assert len((tmp_path / "text.txt").read_text()) == 10


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "--model", "none.task"], 1, "Expected a saved task"),
        (["predict"], 2, "--model"),
        (["fit", "--run-dir", "r", "--text", "none.txt"], 1, "Expected a text file"),
        (["fit", "--run-dir", "r", "--units", "0"], 2, "--units must be at least 1"),
        (["predict", "--model", "m", "--temperature", "0"], 2, "--temperature"),
        (["predict", "--model", "m", "--top-p", "1.5"], 2, "--top-p"),
        (["predict", "--model", "m", "--stop", ""], 2, "--stop must not contain an empty string"),
        (["predict", "--model", "m", "--num-characters", "0"], 2, "--num-characters"),
        (["evaluate", "--model", "m", "--split", "train"], 2, "--split"),
    ],
)
def test_wrong_use(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received, _, err = command(*arguments)
    assert received == code
    assert message in err


def test_sampling_settings_are_arguments_of_generate():
    assert TextGenerationUse().sampling() == {
        "temperature": 0.8,
        "top_k": None,
        "top_p": None,
        "min_p": None,
        "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 0,
    }
