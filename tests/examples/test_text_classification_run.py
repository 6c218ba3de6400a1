"""The script that measures classifiers: its settings are settings, and it does what it says."""

import importlib.util
import json
from pathlib import Path

import pytest

from keras_attn.settings import read_settings
from keras_attn.tasks import TextClassifier

FOLDER = Path(__file__).parents[2] / "examples/text_classification"


def load():
    spec = importlib.util.spec_from_file_location("text_classification_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["imdb", "sst2"])
def test_the_settings_are_settings(name):
    sections = TextClassifier.sections()
    read = read_settings(FOLDER / f"{name}.toml", sections)
    made = {section: sections[section].made(values) for section, values in read.items()}
    assert made["data"].format == name
    assert made["model"].name == {"imdb": "bag", "sst2": "rnn"}[name]


def test_all_settings_are_tested():
    assert {path.stem for path in FOLDER.glob("*.toml")} == {"imdb", "sst2"}


@pytest.mark.slow
def test_the_script(tmp_path, monkeypatch, capsys):
    script = load()
    monkeypatch.setattr(script, "HERE", tmp_path)
    monkeypatch.setattr(script, "DELETED", 5)
    (tmp_path / "sst2.toml").write_text(
        '[data]\nformat = "sst2"\ndev_share = 0.2\nvocabulary_size = 100\nmax_length = 12\n'
        '[model]\nmodel = "rnn"\ndim = 8\nunits = 8\n[training]\nepochs = 2\nlearning_rate = 1e-2\n'
    )
    data = tmp_path / "data"
    data.mkdir()
    words = "tree house river stone light paper cloud bread glass wheel".split()
    rows = [
        f"{('a good', 'a bad')[i % 2]} {words[i % 10]} {words[i // 10]} {words[i * 7 % 10]}\t"
        f"{1 - i % 2}"
        for i in range(100)
    ]
    (data / "train.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    (data / "dev.tsv").write_text("sentence\tlabel\n" + "a good thing\t1\na bad thing\t0\n" * 3)
    arguments = ["--settings", "sst2", "--data-dir", str(data), "--run-dir", str(tmp_path / "runs")]
    script.main([*arguments, "--seeds", "0", "1"])
    out = capsys.readouterr().out
    folder = tmp_path / "runs/sst2"
    found = [json.loads((folder / f"{seed}/test.json").read_text()) for seed in (0, 1)]
    mean = sum(row["accuracy"]["value"] for row in found) / 2
    assert f"| mean of 2 | {mean:.4f} |" in out
    assert found[0]["num_examples"] == 6
    assert {"deletion_attention", "deletion_gradient"} <= set(found[0])
    baseline = json.loads((folder / "tfidf.json").read_text())
    assert f"| TF-IDF | {baseline['accuracy']['value']:.4f} (" in out
    script.main([*arguments, "--seeds", "0", "1"])  # nothing is done again
    assert out.split("| model |")[1] == capsys.readouterr().out.split("| model |")[1]
