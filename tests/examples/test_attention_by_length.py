"""BLEU by length: joining, bins, intervals, and the run from data to the figure."""

import csv
import importlib.util
import json
from pathlib import Path

import pytest

from keras_attn.records import TranslationPair, template
from keras_attn.settings import read_settings

FOLDER = Path(__file__).parents[2] / "examples" / "attention_by_length"
NUMBERS = "zero one two three four five six seven eight nine".split()
ZAHLEN = "null eins zwei drei vier fünf sechs sieben acht neun".split()
PAIRS = [
    TranslationPair(f"{a} und {b} und {c}", f"{d} and {e} and {f}")
    for a, d in zip(ZAHLEN, NUMBERS, strict=True)
    for b, e in zip(ZAHLEN, NUMBERS, strict=True)
    for c, f in zip(ZAHLEN[:3], NUMBERS, strict=False)
]
SMALL = """
[data]
vocabulary_size = 290
max_length = 128
[rnn-none]
model = "rnn"
attention = "none"
dim = 8
units = 8
[rnn-luong-general]
model = "rnn"
attention = "luong-general"
dim = 8
units = 8
[transformer]
num_layers = 1
dim = 8
num_heads = 2
intermediate_dim = 16
[training]
epochs = 1
tokens_per_batch = 1024
score_pairs = 2
[use]
beams = 2
"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("attention_by_length_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_settings_are_those_of_the_same_budget(script):
    read = read_settings(FOLDER / "settings.toml", script.SECTIONS)
    settings = {name: script.SECTIONS[name].made(values) for name, values in read.items()}
    models = {name: settings[name] for name in script.MODELS}
    rnn = [dict(m.values) for m in models.values() if m.name == "rnn"]
    assert {m.get("attention", "additive") for m in rnn} == {"none", "additive", "luong-general"}
    assert models["transformer"].name == "transformer"
    for config in rnn:
        assert {**config, "attention": ""} == {**rnn[0], "attention": ""}


def test_joining(script):
    joined = script.join(PAIRS, 5, 100, "0")
    # Nothing is lost, and the order is kept.
    for side in (0, 1):
        assert " ".join(pair[side] for pair in joined) == " ".join(pair[side] for pair in PAIRS)
    sizes = [len(pair.source.split()) / 5 for pair in joined[:-1]]
    assert set(sizes) == {1, 2, 3, 4, 5}
    for size in (1, 2, 3, 4, 5):
        assert 0.1 < sizes.count(size) / len(sizes) < 0.3
    assert all(len(p.source.split()) == len(p.target.split()) for p in joined)
    assert script.join(PAIRS, 5, 100, "0") == joined != script.join(PAIRS, 5, 100, "1")
    assert script.join(PAIRS[:9], 1, 100, "0") == PAIRS[:9]
    short = script.join(PAIRS, 5, 12, "0")  # room for two
    assert {len(pair.source.split()) for pair in short} == {5, 10}
    long = TranslationPair("one", "word " * 13)
    assert script.join([PAIRS[0], long, PAIRS[1]], 1, 12, "0") == PAIRS[:2]
    odd = TranslationPair("a\tb \n c", "x\u00a0y")
    assert script.join([odd], 1, 12, "0") == [TranslationPair("a b c", "x y")]


def test_bins(script):
    words = [0, 1, 10, 11, 20, 21, 50, 51, 300]
    names = [script.bin_name(script.bin_of("w " * n)) for n in words]
    assert names == [
        "1-10", "1-10", "1-10", "11-20", "11-20", "21-30", "41-50", "51+", "51+"
    ]  # fmt: skip


def test_bleu_by_length_is_sacrebleu(script):
    import sacrebleu

    test = script.join(PAIRS, 5, 100, "0")
    wrong = [pair.target.replace("and", "und", i % 2) for i, pair in enumerate(test)]
    translations = {"transformer": [pair.target for pair in test], "rnn-none": wrong}
    translations["rnn-additive"] = ["and " * len(p.source.split()) for p in test]
    rows = script.bleu_by_length(test, translations, resamples=50)
    assert sum(row["examples"] for row in rows if row["source_words"] != "all") == 3 * len(test)
    for row in rows:
        own = [
            i
            for i, pair in enumerate(test)
            if row["source_words"] in ("all", script.bin_name(script.bin_of(pair.source)))
        ]
        assert row["examples"] == len(own)
        texts = [translations[row["model"]][i] for i in own]
        expected = sacrebleu.corpus_bleu(texts, [[test[i].target for i in own]]).score
        assert row["bleu"] == pytest.approx(expected, abs=0.006)
        assert row["low"] <= row["bleu"] <= row["high"]
        if row["model"] == "transformer":
            assert row["bleu"] == row["low"] == 100
        elif row["model"] == "rnn-none":
            assert row["low"] < row["high"] < 100
        else:  # smoothed as sacrebleu does it
            assert 0 < row["high"] < 10
    assert rows == script.bleu_by_length(test, translations, resamples=50)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi30k", "tsv"])
def test_the_script(script, tmp_path, capsys, kind):
    settings, data, to = tmp_path / "small.toml", tmp_path / "data", tmp_path / "out"
    settings.write_text(SMALL)
    data.mkdir()
    models = ["rnn-none", "rnn-luong-general", "transformer"]
    if kind == "multi30k":
        sets = {"train": PAIRS[:205], "val": PAIRS[200:250], "test_2016_flickr": PAIRS[250:]}
        for split, part in sets.items():
            for side, language in enumerate(["de", "en"]):
                text = "".join(pair[side] + "\n" for pair in part)
                (data / f"{split}.{language}").write_text(text, encoding="utf-8")
        arguments = ["--data-dir", data]
    else:
        models = models[:1]
        text = "".join(f"{pair.target}\t{pair.source}\n" for pair in PAIRS)
        (data / "pairs.tsv").write_text(text, encoding="utf-8")
        arguments = ["--pairs", data / "pairs.tsv", "--source", 1, "--target", 0]
        arguments += ["--test-size", 40, "--limit", 100]
    arguments += ["--settings", settings, "--to", to, "--models", *models, "--epochs", 1]
    arguments = [str(a) for a in arguments]
    script.main(arguments)
    capsys.readouterr()

    # No sentence of one set stands in another one, joined or alone.
    seen = {}
    for name in script.SETS:
        lines = (to / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        sources = [line.split("\t")[0].split() for line in lines]
        assert all(len(source) % 5 == 0 and len(source) <= 25 for source in sources)
        assert all(line.split("\t")[0].split()[1] == "und" for line in lines)
        seen[name] = {
            template(" ".join(source[i : i + 5]))
            for source in sources
            for i in range(0, len(source), 5)
        }
    counts = {"train": 200, "dev": 50, "test": 50} if kind == "multi30k" else {
        "train": 100, "dev": 40, "test": 40
    }  # fmt: skip
    assert {name: len(sentences) for name, sentences in seen.items()} == counts
    assert not seen["train"] & (seen["dev"] | seen["test"])
    assert not seen["dev"] & seen["test"]

    with open(to / "bleu_by_length.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["model", "source_words", "examples", "bleu", "low", "high"]
    assert list(dict.fromkeys(row["model"] for row in rows)) == models
    bins = ["1-10", "11-20", "21-30", "all"]
    assert [row["source_words"] for row in rows] == bins * len(models)
    picture = (to / "bleu_by_length.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    overall = [row for row in rows if row["source_words"] == "all"]
    for model, row in zip(models, overall, strict=True):
        found = json.loads((to / model / "test.json").read_text(encoding="utf-8"))
        assert float(row["bleu"]) == pytest.approx(found["bleu"], abs=0.006)

    # Once more: nothing is trained or translated again, and the same comes of it.
    times = {p: p.stat().st_mtime_ns for p in to.glob("*/*") if p.name != ".lock"}
    script.main(arguments)
    again = capsys.readouterr().out
    assert again.count("Done before.") == len(models)
    assert "Epoch" not in again
    assert times == {p: p.stat().st_mtime_ns for p in to.glob("*/*") if p.name != ".lock"}
    with open(to / "bleu_by_length.csv", newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == rows

    with pytest.raises(SystemExit, match="other settings: seed, epochs"):
        script.main([*arguments, "--epochs", "2", "--seed", "1"])


def test_examples_that_are_too_long_are_told(script, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL.replace("max_length = 128", "max_length = 12"))
    text = "".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS)
    (tmp_path / "pairs.tsv").write_text(text, encoding="utf-8")
    arguments = ["--pairs", "pairs.tsv", "--settings", "small.toml", "--to", "out"]
    arguments = [a if a.startswith("--") else str(tmp_path / a) for a in arguments]
    with pytest.raises(SystemExit, match="more than `max_length`=12 tokens"):
        script.main([*arguments, "--test-size", "40"])
    with pytest.raises(SystemExit):
        script.parse_arguments(["--pairs", "a", "--data-dir", "b"])
