"""Sentences with names by templates, which a tagger learns in seconds.

Run: `tagging_toys.py FILE`, what a file says, as JSON; `tagging_toys.py FOLDER lora`, a run with
LoRA and frozen layers.
"""

import json
import sys

import keras
import numpy as np

from keras_attn.metrics import repair_labels
from keras_attn.tasks import Tagger
from keras_attn.tasks.families.windowed import row_lists
from keras_attn.text import split_words

PEOPLE = "Ada Bob Eva Tom Lee Ida Max Ben".split()
PLACES = "Rome Oslo Bonn Lima Cairo Paris Delhi Kyiv".split()
SIZES = {
    "dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 32, "dropout": 0.0,
    "attention_dropout": 0.0,
}  # fmt: skip
DATA = {"vocabulary_size": 120, "max_length": 24}
TEXTS = [
    "Ada meets Bob in Rome.",
    "",
    "tom (of Oslo) codes!",
    "Eva Lee flew to New Lima, then Max to Kyiv; Ida and Ben stayed in Cairo with Tom and Ada Lee.",
]


def sentence(rng):
    words, labels = [], []

    def add(text, kind=None):
        for i, word in enumerate(text.split()):
            words.append(word)
            labels.append("O" if kind is None else f"{'I' if i else 'B'}-{kind}")

    def person():
        add(" ".join(rng.choice(PEOPLE, rng.integers(1, 3), replace=False)), "PER")

    person()
    add(str(rng.choice(["meets", "sees", "calls"])))
    if rng.random() < 0.5:
        person()
    add("in")
    add(str(rng.choice(PLACES)) if rng.random() < 0.7 else f"New {rng.choice(PLACES)}", "LOC")
    add(".")
    return tuple(words), tuple(labels)


def sentences(count=80, seed=0):
    rng = np.random.default_rng(seed)
    return [sentence(rng) for _ in range(count)]


def by(scheme, examples):
    """Sentences whose entities are marked by another scheme."""
    return [(words, tuple(repair_labels(labels, scheme)[0])) for words, labels in examples]


def make(data=None, scheme="BIO", **config):
    keras.utils.set_random_seed(0)
    examples = by(scheme, sentences())
    return Tagger.create(examples, data={**DATA, **(data or {})}, model={**SIZES, **config})


def trained():
    tagger = make(num_layers=1)
    tagger.fit(sentences(120), epochs=16, batch_size=16, learning_rate=1e-2, verbose=0)
    return tagger


def untrained(path=None, **config):
    """Weights that do not depend on the backend, and are not flat."""
    tagger = make(**config)
    rng = np.random.default_rng(0)
    for weight in tagger.model.weights:
        if "seed" not in weight.path:
            scale = 2.0 if weight.path.startswith("tags") else 0.3
            scale = 0.0 if weight.name in ("bias", "beta") else scale
            value = rng.normal(scale=scale, size=weight.shape) + (weight.name == "gamma")
            weight.assign(value.astype("float32"))
    if path is not None:
        tagger.save(path)
    return tagger


def rows_of(tagger, texts):
    """The rows of texts; for each of their words the row and the column where it is read off."""
    given = tagger.words.encode([[word.text for word in split_words(text)] for text in texts])
    rows = tagger.rows(np, given)
    places = iter(zip(rows["row"].tolist(), rows["column"].tolist(), strict=True))
    lists = [(ids.tolist(), second) for ids, second in row_lists(rows)]
    return lists, [[next(places) for _ in range(n)] for n in given["words"]]


def everything(tagger):
    found = tagger.predict([*TEXTS, ["Ada", "codes"]])
    report = tagger.evaluate(sentences(20, seed=1), num_bootstrap=0)
    return {
        "labels": [tagged.labels for tagged in found],
        "entities": [[list(entity) for entity in tagged.entities] for tagged in found],
        "probabilities": [p for tagged in found for p in tagged.probabilities],
        "report": [report.accuracy, report.f1],
    }


def adapted(folder):
    """A run with LoRA over a frozen layer: what moved, and whether a plain task was saved."""
    tagger = untrained()
    before = {v.path: np.array(v) for v in tagger.model.variables}
    run = tagger.fit(
        sentences(32), sentences(8, seed=1), run_dir=folder, epochs=2, batch_size=16,
        learning_rate=0.02, lora_rank=2, frozen_layers=1, layer_decay=0.5, verbose=0,
    )  # fmt: skip
    after = {v.path: np.array(v) for v in tagger.model.variables}
    saved = {v.path: np.array(v) for v in Tagger.load(run.best).model.variables}
    weights = [path for path in after if "seed" not in path]
    return {
        "moved": sorted(path for path in weights if (after[path] != before[path]).any()),
        "saved": max(float(np.abs(after[path] - saved[path]).max()) for path in weights),
        "names": after.keys() == before.keys() == saved.keys(),
    }


if __name__ == "__main__":
    lora = sys.argv[2:] == ["lora"]
    found = adapted(sys.argv[1]) if lora else everything(Tagger.load(sys.argv[1]))
    print(json.dumps({**found, "backend": keras.backend.backend()}))
