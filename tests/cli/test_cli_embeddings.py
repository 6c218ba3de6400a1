"""The command `embeddings`: from a text to vectors, neighbours, scores and a page."""

import json

import numpy as np
import pytest
from command_runs import run_command

from keras_attn.interop import read_word_vectors
from keras_attn.tasks import WordEmbedder


def command(*arguments):
    return run_command("embeddings", *arguments)


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The end of a run."""
    folder = tmp_path_factory.mktemp("embeddings")
    rng = np.random.default_rng(0)
    rows = [" ".join(rng.choice("king queen man woman sun moon".split(), 15)) for _ in range(20)]
    (folder / "corpus.txt").write_text("\n\n".join(rows))
    code, out, err = command(
        "fit", "--text", folder / "corpus.txt", "--dim", 8, "--epochs", 1, "--subsample", 0,
        "--run-dir", folder / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "20 texts, 300 words, of which 300 are one of 6 with a vector" in out
    return folder / "run/best.task"


@pytest.mark.slow
def test_neighbours(best, capfd):
    embedder = WordEmbedder.load(best)
    code, _, _ = command("nearest", "--model", best, "--top-k", 2, "king", "King - man + woman")
    lines = capfd.readouterr().out.splitlines()
    assert (code, lines[0], lines[4]) == (0, "king", "King - man + woman")
    expected = embedder.nearest("king - man + woman", 2)
    assert lines[5:] == [f"{cosine:7.4f}  {word}" for word, cosine in expected]
    command("analogy", "--model", best, "--top-k", 2, "man", "woman", "king")
    assert capfd.readouterr().out.splitlines() == lines[5:]
    code, _, err = command("nearest", "--model", best, "king", "cow")
    assert capfd.readouterr().out == ""
    assert (code, "'cow', which is not in the vocabulary of 6 words" in err) == (1, True)


def test_files(best, tmp_path):
    code, out, err = command("vectors", "--model", best, "--to", tmp_path / "v.bin")
    assert code == 0, err
    vectors = WordEmbedder.load(best).vectors
    assert read_word_vectors(tmp_path / "v.bin").words == vectors.words
    (tmp_path / "q.txt").write_text(": family\nman woman king queen\n")
    (tmp_path / "p.tsv").write_text("king\tqueen\t6\nman\twoman\t1\nking\tman\t9\n")
    figures = []
    for model in (best, tmp_path / "v.bin"):  # a file of vectors does as well
        code, out, err = command(
            "evaluate", "--model", model, "--analogies", tmp_path / "q.txt", "--pairs",
            tmp_path / "p.tsv", "--to", tmp_path / "f.json",
        )  # fmt: skip
        assert code == 0, err
        assert "of 1 questions" in out and "p.tsv: Spearman" in out
        figures.append(json.loads((tmp_path / "f.json").read_text()))
    assert figures[0] == figures[1]
    code, _, err = command("evaluate", "--model", best)
    assert (code, "--analogies, --pairs" in err) == (2, True)


def test_the_page(best, tmp_path):
    code, _, err = command("page", "--model", best, "--to", tmp_path / "m.html", "--count", 6)
    assert code == 0, err
    assert "king" in (tmp_path / "m.html").read_text("utf-8")
