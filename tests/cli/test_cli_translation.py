"""The command: from raw pairs to a SavedModel, with its exit codes; killed and gone on with."""

import json
import os
import signal
import sys
from pathlib import Path

import click
import pytest
import tensorflow as tf
from click.testing import CliRunner
from command_runs import (
    RUN_TO_KILL,
    RUN_TO_SIGNAL,
    RUN_WITHOUT,
    assert_same_end,
    note_exports,
    run_elsewhere,
)
from command_runs import run_command as command

sys.path.append(str(Path(__file__).parents[1] / "tasks"))
from tracing import eagerly
from translation_toys import PAIRS

from keras_attn.cli import keras_attn_command, main
from keras_attn.tasks import Translator
from keras_attn.training import read_training_notes

SETTINGS = """
[data]
dev_size = 10
test_size = 10
vocabulary_size = 332

[model]
num_layers = 1
dim = 32
num_heads = 2
intermediate_dim = 64

[training]
epochs = 3
tokens_per_batch = 128
learning_rate = 1e-2
ema_momentum = 0.9
score_pairs = 4
checkpoint_steps = 2

[use]
beams = 2
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Settings, raw pairs and prepared data."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    code, out, err = command(
        "translation", "prepare", "--config", folder / "settings.toml",
        "--train", folder / "pairs.tsv", "--to", folder / "data",
    )  # fmt: skip
    assert code == 0, err
    assert "train: 80, dev: 10, test: 10" in out
    return folder


def test_prepare_with_another_delimiter(place, tmp_path):
    rows = [("de", "en"), *((t, s) for s, t in PAIRS)]
    (tmp_path / "a.csv").write_text("".join(f'"{t}";{s}\n' for t, s in rows), encoding="utf-8")
    arguments = (
        "translation", "prepare", "--config", place / "settings.toml", "--train",
        tmp_path / "a.csv", "--source", "en", "--target", "de", "--to", tmp_path / "data",
    )  # fmt: skip
    code, _, err = command(*arguments, "--delimiter", ",")
    assert (code, "`delimiter`" in err) == (1, True)
    code, out, err = command(*arguments, "--delimiter", ";")
    assert code == 0, err
    assert "train: 80, dev: 10, test: 10" in out
    code, out, err = command(*arguments[:-1], tmp_path / "recognised")
    assert code == 0, err
    assert "(columns between semicolons)" in out + err
    assert "train: 80, dev: 10, test: 10" in out
    more = ("--dev-size", 100, "--to", tmp_path / "more")
    code, _, err = command(*arguments, "--delimiter", ";", *more)
    assert (code, "`validation_size`=100 (--dev-size)" in err) == (1, True), err


def fit_arguments(place, run, *more):
    return (
        "translation", "fit", "--config", place / "settings.toml", "--data", place / "data",
        "--run-dir", run, *more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(place):
    """A finished run. Translating would take as long as all else: its scores are made up."""
    with eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "translate", lambda self, texts, *_, **__: texts)
        # Large batches: each step takes as long as another.
        code, out, err = command(*fit_arguments(place, place / "run", "--tokens-per-batch", 512))
    assert code == 0, err
    assert "Best on the development pairs: BLEU" in out
    return place / "run"


@pytest.fixture(scope="module")
def traced(place):
    """Another one, with its scores, and to the bit as in processes of their own."""
    assert command(*fit_arguments(place, place / "traced"))[0] == 0
    return place / "traced"


@pytest.fixture(scope="module")
def translator(run):
    return Translator.load(run / "best.task")


@pytest.fixture(autouse=True)
def loaded(request, monkeypatch):
    """Commands take a translator that is compiled already, where it is that of the run."""
    if "translator" not in request.fixturenames:
        return
    run, translator = (request.getfixturevalue(name) for name in ("run", "translator"))
    load = Translator.load
    monkeypatch.setattr(
        Translator, "load", lambda path: translator if path == run / "best.task" else load(path)
    )


@pytest.mark.slow
def test_settings_are_beside_the_weights(place, run, eager):
    text = (run / "settings.toml").read_text()
    assert "epochs = 3  #" in text
    assert "dropout = 0.1  #" in text  # a default
    # They are a settings file too: the run goes on with them, and has nothing left to do.
    code, out, _ = command(
        "translation", "fit", "--config", run / "settings.toml", "--data", place / "data",
        "--run-dir", run,
    )  # fmt: skip
    assert code == 0
    assert "All epochs are done." in out


@pytest.mark.slow
def test_it_is_killed_and_loses_nothing(place, traced, tmp_path):
    """Each time with a file that is written, and not yet in its place."""
    other = tmp_path / "run"
    fit = fit_arguments(place, other)
    within = 0
    for files in (3, 4, 6):
        run_elsewhere(RUN_TO_KILL, files, *fit, code=-signal.SIGKILL)
        assert [name for name in os.listdir(other) if name.startswith(".partial")]
        if (other / "checkpoint.npz").exists():
            notes = read_training_notes(other / "checkpoint.npz")  # always whole
            within += notes["batch"] > 0
    assert within > 0
    assert command(*fit)[0] == 0
    assert_same_end(other, traced)
    assert not [name for name in os.listdir(other) if name.startswith(".partial")]


# No file can become longer than that.
RUN_WITHOUT_ROOM = """
import resource, sys
from keras_attn.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
main(sys.argv[2:])
"""


@pytest.mark.slow
def test_signals_and_a_full_disk(place, traced, tmp_path):
    other = tmp_path / "run"
    fit = fit_arguments(place, other)
    _, err = run_elsewhere(RUN_TO_SIGNAL, int(signal.SIGINT), 1, *fit, code=130)
    assert "Run the same command again to resume." in err
    good = (other / "checkpoint.npz").read_bytes()
    _, err = run_elsewhere(RUN_WITHOUT_ROOM, len(good) // 2, *fit, code=1)
    assert "still good. Free some space, and run the same command again" in err
    assert (other / "checkpoint.npz").read_bytes() == good
    _, err = run_elsewhere(RUN_TO_SIGNAL, int(signal.SIGTERM), 1, *fit, code=143)
    assert "Run the same command again to resume." in err
    assert command(*fit)[0] == 0
    assert_same_end(other, traced)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("jax", marks=pytest.mark.slow), "torch"])
def test_without_tensorflow(place, tmp_path, backend):
    """Prepare, fit, be killed, go on and predict where TensorFlow is not there."""

    def here(*commands):
        commands = [[*map(str, arguments)] for arguments in commands]
        return run_elsewhere(RUN_WITHOUT, json.dumps(commands), kind=backend)

    data = tmp_path / "data"
    prepare = (
        "translation", "prepare", "--config", place / "settings.toml",
        "--train", place / "pairs.tsv", "--to", data,
    )  # fmt: skip
    fit = (
        "translation", "fit", "--config", place / "settings.toml", "--data", data, "--epochs", 2,
        "--tensorboard", "--score-epochs", 2, "--run-dir",
    )  # fmt: skip
    here(prepare, (*fit, tmp_path / "whole"))
    without = 'import sys; sys.modules["tensorflow"] = None'
    killed = (int(signal.SIGKILL), 3, *fit, tmp_path / "parts")
    run_elsewhere(without + RUN_TO_SIGNAL, *killed, kind=backend, code=-signal.SIGKILL)
    notes = read_training_notes(tmp_path / "parts" / "checkpoint.npz")
    assert (notes["epoch"], notes["batch"]) != (0, 0)  # there is something to lose
    (tmp_path / "lines").write_text("the one and two\n")
    best = tmp_path / "parts" / "best.task"
    predict = (
        "translation", "predict", "--model", best, "--to", tmp_path / "out", tmp_path / "lines"
    )  # fmt: skip
    here((*fit, tmp_path / "parts"), predict)
    assert_same_end(tmp_path / "parts", tmp_path / "whole")
    # What one backend has learnt another one says.
    with eagerly():
        expected = " ".join(Translator.load(best).translate("the one and two").split())
    assert (tmp_path / "out").read_text(encoding="utf-8") == expected + "\n"


@pytest.mark.slow
def test_evaluate(place, run, translator, tmp_path):
    model = ("--model", run / "best.task", "--config", place / "settings.toml")
    code, out, err = command(
        "translation", "evaluate", *model, "--data", place / "data", "--to", tmp_path / "s.json"
    )
    assert code == 0, err
    scores = json.loads((tmp_path / "s.json").read_text())
    assert scores["pairs"] == len(scores["translations"]) == 10
    assert scores["beams"] == 2
    for name in ("bleu", "bleu_lowercase", "chrf"):
        assert f"{scores[name]:.2f}" in out
        assert scores[f"{name}_signature"] in out
    code, out, _ = command("translation", "evaluate", *model, "--pairs", place / "pairs.tsv")
    assert code == 0
    assert "100 pairs" in out
    rows = [("en", "de"), *PAIRS[:5]]
    (tmp_path / "a.csv").write_text("".join(f"7;{s};{t}\n" for s, t in rows), encoding="utf-8")
    code, out, err = command(
        "translation", "evaluate", *model, "--pairs", tmp_path / "a.csv", "--delimiter", ";",
        "--source", "en", "--target", "2",
    )  # fmt: skip
    assert code == 0, err
    assert "5 pairs" in out
    for wrong in (
        (),
        ("--data", place / "data", "--source", "1"),
        ("--data", place / "data", "--delimiter", ";"),
        ("--data", place / "data", "--split", "train"),
        ("--pairs", place / "pairs.tsv", "--split", "test"),
        ("--pairs", place),
        ("--data", place / "data", "--tokenize", "13b"),
    ):
        assert command("translation", "evaluate", *model, *wrong)[0] == 2
    code, _, err = command(
        "translation", "evaluate", *model, "--data", place / "data", "--to", tmp_path
    )
    assert (code, "a folder" in err) == (1, True)


@pytest.mark.slow
def test_predict_keeps_the_order_of_lines(place, run, translator, tmp_path):
    lines = [s for s, _ in PAIRS[:5]] + ["", "  ", "caf\u00e9\u2028x\u0085y", "nine"]
    (tmp_path / "a").write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    (tmp_path / "b").write_bytes("\r\n".join(lines[4:]).encode() + b"\r\nbad \xff byte")
    code, _, err = command(
        "translation", "predict", "--model", run / "best.task", "--config",
        place / "settings.toml", "--to", tmp_path / "out", "--alignments", tmp_path / "links",
        "--heat-maps", tmp_path / "maps", tmp_path / "a", tmp_path / "b",
    )  # fmt: skip
    assert code == 0, err
    assert "1 lines are no UTF-8" in err
    # As training reads them: white space of any kind is a space.
    texts = [" ".join(line.split()) for line in [*lines, "bad \ufffd byte"]]
    expected = [
        " ".join(translator.translate(t, beams=2).split()) if t.strip() else "" for t in texts
    ]
    out = (tmp_path / "out").read_text(encoding="utf-8").split("\n")
    assert out == [*expected, ""]
    links = (tmp_path / "links").read_text().split("\n")
    assert len(links) == len(out)
    for text, translated, line in zip(texts, expected, links, strict=False):
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(i < len(text.split()) and j < len(translated.split()) for i, j in pairs)
        assert len(pairs) == len(translated.split())
    code, _, err = command(
        "translation", "predict", "--model", run / "best.task", "--to", tmp_path / "same",
        "--alignments", tmp_path / "same", tmp_path / "a",
    )  # fmt: skip
    assert (code, "different files" in err) == (2, True)
    pictures = sorted(os.listdir(tmp_path / "maps"))
    assert pictures == [f"{i + 1:06d}.png" for i, text in enumerate(expected) if text]


@pytest.mark.slow
def test_predict_reads_standard_input(run, translator, capfd):
    arguments = ("translation", "predict", "--model", run / "best.task", "--beams", 2)
    code, _, err = command(*arguments, stdin="the one and two\n\nthe six and nine")
    assert code == 0, err
    out = capfd.readouterr().out.split("\n")
    assert len(out) == 4
    assert out[1] == ""


@pytest.mark.slow
def test_predict_may_replace_what_it_reads_and_write_to_devices(run, translator, tmp_path):
    path = tmp_path / "sentences"
    path.write_text("\ufeffthe one and two\n", encoding="utf-8")
    for output in (os.devnull, path):
        model = ("--model", run / "best.task", "--beams", 2)
        arguments = ("predict", *model, "--to", output, path)
        assert command("translation", *arguments)[0] == 0
    assert not os.path.isfile(os.devnull)
    expected = " ".join(translator.translate("the one and two", beams=2).split())
    assert path.read_text(encoding="utf-8") == expected + "\n"


@pytest.mark.slow
def test_export(run, translator, tmp_path, monkeypatch):
    given = note_exports(monkeypatch, Translator)
    arguments = ("translation", "export", "--model", run / "best.task", "--to", tmp_path / "out")
    code, out, err = command(*arguments, "--beams", 2)
    assert code == 0, err
    assert str(tmp_path / "out") in out
    code, _, err = command(*arguments)
    assert code == 1
    assert "--overwrite" in err
    more = ("--alpha", 0.5, "--num-return-sequences", 3, "--overwrite")
    assert command(*arguments, *more)[0] == 0
    settings = [
        {"beams": 2, "alpha": 1.0, "num_return_sequences": None, "overwrite": False},
        {"beams": 4, "alpha": 0.5, "num_return_sequences": 3, "overwrite": True},
    ]
    for (path, passed), named in zip(given, settings, strict=True):
        assert path == tmp_path / "out"
        assert passed == {**passed, **named, "batch_size": 64}


@pytest.mark.slow
def test_the_exported_model(run, translator, tmp_path):
    arguments = ("translation", "export", "--model", run / "best.task", "--to", tmp_path / "out")
    code, _, err = command(*arguments, "--beams", 2)
    assert code == 0, err
    serve = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    texts = [s for s, _ in PAIRS[:4]]
    served = serve(text=tf.constant(texts))["translation"].numpy().tolist()
    assert [t.decode() for t in served] == translator.translate(texts, 2)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["luong-general", "none"])
def test_a_recurrent_model_from_pairs_to_a_saved_model(place, tmp_path, attention):
    (tmp_path / "rnn.toml").write_text(
        '[model]\nmodel = "rnn"\nattention = "additive"\ndim = 16\nunits = 16\n'
        "[training]\nepochs = 1\ntokens_per_batch = 512\nscore_pairs = 2\nclip_norm = 1.0\n"
    )
    fit = (
        "translation", "fit", "--config", tmp_path / "rnn.toml", "--data", place / "data",
        "--run-dir", tmp_path / "run", "--attention", attention,
    )  # fmt: skip
    code, out, err = command(*fit)
    assert code == 0, err
    assert "Best on the development pairs: BLEU" in out
    assert f'attention = "{attention}"' in (tmp_path / "run" / "settings.toml").read_text()
    code, out, _ = command(*fit)
    assert (code, "All epochs are done." in out) == (0, True)
    model = ("--model", tmp_path / "run" / "best.task")
    code, out, err = command("translation", "evaluate", *model, "--data", place / "data")
    assert code == 0, err
    assert "case:mixed" in out

    (tmp_path / "text").write_text("the one and two\n\nthe six\n")
    links = ("--alignments", tmp_path / "links")
    predict = ("translation", "predict", *model, "--beams", 2, "--to", tmp_path / "out")
    code, _, err = command(*predict, *links, tmp_path / "text")
    if attention == "none":
        assert (code, "need a model with attention" in err) == (1, True)
        assert not (tmp_path / "out").exists()
        assert command(*predict, tmp_path / "text")[0] == 0
    else:
        assert code == 0, err
        assert len((tmp_path / "links").read_text().splitlines()) == 3
    translated = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert len(translated) == 3
    code, _, err = command(
        "translation", "export", *model, "--to", tmp_path / "saved", "--beams", 2
    )
    assert code == 0, err
    serve = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    served = serve(text=tf.constant(["the one and two"]))["translation"].numpy()[0].decode()
    assert " ".join(served.split()) == translated[0]

    needs = "can only be used with" if attention == "none" else "requires a --window"
    for wrong, message in [
        (("--num-heads", 2), "--num-heads is only used with model='transformer'"),
        (("--attention", "additive"), f"attention is '{attention}' there, 'additive' here"),
        (("--window-size", 3), f"--window-size {needs}"),
    ]:
        code, _, err = command(*fit, *wrong)
        assert code in (1, 2)
        assert message in err


@pytest.mark.slow
def test_fit_needs_no_prepared_folder(place, tmp_path):
    """It trains on the same pairs again when it resumes, and continues from a translator."""
    fit = (
        "translation", "fit", "--config", place / "settings.toml", "--train", place / "pairs.tsv",
        "--run-dir", tmp_path / "run", "--epochs", 1, "--num-layers", 1,
    )  # fmt: skip
    with eagerly():
        code, out, err = command(*fit)
        assert code == 0, err
    assert "train: 90, dev: 10, test: 0" in out
    code, out, err = command(*fit)
    assert (code, "All epochs are done." in out) == (0, True), err
    small = ("--dev-size", 10, "--backbone", tmp_path / "run/best.task", "--epochs", 1)
    with eagerly():
        code, out, err = command(
            "translation", "fit", "--train", place / "pairs.tsv", "--run-dir", tmp_path / "more",
            *small,
        )  # fmt: skip
    assert code == 0, err
    assert "new and random: 0 tensors" in out
    former, more = (Translator.load(tmp_path / run / "best.task") for run in ("run", "more"))
    assert former.target_tokenizer.vocabulary == more.target_tokenizer.vocabulary
    assert (former.config, former.data.test_size) == (more.config, 0)


@pytest.mark.slow
def test_bad_input_is_told_in_one_line(place, run, tmp_path):
    (tmp_path / "typo.toml").write_text("[training]\nepoch = 3\n")
    cases = [
        (1, "Did you mean `epochs`", ("fit", "--config", tmp_path / "typo.toml", "--data",
                                      place / "data", "--run-dir", tmp_path / "run")),
        (1, "Expected a folder of prepared data", ("fit", "--data", tmp_path, "--run-dir", "x")),
        (1, "dim is 32 there, 64 here", fit_arguments(place, run, "--dim", 64)[1:]),
        (1, "A GPU is requested", fit_arguments(place, tmp_path / "r", "--device", "gpu")[1:]),
        (2, "--dropout must be below 1", fit_arguments(place, tmp_path / "r", "--dropout", 2)[1:]),
        (1, "Expected a saved task", ("predict", "--model", tmp_path / "nothing")),
        (1, "Expected a file", ("predict", "--model", run / "best.task", tmp_path / "nothing")),
        (2, "Did you mean '--learning-rate'?", ("fit", "--lerning-rate", 3)),
        (2, "Give --data, a folder made by `prepare`, or --train.", ("fit", "--run-dir", "x")),
        (2, "prepared with --vocabulary-size 332. Received: 400. Leave it out",
         fit_arguments(place, tmp_path / "r", "--vocabulary-size", 400)[1:]),
        (2, "is not a valid integer", fit_arguments(place, tmp_path / "r", "--dim", "x")[1:]),
    ]  # fmt: skip
    for expected, message, arguments in cases:
        code, _, err = command("translation", *arguments)
        assert (code, message in err) == (expected, True), err
        assert "Traceback" not in err


def test_each_option_has_a_help_text():
    for name, sub in keras_attn_command.commands["translation"].commands.items():
        result = CliRunner().invoke(keras_attn_command, ["translation", name, "--help"])
        assert result.exit_code == 0
        for parameter in sub.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.name}"
    with pytest.raises(FileNotFoundError):
        main(["--debug", "translation", "predict", "--model", "nowhere.task"])
    result = CliRunner().invoke(keras_attn_command, ["--help"])
    assert "Exit codes" in result.output
