"""Fine-tuning beside transformers: a small BERT of random weights on made-up data."""

import json

import keras
import numpy as np
import pytest

from benchmarks import fine_tuning
from benchmarks.fine_tuning_cases import CASES
from keras_attn.interop import save_pretrained
from keras_attn.models import BertConfig
from keras_attn.text import WordPieceTokenizer

WORDS = "a dog cat runs sleeps here there and".split()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A backbone, and data in the files of CoLA and of CoNLL-2003."""
    folder, rng = tmp_path_factory.mktemp("fine_tuning"), np.random.default_rng(0)
    tokenizer = WordPieceTokenizer.train([" ".join(WORDS)] * 3, 60, allow_fewer=True)
    keras.utils.set_random_seed(0)
    config = BertConfig(
        tokenizer.vocabulary_size, dim=16, num_layers=2, num_heads=2, intermediate_dim=32,
        sequence_length=128,
    )  # fmt: skip
    save_pretrained(folder / "backbone", config.build(), config, tokenizer)
    cola, conll = folder / "data" / "glue" / "CoLA", folder / "data" / "conll2003"
    for place in (cola, conll):
        place.mkdir(parents=True)
    for side, count in (("train", 400), ("dev", 40), ("valid", 40), ("test", 40)):
        texts = [rng.choice(WORDS, rng.integers(3, 9)) for _ in range(count)]
        lines = [f"x\t{int('dog' in text)}\t\t{' '.join(text)}\n" for text in texts]
        (cola / f"{side}.tsv").write_text("".join(lines))
        tags = {"dog": "B-PER", "cat": "B-LOC"}
        blocks = ["".join(f"{w} {tags.get(w, 'O')} 0\n" for w in text) for text in texts]
        (conll / f"{side}.txt").write_text("\n".join(blocks))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("task", ["cola", "conll"])
def test_a_task(folders, task, tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is of the extra `test`")
    pytest.importorskip("transformers", reason="transformers is of the extra `test`")
    monkeypatch.setattr(fine_tuning, "BATCHES", 2)
    monkeypatch.setitem(fine_tuning.PLAIN, "epochs", 1)
    command = [
        "--data", str(folders / "data"), "--backbone", str(folders / "backbone"),
        "--to", str(tmp_path), "--tasks", task, "--seeds", "0",
    ]  # fmt: skip
    fine_tuning.main(command)
    rows = {path.stem: json.loads(path.read_text()) for path in (tmp_path / task).iterdir()}
    assert set(rows) == {f"{what}-0" for what in fine_tuning.WHATS}
    ours, theirs = rows["losses-0"]["ours"], rows["losses-0"]["reference"]
    assert len(ours) == {"cola": 20, "conll": 13}[task]  # an epoch of conll has 13 batches
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert np.ptp(ours) > 1e-3
    for what in ("ours", "reference", "plain", "guess"):
        row = rows[f"{what}-0"]
        assert -1 <= row["score"] <= 1 and ("test" in row) == (task == "conll")
    assert all(seconds > 0 for seconds in rows["speed-0"]["reference"])

    printed = capsys.readouterr().out
    assert f"| {task} | {CASES[task]().figure} |" in printed
    monkeypatch.setattr(fine_tuning, "measure", None)  # nothing is measured again
    fine_tuning.main(command)
    assert capsys.readouterr().out.splitlines()[1:] == printed.splitlines()[1:]
