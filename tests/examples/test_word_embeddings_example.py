"""The example and the benchmark of word embeddings, on toys."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from word_senses import LAYER_WORDS, TEST_WORDS, WORD_SENSES

from keras_attn.interop import save_pretrained
from keras_attn.models import BertConfig
from keras_attn.text import WordPieceTokenizer

ROOT = Path(__file__).parents[2]


def script(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem + "_script", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def text(tmp_path):
    rng = np.random.default_rng(0)
    words = "spring bank king man woman good sea sun".split()
    rows = [" ".join(rng.choice(words, 20)) for _ in range(20)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(rows))
    return tmp_path / "corpus.txt"


@pytest.mark.slow
def test_the_example_ends_in_pages(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sentences = [s for senses in WORD_SENSES.values() for rows in senses.values() for s in rows]
    tokenizer = WordPieceTokenizer.train(sentences, 400, allow_fewer=True)
    config = BertConfig(400, dim=8, num_layers=2, num_heads=2, intermediate_dim=8)
    save_pretrained(tmp_path / "encoder", config.build(), config, tokenizer)
    example = script("examples/word_embeddings.py")
    settings = ["--run-dir", "run", "--dim", "4", "--epochs", "1", "--map-words", "8"]
    example.main(["--text", str(text), "--encoder", "encoder", *settings])
    printed = capsys.readouterr().out
    assert "king - man + woman: " in printed and "Layer " in printed
    assert "<svg" in Path("run/map.html").read_text("utf-8")
    assert sorted(p.stem for p in Path("run/senses").iterdir()) == sorted(WORD_SENSES)


@pytest.mark.slow
def test_the_benchmark_makes_its_table(text, tmp_path, capsys):
    benchmark = script("benchmarks/word_embeddings.py")
    (tmp_path / "q.txt").write_text(": family\nman king woman good\n")
    (tmp_path / "p.tsv").write_text("man\twoman\t3\nking\tsea\t1\nsun\tsea\t2\n")
    arguments = [
        "--text", str(text), "--questions", str(tmp_path / "q.txt"), "--pairs",
        str(tmp_path / "p.tsv"), "--programs", "ours", "--seeds", "1", "2", "--epochs", "1",
        "--dim", "4", "--results", str(tmp_path / "results.json"),
    ]  # fmt: skip
    benchmark.main(arguments)
    first = capsys.readouterr().out
    assert "| ours | mean |" in first
    benchmark.main(arguments)  # nothing is done again
    assert capsys.readouterr().out.splitlines()[-5:] == first.splitlines()[-5:]
    speeds = ("words a second", "words a processor's second")
    rows = [
        {"program": program, "seed": 1, "analogies": 2.0, **dict.fromkeys(speeds, value)}
        for program, value in (("ours", 3.0), ("gensim", 2.0))
    ]
    assert "words a second, ours / gensim: 1.50" in benchmark.table(rows)


def test_the_shipped_sentences():
    """Ten words, three senses, six sentences each, with the word once and in lower case."""
    assert (*LAYER_WORDS, *TEST_WORDS) == tuple(WORD_SENSES) == tuple(sorted(WORD_SENSES))
    sentences = []
    for word, senses in WORD_SENSES.items():
        assert [len(rows) for rows in senses.values()] == [6, 6, 6]
        for rows in senses.values():
            sentences += rows
            for sentence in rows:
                assert re.findall(rf"\b{word}\b", sentence, re.I) == [word], sentence
    assert len(set(sentences)) == 180
