"""Selectors with weights that do not depend on the backend, and what must be the same on all."""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.tasks import AnswerSelector
from keras_attn.text import WordPieceTokenizer

WORDS = "a the dog cat bird hound runs sleeps big small red where is who".split()
TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])
SIZES = {
    "dim": 12, "num_layers": 1, "num_heads": 3, "intermediate_dim": 20, "dropout": 0.0,
    "sequence_length": 16,
}  # fmt: skip
ANSWERS = [
    "the big dog runs", "a small cat sleeps", "the red bird", "a hound runs",
    "שלום \x00 \U0001f600", "the cat is big",
]  # fmt: skip
QUESTIONS = ["where is the dog", "who sleeps", "", "is a \x00 bird \U0001f600 red?", "the " * 30]
EXAMPLES = [
    ("who runs", ["the big dog runs", "a hound runs"]),
    ("where is the small cat", "a small cat sleeps"),
    ("what bird", "the red bird"),
]


def make(**data):
    data = {"max_length": 16, **data}
    selector = AnswerSelector(TOKENIZER, ANSWERS, model=SIZES, data=data)
    rng = np.random.default_rng(3)
    for weight in selector.model.trainable_weights:
        weight.assign(weight + rng.normal(scale=0.3, size=weight.shape))
    return selector


def everything(selector):
    found = {
        f"{by} {field}": [[getattr(x, field) for x in row] for row in rows]
        for by in ("vectors", "words", "both")
        for rows in [selector.predict(QUESTIONS, top_k=4, by=by)]
        for field in ("score", "number")
    }
    return {**found, "reciprocal rank": selector.evaluate(EXAMPLES).reciprocal_rank}


if __name__ == "__main__":
    found = everything(AnswerSelector.load(Path(sys.argv[1])))
    print(json.dumps({"backend": keras.backend.backend(), "found": found}))
