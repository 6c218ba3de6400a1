"""Pairs of texts whose classes are plain, and what must be the same on all backends."""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.tasks import TextClassifier
from keras_attn.text import WordPieceTokenizer

NOUNS = "dog cat bird fish".split()
PAIRS = [
    ((f"the {one} is {how}", f"a {other} was {how}"), "same" if one == other else "other")
    for one in NOUNS
    for other in NOUNS
    for how in "big small red".split()
]
LONG = "the dog is big and the cat is small and the bird is red and the fish is big"
HOSTILE = [
    ("the dog is big", "a cat was red"),
    ("", ""),
    ("", "a dog"),
    ("a dog", " \n\t"),
    (LONG, "a dog"),
    ("a dog", LONG),
    (LONG, LONG),
    ("naïve \U0001f600 שלום", "a\x00b [SEP] [CLS] [PAD]"),
]
TOKENIZER = WordPieceTokenizer.train(
    [t for pair, _ in PAIRS for t in (*pair, "and")], 200, allow_fewer=True
)
SMALL = {"dim": 8, "dropout": 0.0}
KINDS = {
    "bag": {"model": "bag", **SMALL, "pair_buckets": 40, "pair_dim": 4},
    "rnn": {"model": "rnn", **SMALL, "units": 8},
    "bert": {
        "model": "bert", **SMALL, "num_heads": 2, "intermediate_dim": 12, "num_layers": 1,
        "pooling": "attention",
    },
}  # fmt: skip
METHODS = ("attention", "gradient", "integrated_gradients")


def make(kind, max_length=12):
    """A classifier with weights that do not depend on the backend."""
    names = ("other", "same")
    classifier = TextClassifier(
        TOKENIZER, names, pairs=True, model=KINDS[kind], data={"max_length": max_length}
    )
    rng = np.random.default_rng(3)
    for weight in classifier.model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return classifier


def everything(classifier):
    found = {"probabilities": classifier.predict_probabilities(HOSTILE).tolist()}
    for method in METHODS:
        found[method] = [e.weights.tolist() for e in classifier.explain(HOSTILE, method=method)]
    return found


if __name__ == "__main__":
    folder, *kinds = sys.argv[1:]
    found = {kind: everything(TextClassifier.load(Path(folder) / kind)) for kind in kinds}
    print(json.dumps({"backend": keras.backend.backend(), "found": found}))
