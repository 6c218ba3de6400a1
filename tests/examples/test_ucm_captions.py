"""The run of UCM-Captions: its settings, its baselines and its table."""

import importlib
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from keras_attn.images import CaptionedImage
from keras_attn.models import CAPTIONERS, small_cnn_encoder
from keras_attn.settings import read_settings
from keras_attn.tasks import Captioner

FOLDER = Path(__file__).parents[2] / "examples" / "ucm_captions"
SMALL = """
[data]
format = "ucm"
vocabulary_size = 280
[model]
dim = 16
units = 32
dropout = 0.0
[training]
epochs = 2
batch_size = 8
score_beams = 1
[use]
beams = 2
"""


@pytest.fixture
def scripts(monkeypatch):
    """The modules `baselines` and `run`."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("baselines", "run", "vgg16_lpips"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("baselines"), importlib.import_module("run")
    for name in ("baselines", "run"):
        sys.modules.pop(name, None)


def encoder(archive=None, image_size=None, **settings):
    """In place of VGG16, with the same weights each time."""
    keras.utils.set_random_seed(1)
    return small_cnn_encoder(16, filters=(4, 8))


@pytest.fixture
def data(tmp_path):
    """Fields (1.png ...) and seas (301.png ...), so that the kind is seen from the colour."""
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    entries = []
    for start, color, name in ((1, (40, 200, 40), "field"), (301, (30, 30, 220), "sea")):
        for i in range(12):
            noise = np.random.default_rng(start + i).integers(-20, 20, (16, 16, 3))
            pixels = np.clip(np.array(color) + noise, 0, 255).astype("uint8")
            file = f"{start + i}.png"
            Image.fromarray(pixels).save(folder / "images" / file)
            split = "train" if i < 8 else "val" if i < 10 else "test"
            captions = [f"There is a {name} .", f"There is a {name} .", f"A wide {name} {i} ."]
            entries.append({"image": file, "split": split, "captions": captions})
    (folder / "captions.json").write_text(json.dumps(entries))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["soft-attention", "transformer"])
def test_settings(name):
    sections = Captioner.sections()
    read = read_settings(FOLDER / f"{name}.toml", sections)
    settings = {section: sections[section].made(values) for section, values in read.items()}
    assert settings["model"].name == name
    assert settings["data"].format == "ucm" and not settings["data"].train
    made = CAPTIONERS.make(
        settings["model"],
        vocabulary_size=settings["data"].vocabulary_size,
        region_dim=8,
        grid=(4, 4),
    )
    assert made.build().count_params() < 5e6


def test_all_settings_are_tested():
    assert len(list(FOLDER.glob("*.toml"))) == 2


def test_kinds(scripts):
    baselines, _ = scripts
    assert len(set(baselines.KINDS)) == 21
    numbers = {1: "agricultural", 100: "agricultural", 101: "airplane", 2100: "tennis court"}
    for number, kind in numbers.items():
        assert baselines.kind_of(CaptionedImage(f"images/{number}.jpg", ("",))) == kind


def test_the_commonest_caption(scripts):
    baselines, _ = scripts
    train = [CaptionedImage("1.jpg", ("a", "b", "b")), CaptionedImage("2.jpg", ("a", "a", "c"))]
    train += [CaptionedImage("301.jpg", ("d", "c"))]
    assert baselines.commonest_captions(train) == {"agricultural": "a", "beach": "d"}


@pytest.mark.slow
def test_baselines(scripts, data, tmp_path, capsys):
    baselines, _ = scripts
    found = baselines.baselines(data, tmp_path / "features", encoder(), "test")
    assert [*found] == ["true kind", "predicted kind"]
    assert "100.0%" in capsys.readouterr().out
    for scores in found.values():
        assert scores.bleu_4 == pytest.approx(100.0) and scores.num_images == 4
        assert scores.distinct == 2 and scores.copied == 1.0


@pytest.mark.slow
def test_a_wrong_kind_costs(scripts, data, tmp_path, monkeypatch):
    baselines, _ = scripts
    monkeypatch.setattr(baselines, "predict_kinds", lambda *_: ["beach"] * 4)
    found = baselines.baselines(data, tmp_path / "features", encoder(), "test")
    assert found["predicted kind"].bleu_4 < found["true kind"].bleu_4 - 10


@pytest.mark.slow
def test_the_script(scripts, data, tmp_path, monkeypatch, capsys):
    _, run = scripts
    for name, more in {"soft-attention": "", "transformer": 'model = "transformer"\n'}.items():
        text = SMALL.replace("[model]\n", f"[model]\n{more}")
        if more:
            text = text.replace("units = 32\n", "num_layers = 1\nnum_heads = 2\n")
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "vgg16_from_lpips", encoder)
    arguments = ["--data-dir", data, "--run-dir", tmp_path / "runs", "--seeds", 0, 1, "--epochs", 1]
    arguments = [str(argument) for argument in arguments]
    run.main(arguments)
    out = capsys.readouterr().out
    rows = [line.split("|") for line in out.splitlines() if line.startswith("|")][2:]
    names = [(row[1].strip(), row[2].strip()) for row in rows]
    models = ("soft-attention", "transformer")
    assert names[:2] == [("true kind", ""), ("predicted kind", "")]
    assert names[2:6] == [(model, seed) for model in models for seed in "01"]
    assert names[6:] == [(model, "mean") for model in models]
    kept = tmp_path / "runs" / "transformer" / "1" / "test.json"
    row = json.loads(kept.read_text())
    assert rows[5][7].strip() == f"{row['bleu_4']:.1f}" and len(row["captions"]) == 4
    assert rows[5][3].strip() == f"{row['validation']['cider']:.1f}"
    # What is there is not done again.
    before = kept.stat().st_mtime_ns
    run.main(arguments)
    again = capsys.readouterr().out
    assert again.count("All epochs are done.") == 4 and "=== baselines" not in again
    assert [line.split("|") for line in again.splitlines() if line.startswith("|")][2:] == rows
    assert kept.stat().st_mtime_ns == before
    with pytest.raises(SystemExit):
        run.main(["--data-dir", str(data), "--models", "unknown"])
    assert "choose from" in capsys.readouterr().err
