"""The command `similarity`: from a file of scored pairs to vectors in a file."""

import json

import numpy as np
import pytest
from command_runs import run_command
from tracing import eagerly

from keras_attn.tasks import SimilarityScorer

ROWS = [
    f"x\t{5 if a == b else 1}\ta {a} dog\tthe {b} hound"
    for a in "big small red old new wet".split()
    for b in "big small red old new wet".split()
]
SIZES = ("--dim", 16, "--num-layers", 1, "--num-heads", 2, "--intermediate-dim", 32)


def command(*arguments):
    return run_command("similarity", *arguments)


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The end of a run."""
    folder = tmp_path_factory.mktemp("similarity")
    (folder / "train.csv").write_text("\n".join(ROWS))
    with eagerly():
        code, out, err = command(
            "fit", "--train", folder / "train.csv", "--format", "tsv", "--first", 2, "--second", 3,
            "--score", 1, "--vocabulary-size", 80, "--max-length", 16, "--epochs", 1, *SIZES,
            "--near-duplicates", "anywhere", "--run-dir", folder / "run",
        )  # fmt: skip
    assert code == 0, err
    assert "36 pairs, scores from 1 to 5" in out
    assert "Spearman" in out
    return folder / "run/best.task"


@pytest.mark.slow
def test_evaluate_and_predict(best, tmp_path, capfd, eager):
    scorer = SimilarityScorer.load(best)
    (tmp_path / "test.tsv").write_text("a big dog\tthe big hound\t5\na red dog\ta cat\t0\n")
    columns = ("--first", 0, "--second", 1, "--score", 2)
    code, out, err = command(
        "evaluate", "--model", best, "--data", tmp_path / "test.tsv", *columns,
        "--num-bootstrap", 5, "--to", tmp_path / "figures.json",
    )  # fmt: skip
    assert code == 0, err
    assert "2 examples" in out
    assert "pearson" in json.loads((tmp_path / "figures.json").read_text())
    (tmp_path / "lines.txt").write_text("a big dog\tthe big hound\n\ta cat\n")
    capfd.readouterr()
    code, _, err = command("predict", "--model", best, tmp_path / "lines.txt")
    assert code == 0, err
    found = [float(line) for line in capfd.readouterr().out.splitlines()]
    expected = scorer.predict([("a big dog", "the big hound"), ("", "a cat")])
    assert found == pytest.approx(expected, abs=1e-4)
    (tmp_path / "lines.txt").write_text("a big dog\n")
    code, _, err = command("predict", "--model", best, tmp_path / "lines.txt")
    assert (code, "a tab between them" in err) == (1, True)


@pytest.mark.slow
def test_explain(best, tmp_path, eager):
    (tmp_path / "lines.txt").write_text("a big dog\tthe big hound\n")
    code, _, err = command(
        "explain", "--model", best, "--to", tmp_path / "page.html", tmp_path / "lines.txt"
    )
    assert code == 0, err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "hound" in page and "integrated gradients" in page


@pytest.mark.slow
def test_embed(best, tmp_path, capfd, eager):
    scorer = SimilarityScorer.load(best)
    texts = ["a big dog", "", "naïve \U0001f600\twith a tab"]
    (tmp_path / "lines.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    embed = ("embed", "--model", best, tmp_path / "lines.txt", "--normalize")
    capfd.readouterr()
    code, _, err = command(*embed)
    assert code == 0, err
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == texts
    expected = scorer.embed(texts, normalize=True)
    np.testing.assert_allclose([row["vector"] for row in rows], expected, atol=1e-6)
    code, _, err = command(*embed, "--to", tmp_path / "vectors.npy")
    assert code == 0, err
    found = np.load(tmp_path / "vectors.npy")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    cross = tmp_path / "cross.task"
    SimilarityScorer(
        scorer.tokenizer, model=scorer.config, data={"kind": "cross", "max_length": 16}
    ).save(cross)
    code, _, err = command("embed", "--model", cross, tmp_path / "lines.txt")
    assert (code, "kind='cross', which reads both" in err) == (1, True)
