"""The script that measures fine-tuning: each run once, the same texts for both starts, a table."""

import importlib.util
import json
from pathlib import Path

import pytest

from keras_attn.tasks import Pretrainer

SCRIPT = Path(__file__).parents[2] / "examples/bert_finetuning.py"
SIZES = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8}
NOUNS = "tree house river stone light paper cloud bread glass wheel".split()


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("bert_finetuning", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(count):
    return [
        (f"{('a good', 'a bad')[i % 2]} {NOUNS[i % 10]} {NOUNS[i // 10 % 10]}", 1 - i % 2)
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, some in (("train", texts(100)), ("dev", texts(6))):
        rows = "".join(f"{text}\t{label}\n" for text, label in some)
        (folder / f"{name}.tsv").write_text("sentence\tlabel\n" + rows)
    for name, some in (("train", texts(80)), ("test", texts(10))):
        lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in some]
        (folder / f"imdb_{name}.jsonl").write_text("".join(lines))
    documents = [[text] for text, _ in texts(40)]
    data = {"max_length": 16, "vocabulary_size": 80, "next_sentence": False}
    Pretrainer.create(documents, data=data, model=SIZES).save(folder / "best.task")
    return folder


def arguments(folder, run_dir, *more):
    return [
        "--backbone", str(folder / "best.task"), "--sst2", str(folder), "--imdb", str(folder),
        "--run-dir", str(run_dir), "--seeds", "0", "1", "--epochs", "1", "--labels", "10",
        "--max-length", "12", *more,
    ]  # fmt: skip


@pytest.mark.slow
def test_the_script(script, folder, tmp_path, capsys):
    script.main(arguments(folder, tmp_path / "runs"))
    out = capsys.readouterr().out
    found = {
        f"{path.parts[-3]} {path.parts[-2]}": json.loads(path.read_text())
        for path in tmp_path.glob("runs/*/*/test.json")
    }
    assert set(found) == {
        f"{data} {start}-{seed}"
        for data in ("sst2", "imdb")
        for start in ("random", "pretrained", "tfidf")
        for seed in (0, 1)
    }
    assert {row["num_examples"] for row in found.values()} == {6, 10}
    assert {row["settings"]["labels"] for name, row in found.items() if "imdb" in name} == {10}
    assert out.count("loaded: ") == 4  # the random ones load nothing
    table = out.split("\n| data |")[1]
    assert table.count("| pretrained - random |") == 2
    script.main(arguments(folder, tmp_path / "runs"))
    again = capsys.readouterr().out
    assert "===" not in again  # nothing is done again
    assert table in again
    with pytest.raises(SystemExit, match="epochs is 1 there, 2 here"):
        script.main(arguments(folder, tmp_path / "runs", "--epochs", "2"))


def test_texts_of_a_seed(script, folder):
    args = script.parse_arguments(arguments(folder, "runs"))
    train, test = script.read("imdb", args)
    assert len(test) == 10
    assert not {x.text for x in train} & {x.text for x in test}
    first = script.draw("imdb", train, 0, args)
    assert [x.label for x in first].count("positive") == 5
    assert first == script.draw("imdb", train, 0, args)
    assert first != script.draw("imdb", train, 1, args)
    assert script.draw("sst2", train, 0, args) == train


def test_a_trial_leaves_the_test_side_alone(script, folder):
    args = script.parse_arguments(arguments(folder, "runs", "--trial", "--test-limit", "7"))
    train, test = script.read("sst2", args)
    assert len(test) == 7
    known = {text for text, _ in texts(100)}
    assert {x.text for x in train} | {x.text for x in test} <= known
    assert not {x.text for x in train} & {x.text for x in test}


def test_table(script):
    rows = [
        {
            "data": "imdb", "start": start, "seed": seed, "accuracy": {"value": value},
            "settings": {"labels": 2000, "tested": 25000},
        }
        for start, values in {"random": (0.70, 0.72), "pretrained": (0.80, 0.84)}.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip
    before = "| IMDB | 2,000 | 25,000 |"
    assert script.table(rows).splitlines()[2:] == [
        f"{before} random | 71.0 ± 1.0 | 70.0, 72.0 |",
        f"{before} pretrained | 82.0 ± 2.0 | 80.0, 84.0 |",
        f"{before} pretrained - random | +11.0 ± 1.0 | +10.0, +12.0 |",
    ]
    assert script.mean_and_error([71.25]) == "71.2"


def test_arguments(script):
    with pytest.raises(SystemExit):
        script.parse_arguments(["--backbone", "best.task"])
