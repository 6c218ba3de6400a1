"""Scorers with weights that do not depend on the backend, and what must be the same on all."""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.tasks import SimilarityScorer
from keras_attn.text import WordPieceTokenizer

WORDS = "a the dog cat bird hound runs sleeps big small red".split()
TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])
SIZES = {"dim": 12, "num_layers": 2, "num_heads": 3, "intermediate_dim": 20, "dropout": 0.0}
LONG = "the big dog runs a small cat sleeps the red bird runs"
TEXTS = ["a dog runs", "", "the hound sleeps", LONG, "שלום \x00 \U0001f600", "a big red cat"]
PAIRS = list(zip(TEXTS, [*TEXTS[2:], *TEXTS[:2]], strict=True))


def make(kind, max_length=10, dtype=None, **data):
    data = {"kind": kind, "max_length": max_length, **data}
    sizes = {**SIZES, "sequence_length": 10}
    scorer = SimilarityScorer(
        TOKENIZER, lowest=1.0, highest=5.0, model=sizes, data=data, dtype=dtype
    )
    rng = np.random.default_rng(3)
    for weight in scorer.model.trainable_weights:
        weight.assign(weight + rng.normal(scale=0.3, size=weight.shape))
    return scorer


def everything(scorer):
    found = {"scores": scorer.predict(PAIRS)}
    if scorer.kind == "bi":
        found["vectors"] = scorer.embed(TEXTS).tolist()
    return found


if __name__ == "__main__":
    folder, *kinds = sys.argv[1:]
    found = {kind: everything(SimilarityScorer.load(Path(folder) / kind)) for kind in kinds}
    print(json.dumps({"backend": keras.backend.backend(), "found": found}))
