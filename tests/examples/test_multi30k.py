"""The run of Multi30k: its settings and its table."""

import importlib.util
from pathlib import Path

import pytest

from keras_attn.models import ENCODER_DECODERS
from keras_attn.settings import read_settings
from keras_attn.tasks import Translator

FOLDER = Path(__file__).parents[2] / "examples" / "multi30k"
NUMBERS = "zero one two three four five six seven eight nine".split()
ZAHLEN = "null eins zwei drei vier fünf sechs sieben acht neun".split()
SMALL = """
[data]
format = "multi30k"
source = "de"
target = "en"
vocabulary_size = 290
[model]
num_layers = 1
dim = 16
num_heads = 2
intermediate_dim = 32
[training]
epochs = 2
tokens_per_batch = 128
[use]
beams = 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        "de-en",
        pytest.param("en-de", marks=pytest.mark.slow),
        "de-en-rnn-additive",
        pytest.param("de-en-rnn-none", marks=pytest.mark.slow),
    ],
)
def test_settings(file):
    read = read_settings(FOLDER / f"{file}.toml", Translator.sections())
    settings = {name: Translator.sections()[name].made(values) for name, values in read.items()}
    direction = f"{settings['data'].source}-{settings['data'].target}"
    chosen = settings["model"]
    assert file == direction or file.startswith(f"{direction}-{chosen.name}-")
    size = settings["data"].vocabulary_size
    config = ENCODER_DECODERS.make(chosen, source_vocabulary_size=size)
    if chosen.name == "rnn":
        assert file.endswith(f"-{config.attention}")
    assert config.build().count_params() < 9.5e6


def test_all_settings_are_tested():
    assert len(list(FOLDER.glob("*.toml"))) == 4


@pytest.mark.slow
def test_the_script(tmp_path, monkeypatch, capsys):
    data = tmp_path / "data"
    data.mkdir()
    pairs = [(f"{a} und {b}", f"{c} and {d}") for a, c in zip(ZAHLEN, NUMBERS, strict=True)
             for b, d in zip(ZAHLEN, NUMBERS, strict=True)]  # fmt: skip
    sets = {"train": pairs[:80], "val": pairs[80:90], "test_2016_flickr": pairs[90:]}
    for split, part in sets.items():
        for i, language in enumerate(["de", "en"]):
            text = "".join(pair[i] + "\n" for pair in part)
            (data / f"{split}.{language}").write_text(text, encoding="utf-8")
    (tmp_path / "de-en.toml").write_text(SMALL)
    spec = importlib.util.spec_from_file_location("multi30k_run", FOLDER / "run.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(script, "HERE", tmp_path)
    arguments = ["--data-dir", data, "--run-dir", tmp_path / "runs", "--seeds", 0, 1, "--epochs", 1]
    script.main([str(a) for a in arguments])
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("| de-en")]
    assert [row.split("|")[2].strip() for row in rows] == ["0", "1", "mean"]
    assert "case:lc" in out
    with pytest.raises(SystemExit):
        script.main(["--data-dir", str(data), "--directions", "de-fr"])
    assert "choose from" in capsys.readouterr().err
    # What is there is not done again.
    script.main([str(a) for a in arguments])
    again = capsys.readouterr().out
    assert again.count("All epochs are done.") == 2
    assert [line for line in again.splitlines() if line.startswith("| de-en")] == rows
