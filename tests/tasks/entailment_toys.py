"""Pairs whose labels are plain, and what must be the same on all backends. Run: as JSON."""

import json
import sys
from pathlib import Path

import keras
import numpy as np

from keras_attn import attention_maps
from keras_attn.interop import WordVectors
from keras_attn.tasks import EntailmentClassifier, LabelledPair
from keras_attn.text import WordTokenizer

NOUNS, VERBS = "dog cat boy bird".split(), "runs sits sings".split()
EXAMPLES = [
    LabelledPair(f"The {noun} {verb}.", f"A {other} {verb}", "yes" if other == noun else "no")
    for noun in NOUNS
    for verb in VERBS
    for other in (noun, NOUNS[(NOUNS.index(noun) + 1) % len(NOUNS)])
]
TEXTS = [text for pair in EXAMPLES for text in pair[:2]]
ODD_PAIRS = [
    ("The dog runs.", "It doesn't run!"),
    ("", ""),
    ("", "A dog"),
    ("The cat \u05e9\u05dc\u05d5\u05dd sits", " \n"),
    ("na\u00efve cafe\u0301 \U0001f600\U0001f469\u200d\U0001f467", "a\x00b\x01 <b>dog</b>"),
    ("dog " * 30, "the bird \u2019s sings, the dog runs and the cat sits on it " * 3),
]
VECTORS = WordVectors(
    [*NOUNS, *VERBS, "a", "blue", "green"], np.random.default_rng(0).normal(size=(10, 6))
)


def make(attention="word_by_word", max_length=12, **settings):
    """A classifier with weights that do not depend on the backend, and are not flat."""
    config = {"attention": attention, "dim": 4, "units": 5, "projection_dim": 3, **settings}
    tokenizer = WordTokenizer.train(TEXTS)
    classifier = EntailmentClassifier(
        tokenizer, ["no", "yes", "na\u00efve"], model=config, data={"max_length": max_length}
    )
    rng = np.random.default_rng(3)
    for weight in classifier.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.7, size=weight.shape))
    return classifier


def reference(classifier, pairs):
    """What a SavedModel gives, pair by pair, in NumPy."""
    alone, most = [], classifier.max_length
    for pair in pairs:
        ids = [np.array([classifier.tokenizer.encode(x)[:most] or [0]], "int32") for x in pair]
        inputs = dict(zip(("premise_ids", "hypothesis_ids"), ids, strict=True))
        logits = np.asarray(classifier.model(inputs))[0].astype("float64")
        powers = np.exp(logits / classifier.temperature)
        words = [classifier.tokenizer.words(x)[:most] for x in pair]
        maps = []
        if classifier.config.attention != "none":
            maps = [x[0] for x in attention_maps(classifier.model, inputs).values()]
        if maps and classifier.config.attention != "last":  # a row for each word
            maps = [maps[0] * bool(words[1])]
        alone.append((powers / powers.sum(), *words, maps))
    widths = [max(1, *(len(x[side]) for x in alone)) for side in (1, 2)]
    found = {
        "label": [classifier.class_names[p.argmax()] for p, *_ in alone],
        "probabilities": [p.tolist() for p, *_ in alone],
        "classes": [list(classifier.class_names)] * len(pairs),
        "premise_words": [x[1] + [""] * (widths[0] - len(x[1])) for x in alone],
        "hypothesis_words": [x[2] + [""] * (widths[1] - len(x[2])) for x in alone],
    }
    if classifier.config.attention != "none":
        rows = 1 if classifier.config.attention == "last" else widths[1]
        table = np.zeros((len(pairs), rows, widths[0]))
        for row, (*_, (scores,)) in zip(table, alone, strict=True):
            row[: scores.shape[0], : scores.shape[1]] = scores
        found["alignment"] = table.tolist()
    return found


def everything(classifier):
    found = {"probabilities": classifier.predict_probabilities(ODD_PAIRS).tolist()}
    if classifier.config.attention == "matching":  # once is enough
        found["gradients"] = [
            [list(e.tokens), e.weights.tolist(), e.label]
            for e in classifier.explain(ODD_PAIRS, method="gradient")
        ]
    if classifier.config.attention != "none":
        found["explained"] = [
            [a.source_tokens, a.target_tokens, a.weights.tolist(), a.title]
            for a in classifier.explain(ODD_PAIRS)
        ]
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    found = {
        path.stem: everything(EntailmentClassifier.load(path)) for path in folder.glob("*.task")
    }
    if len(sys.argv) > 2:
        EntailmentClassifier.load(folder / "word_by_word.task").export(sys.argv[2])
    print(json.dumps({"backend": keras.backend.backend(), "found": found}))
