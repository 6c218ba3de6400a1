"""The example of translation with a recurrent network."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "translation.py"
NUMBERS = "zero one two three four five six seven eight nine".split()
ZAHLEN = "null eins zwei drei vier fünf sechs sieben acht neun".split()


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("translation_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_default_is_the_transformer_as_before(script):
    args = script.parse_arguments([])
    assert (args.model, args.attention, args.layers) == ("transformer", None, 2)
    assert script.model_config(args) == {
        "dim": 128, "num_layers": 2, "num_heads": 4, "intermediate_dim": 512, "dropout": 0.1
    }  # fmt: skip


def test_recurrent_models(script, capsys):
    config = script.model_config(script.parse_arguments(["--model", "rnn"]))
    assert config == {
        "model": "rnn", "attention": "additive", "units": 256, "dim": 128, "num_layers": 1,
        "dropout": 0.1,
    }  # fmt: skip
    args = ["--model", "rnn", "--attention", "luong-dot", "--layers", "2"]
    assert script.model_config(script.parse_arguments(args))["attention"] == "luong-dot"
    for wrong, message in [
        (["--attention", "additive"], "--attention belongs to --model rnn"),
        (["--model", "rnn", "--attention", "dot"], "--attention is one of none, additive"),
        (["--model", "gru"], "invalid choice"),
    ]:
        with pytest.raises(SystemExit):
            script.parse_arguments(wrong)
        assert message in capsys.readouterr().err


def test_a_small_file(script, tmp_path, capsys):
    """A tenth of it at most is the test, and what is wrong is said without a traceback."""
    for count, sizes in [(4, (1, 1, 2)), (40, (34, 2, 4))]:
        lines = [f"the {NUMBERS[i % 10]} {chr(97 + i // 10)}\tx {chr(97 + i)}" for i in range(26)]
        lines += [f"a {NUMBERS[i % 10]} {chr(97 + i // 10)}\ty {chr(97 + i)}" for i in range(26)]
        path = tmp_path / "small.tsv"
        path.write_text("\n".join([*lines[:count], "no tab"]), encoding="utf-8")
        splits = script.read_splits(script.parse_arguments(["--data", str(path)]))
        assert tuple(map(len, (splits.train, splits.validation, splits.test))) == sizes
        assert "no tab" in capsys.readouterr().out  # is left out, and shown
    more = ["--data", str(path), "--test-size", "30", "--dev-size", "20"]
    with pytest.raises(SystemExit, match=r"`validation_size`=20 \(--dev-size\)\)\. Received: 40"):
        script.read_splits(script.parse_arguments(more))
    path.write_text("no tab")
    for file in (path, tmp_path / "none.tsv"):
        with pytest.raises(SystemExit, match=file.name):
            script.read_splits(script.parse_arguments(["--data", str(file)]))
    for option, size in (("--test-size", "1"), ("--dev-size", "0")):
        with pytest.raises(SystemExit):
            script.parse_arguments([option, size])
        assert f"{option} must be at least" in capsys.readouterr().err


@pytest.mark.slow
def test_without_attention_from_a_file_to_a_saved_model(tmp_path):
    lines = [
        f"the {a} and {c}\tdie {b} und {d}"
        for a, b in zip(NUMBERS, ZAHLEN, strict=True)
        for c, d in zip(NUMBERS, ZAHLEN, strict=True)
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    settings = (
        "--data", "pairs.tsv", "--run-dir", "run", "--test-size", 12, "--vocabulary-size", 290,
        "--model", "rnn", "--attention", "none", "--dim", 8, "--epochs", 1,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, settings)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "A recurrent network of" in done.stdout
    assert "it has no attention" in done.stdout
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "results.json", "run", "saved_model", "settings.json", "translator.task",
        "unseen_sentences.tsv",
    ]  # fmt: skip
    noted = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert (noted["model"], noted["attention"], noted["layers"]) == ("rnn", "none", 1)
