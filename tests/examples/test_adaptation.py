"""The example that adapts a translator."""

import importlib.util
from pathlib import Path

import pytest

from keras_attn.adapt import load_lora
from keras_attn.tasks import Translator
from keras_attn.text import BytePairTokenizer

PATH = Path(__file__).parents[2] / "examples" / "adaptation.py"
NUMBERS = "zero one two three four five six seven eight nine".split()
ZAHLEN = "null eins zwei drei vier fünf sechs sieben acht neun".split()


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("adaptation", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_script(example, tmp_path, capsys):
    """Three ways, one table; the file that was adapted stays as it is."""
    pairs = [
        (f"{a} and {b}", f"{c} und {d}")
        for a, c in zip(NUMBERS, ZAHLEN, strict=True)
        for b, d in zip(NUMBERS, ZAHLEN, strict=True)
    ]
    tokenizer = BytePairTokenizer.train([text for pair in pairs for text in pair], 290)
    settings = {"dim": 32, "num_layers": 1, "num_heads": 2, "intermediate_dim": 64}
    Translator(tokenizer, model=settings).save(tmp_path / "translator.task")
    before = (tmp_path / "translator.task").read_bytes()
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    old = [f"{source}\t?\t{target}\n" for source, target in pairs[:5]]
    old = "".join(["source\ttranslation\treference\n", *old])
    (tmp_path / "old.tsv").write_text(old, encoding="utf-8")
    options = ["--model", "translator.task", "--pairs", "pairs.tsv", "--before", "old.tsv"]
    options = [str(tmp_path / o) if "." in o else o for o in options]
    options += ["--source", "0", "--target", "1", "--to", str(tmp_path / "adapted")]
    options += ["--test-size", "9", "--train-size", "60", "--epochs", "30", "--beams", "1"]
    rows = {row["way"]: row for row in example.main(options)}
    assert list(rows) == ["as it was", "LoRA", "all weights"]
    assert 0 == rows["as it was"]["bytes"] < rows["LoRA"]["bytes"] < rows["all weights"]["bytes"]
    assert len(rows["LoRA"]["new"].translations) == 9
    assert len(rows["LoRA"]["before"].translations) == 5
    assert rows["all weights"]["new"].chrf > rows["as it was"]["new"].chrf + 10
    assert (tmp_path / "translator.task").read_bytes() == before
    adapted = Translator.load(tmp_path / "adapted" / "all_weights.task")
    assert adapted.translate("one and two", beams=1)
    loaded = Translator.load(tmp_path / "translator.task")
    load_lora(loaded, tmp_path / "adapted" / "lora.npz")
    merged = Translator.load(tmp_path / "adapted" / "lora.task")
    assert merged.translate(NUMBERS) == loaded.translate(NUMBERS)
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(table) == 5
    assert table[0].endswith("BLEU, new | BLEU, before |")
