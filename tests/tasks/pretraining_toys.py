"""Documents of four topics, which an encoder learns in seconds. Run: what a file says, as JSON."""

import json
import sys

import keras
import numpy as np

from keras_attn.tasks import Pretrainer

TOPICS = (
    "the dog barks loudly",
    "a fish swims deep",
    "our sun shines brightly",
    "his train rolls fast",
    "my river flows down",
)
SIZES = {
    "dim": 32, "num_layers": 1, "num_heads": 2, "intermediate_dim": 64, "dropout": 0.0,
    "attention_dropout": 0.0,
}  # fmt: skip
DATA = {"vocabulary_size": 120, "max_length": 32}
TEXTS = [
    "the dog [MASK] loudly",
    ("a fish swims [MASK]", "a fish swims deep"),
    ("the dog barks loudly", "his train rolls fast"),
    "no mask here",
    "[MASK]" * 3,
]


def documents(count=160, seed=0):
    """Documents of one topic each, whose sentence they repeat, with some words left out."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words = TOPICS[rng.integers(len(TOPICS))].split()
        sentences = []
        for _ in range(rng.integers(2, 5)):
            left_out = rng.integers(len(words) + 1)
            sentences.append(" ".join(w for i, w in enumerate(words) if i != left_out))
        found.append(sentences)
    return found


def make(**config):
    keras.utils.set_random_seed(0)
    return Pretrainer.create(documents(), data=DATA, model={**SIZES, **config})


def trained():
    pretrainer = make()
    pretrainer.fit(documents(), epochs=30, batch_size=16, learning_rate=8e-3, verbose=0)
    return pretrainer


def untrained(path):
    """Weights that do not depend on the backend, and are not flat."""
    pretrainer = make()
    rng = np.random.default_rng(0)
    for weight in pretrainer.model.weights:
        if "seed" not in weight.path:
            value = rng.normal(scale=0.3, size=weight.shape) + (weight.name == "gamma")
            weight.assign(value.astype("float32"))
    pretrainer.save(path)
    return pretrainer


def everything(pretrainer):
    guesses = pretrainer.predict(TEXTS, top_k=3)
    report = pretrainer.evaluate(documents(20, seed=1))
    return {
        "words": [[[word for word, _ in m] for m in guess.masks] for guess in guesses],
        "probabilities": [p for guess in guesses for m in guess.masks for _, p in m],
        "follows": [guess.follows for guess in guesses if guess.follows is not None],
        "report": list(report),
    }


if __name__ == "__main__":
    found = everything(Pretrainer.load(sys.argv[1]))
    print(json.dumps({**found, "backend": keras.backend.backend()}))
