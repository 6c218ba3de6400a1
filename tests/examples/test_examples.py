"""The scripts do what the README says, in a process of their own."""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest
from processes import run_python

from keras_attn.records import TranslationPair

ROOT = Path(__file__).parents[2]


def run(script, *arguments, backend="tensorflow", cwd):
    return run_python(backend, ROOT / "examples" / script, *arguments, cwd=cwd, check=False)


def code_block(page, number=0):
    """The n-th block of Python code of a page."""
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```python\n")[1:]
    return blocks[number].split("```")[0]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_stack_layers(backend, tmp_path):
    size = (5, 4096) if backend == "tensorflow" else (1, 256)
    done = run(
        "stack_layers.py", "--run-dir", "out", "--epochs", size[0], "--examples", size[1],
        backend=backend, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.split("% of the digits")[0].split()[-1])
    if backend == "tensorflow":
        assert accuracy > 60  # one of ten by chance
    assert "reverse.keras: the same predictions" in done.stdout
    assert (backend == "tensorflow") == ("SavedModel in" in done.stdout)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
def test_the_readme_stacks_the_same_layers():
    names = {}
    code = code_block("README.md", 1)
    exec(code, names)
    shapes = [tuple(w.shape) for w in names["model"].weights]
    assert shapes == [tuple(w.shape) for w in example("stack_layers").build_model().weights]
    assert len(code.strip().splitlines()) <= 15


def example(name):
    """The module of a script."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def test_the_picture_shows_a_sentence_that_is_translated_correctly():
    """The first one of 6 to 10 words without a placeholder, or the first one of all."""
    texts = [
        ("too few words", "richtig", "richtig"),
        ("a b c d e f", "falsch", "richtig"),
        ("a {name} b c d e", "richtig", "richtig"),
        ("a b c d e f g", "gut", "gut"),
        ("a b c d e f g h", "gut", "gut"),
    ]
    pairs = [TranslationPair(source, target) for source, _, target in texts]
    translations = [translation for _, translation, _ in texts]
    shown = example("translation").shown_sentence
    assert shown(pairs, translations) == ("a b c d e f g", "gut")
    assert shown(pairs[:3], translations[:3]) == ("too few words", "richtig")


def make_pairs(path, count):
    adjectives = "red green blue old new small large cold warm dark".split()
    things = "door lamp light switch sensor window kitchen garden car dog".split()
    nouns = "tür lampe licht schalter sensor fenster küche garten auto hund".split()
    colours = "rot grün blau alt neu klein groß kalt warm dunkel".split()
    lines = []
    for i, adjective in enumerate(adjectives):
        for j, thing in enumerate(things):
            for k, other in enumerate(things):
                lines.append(
                    f"the {thing} is {adjective} near the {other}\t"
                    f"{nouns[j]} ist {colours[i]} bei {nouns[k]}"
                )
    path.write_text("\n".join(lines[:: max(1, len(lines) // count)][:count]), encoding="utf-8")


@pytest.mark.slow
def test_translation_from_a_file_to_a_saved_model(tmp_path):
    make_pairs(tmp_path / "pairs.tsv", 500)
    settings = (
        "--data", "pairs.tsv", "--run-dir", "run", "--test-size", 20, "--vocabulary-size", 330,
        "--dim", 32, "--layers", 1, "--epochs", 2,
    )  # fmt: skip
    done = run("translation.py", *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nrefs:1|case:mixed" in done.stdout
    run_folder = tmp_path / "run"
    assert sorted(p.name for p in run_folder.iterdir()) == [
        "alignment.png", "results.json", "run", "saved_model", "settings.json", "translator.task",
        "unseen_sentences.tsv",
    ]  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pairs.tsv", "run"]
    noted = json.loads((run_folder / "settings.json").read_text())
    assert noted["settings"]["epochs"] == 2
    assert noted["versions"]["keras"].startswith("3.")

    # The same seed: the same result, in another folder.
    again = run("translation.py", *settings[:2], "--run-dir", "again", *settings[4:], cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    translations = (run_folder / "unseen_sentences.tsv").read_text(encoding="utf-8")
    assert (tmp_path / "again/unseen_sentences.tsv").read_text(encoding="utf-8") == translations
    weights = [r.split(" - loss: ")[-1] for r in done.stdout.splitlines() if "val_loss" in r]
    assert weights
    assert weights == [
        r.split(" - loss: ")[-1] for r in again.stdout.splitlines() if "val_loss" in r
    ]

    # A run folder of another configuration is refused, and nothing of it is lost.
    other = run("translation.py", *settings[:-1], 3, cwd=tmp_path)
    assert other.returncode != 0
    assert "epochs is 2 there, 3 here" in other.stderr
    assert (run_folder / "translator.task").exists()


@pytest.mark.slow
def test_translation_without_network_names_the_other_choices(tmp_path):
    """pip is made to fail by an index that is not there."""
    no_index = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    done = run_python(
        "tensorflow", ROOT / "examples/translation.py", "--cache-dir", "cache",
        cwd=tmp_path, check=False, PIP_RETRIES="0", **no_index,
    )  # fmt: skip
    assert done.returncode != 0
    assert "tab-separated file" in done.stderr
    assert "wheel=" in done.stderr
