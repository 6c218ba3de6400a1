"""Texts whose classes are plain, and what must be the same on all backends. Run: as JSON."""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn.tasks import TextClassifier
from keras_attn.text import BytePairTokenizer, WordPieceTokenizer

NOUNS = "film book play song dish walk".split()
WORDS = {"bad": "dull poor awful boring".split(), "good": "great fine lovely superb".split()}
EXAMPLES = [
    (f"the {noun} was {word}", label)
    for noun in NOUNS
    for label, words in WORDS.items()
    for word in words
]
TEXTS = [text for text, _ in EXAMPLES]
TOKENIZERS = {
    "byte_pair": BytePairTokenizer.train(TEXTS, 290),
    "word_piece": WordPieceTokenizer.train(TEXTS, 400, allow_fewer=True),
}
LONG = "the great film and the dull book and the fine play that was a poor dish of a song"
HOSTILE = [
    "the film was great",
    "",
    " \n\t ",
    LONG,
    "na\u00efve caf\u00e9 \U0001f600\U0001f469\u200d\U0001f467 \u05e9\u05dc\u05d5\u05dd \u6f22",
    "a\x00b\x01 <script>alert('x')</script> [CLS] [PAD] [UNK]",
    "e\u0301\u0301\u0301 \ufeff\u200b\u202e",
    "x" * 300,
]
SMALL = {"dim": 8, "dropout": 0.1, "word_dropout": 0.0}
# Tokenizer, settings of the model, settings of the task.
CASES = {
    "bag": (
        "byte_pair",
        {"model": "bag", **SMALL, "pair_buckets": 60, "pair_dim": 4},
        {"truncation": "tail"},
    ),
    "rnn": ("word_piece", {"model": "rnn", **SMALL, "units": 12}, {}),
    "first": (
        "word_piece",
        {
            "model": "transformer", **SMALL, "num_heads": 2, "intermediate_dim": 12,
            "num_layers": 1, "pooling": "first",
        },
        {"truncation": "head"},
    ),
    "several": (
        "byte_pair",
        {
            "model": "transformer", **SMALL, "num_heads": 2, "intermediate_dim": 12,
            "num_layers": 1, "positions": "learned",
        },
        {"multi_label": True, "truncation": "head_tail"},
    ),
}  # fmt: skip
METHODS = {name: ["attention", "gradient"] for name in CASES}
METHODS["first"] = ["integrated_gradients", "gradient"]
CLASSES = ("bad", "good", "na\u00efve")


def make(case, max_length=12, **more):
    """A classifier with weights that do not depend on the backend, and are not flat."""
    tokenizer, config, settings = CASES[case]
    learned = {**settings, **more}
    data = {"max_length": max_length, "truncation": learned.pop("truncation", None)}
    classifier = TextClassifier(TOKENIZERS[tokenizer], CLASSES, model=config, data=data, **learned)
    rng = np.random.default_rng(3)
    for weight in classifier.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return classifier


def everything(classifier, methods):
    found = {"probabilities": classifier.predict_probabilities(HOSTILE).tolist()}
    for method in methods:
        explained = classifier.explain(HOSTILE, method=method)
        found[method] = [
            [list(e.tokens), list(map(list, e.offsets)), e.weights.tolist(), e.label]
            for e in explained
        ]
    return found


if __name__ == "__main__":
    folder, *cases = sys.argv[1:]
    place = cases.pop() if "--export" in cases else None
    results = {
        case: everything(TextClassifier.load(Path(folder) / f"{case}.task"), METHODS[case])
        for case in cases
        if case in CASES
    }
    if place:
        TextClassifier.load(Path(folder) / "rnn.task").export(place)
    print(json.dumps({"backend": keras.backend.backend(), "found": results}))
