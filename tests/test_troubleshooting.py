"""Each message of docs/troubleshooting.md is provoked, and none is there that is not."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_attn import attention_maps, heads_of, layers, training
from keras_attn.cli.main import main
from keras_attn.files import only_one
from keras_attn.interop import load_pretrained
from keras_attn.records import read_tsv
from keras_attn.tasks import Tagger, TextClassifier, Translator
from keras_attn.text import BytePairTokenizer

PAGE = Path(__file__).parents[1] / "docs/troubleshooting.md"
X = np.ones((2, 5, 16), "float32")
PAIRS = [("one dog", "ein Hund"), ("one cat", "eine Katze")] * 4


def translator():
    tokenizer = BytePairTokenizer.train([text for pair in PAIRS for text in pair], 262)
    sizes = {"dim": 8, "num_heads": 2, "num_layers": 1, "intermediate_dim": 8}
    return Translator(tokenizer, model=sizes)


def command(*arguments):
    """Runs the command, which prints its error."""
    main(list(arguments))


def lost_mask():
    x = layers.TokenEmbedding(10, 8)(keras.Input((None,), dtype="int32"))
    layers.MultiHeadSelfAttention(2)(keras.layers.Lambda(lambda x: 2 * x)(x))


def without_import():
    model = keras.Sequential([keras.Input((5, 16)), layers.MultiHeadSelfAttention(4)])
    model.save("model.keras")
    script = "import keras; keras.models.load_model('model.keras')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    raise ValueError(done.stderr)


def classify(text, *options):
    Path("texts.csv").write_text(text)
    command("text-classification", "fit", "--train", "texts.csv", "--run-dir", "run", *options)


def few_pairs():
    Path("few.tsv").write_text("".join(f"house {n}\tHaus {n}\n" for n in range(9)))
    command("translation", "fit", "--train", "few.tsv", "--run-dir", "run")


def bad_line():
    Path("bad.tsv").write_text("a\tb\nonly one\n")
    read_tsv("bad.tsv")


def bad_encoding():
    Path("bad.csv").write_bytes("text,label\nDürftig,1\n".encode("cp1252"))
    command("text-classification", "fit", "--train", "bad.csv", "--run-dir", "run")


def new_label():
    texts = [("a good film", "good"), ("a bad film", "bad")] * 9
    model = {"model": "bag", "pair_buckets": 10}
    classifier = TextClassifier.create(texts, model=model, data={"vocabulary_size": 290})
    classifier.evaluate([("so so", "fair")])


def no_parquet(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    read_tsv("pairs.parquet")


def no_backend():
    script = "import sys; sys.modules['jax'] = None; import keras_attn"
    there = {**os.environ, "KERAS_BACKEND": "jax"}
    command = [sys.executable, "-c", script]
    raise ImportError(subprocess.run(command, capture_output=True, text=True, env=there).stderr)


def diverged():
    translator().fit(PAIRS, epochs=9, learning_rate=1e30, clip_norm=0, verbose=0)


def other_settings(pairs=PAIRS, **settings):
    for last in (False, True):
        task = translator()
        keep = {"epochs": 1, "run_dir": "run", "verbose": 0}
        task.fit(pairs if last else PAIRS, **keep, **(settings if last else {}))


def two_processes():
    with only_one(Path("run"), "trains"), only_one(Path("run"), "trains"):
        pass


def plain_fit():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    checkpoint = training.TrainingCheckpoint("run.npz")
    model.fit(np.ones((4, 2)), np.ones((4, 1)), callbacks=[checkpoint], verbose=0)


def broken_file():
    Path("broken.task").write_text("broken")
    Translator.load("broken.task")


def other_task():
    translator().save("translator.task")
    Tagger.load("translator.task")


def full_folder():
    Path("folder").mkdir()
    Path("folder/file").touch()
    translator().export("folder")


PROVOKED = {
    "rank 3 or 4": lambda: layers.MultiHeadSelfAttention(4)(
        X, attention_mask=np.ones((5, 5), bool)
    ),
    "0/1 integers": lambda: layers.MultiHeadSelfAttention(4)(
        X, attention_mask=np.ones((2, 5, 5), "float32")
    ),
    "one value per token": lambda: layers.MultiHeadAttention(4, 4)(
        X, X, value_mask=np.ones((2, 4), bool)
    ),
    "lost its mask": lost_mask,
    "divisible by": lambda: layers.MultiHeadSelfAttention(5)(X),
    "kernel=": lambda: layers.MultiHeadAttention(4, 4, attention_kernel="flash")(
        X, X, return_attention_scores=True
    ),
    "has positions": lambda: layers.LearnedPositionalEncoding(4)(X),
    "No attention layer": lambda: attention_maps(keras.Sequential([keras.layers.Dense(2)]), X),
    "multi-head attention of keras_attn": lambda: heads_of(keras.Sequential(name="mine")),
    "Could not locate": without_import,
    "expected a column": lambda: classify("review,stars\ngood,1\nbad,2\n"),
    "a sentence and its translation": bad_line,
    "not valid Unicode": bad_encoding,
    "more unique pairs": few_pairs,
    "Expected labels among": new_label,
    "needs the module": no_parquet,
    "backend ... is not installed": no_backend,
    "A GPU is requested": lambda: training.compute_on("gpu").__enter__(),
    "diverged": diverged,
    "run with other settings": lambda: other_settings(learning_rate=0.5),
    "belongs to another run": lambda: other_settings(PAIRS * 2),
    "Another process": two_processes,
    "TrainingCheckpoint": plain_fit,
    "such as `TokenBatches`": lambda: training.fit_resumable(
        keras.Sequential(), [(X, X)], training.TrainingCheckpoint("run.npz"), epochs=1
    ),
    "Unknown setting": lambda: translator().fit(PAIRS, epoch=1),
    "There is nothing": lambda: Translator.load("nowhere.task"),
    "another kind of": broken_file,
    "holds a ... Expected": other_task,
    "is not empty": full_folder,
    "Hugging Face": lambda: load_pretrained("nothing/here"),
}
"""What raises the message of a heading, by words of the heading."""


def headings():
    return re.findall(r"^### (.*)$", PAGE.read_text(encoding="utf-8"), re.M)


def test_every_message_is_provoked():
    for words in PROVOKED:
        assert sum(words in heading for heading in headings()) == 1, words
    assert len(headings()) == len(PROVOKED)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", PROVOKED)
def test_a_message_is_what_the_package_says(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    provoke = PROVOKED[words]
    given = [monkeypatch] if provoke is no_parquet else []
    with pytest.raises((Exception, SystemExit)) as caught:
        provoke(*given)
    said = str(caught.value) + capsys.readouterr().err
    (heading,) = (heading for heading in headings() if words in heading)
    pieces = (re.escape(piece) for piece in heading.replace("`", "").split("..."))
    assert re.search(".*".join(pieces), said.replace("`", ""), re.S), said
