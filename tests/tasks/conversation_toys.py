"""Talkers of a few kinds, and what must be the same on all backends. Run: as JSON."""

import functools
import json
import sys

import keras
import numpy as np
from kept import kept

from keras_attn.tasks import Talker

NAMES = "Ann Ben Cem Dan Eva Fay".split()
TALKS = [(("Hi.", "Hello, who are you?", f"I am {n}."), f"Good day, {n}!") for n in NAMES]
KINDS = {
    "transformer": {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16},
    "rnn": {"model": "rnn", "dim": 8, "units": 12},
    "fixed": {"model": "rnn", "dim": 8, "units": 12, "attention": "none"},
    "gpt": {"model": "gpt", "dim": 16, "num_layers": 2, "num_heads": 2, "intermediate_dim": 16},
}
DATA = {"vocabulary_size": 290, "max_turns": 3, "max_context": 20, "max_answer": 8}
HOSTILE = [
    ("Hi.", "Hello, who are you?", "I am Ben."),
    ("", "I am \u200fשלום, عالم 😀👩\u200d👧.", " "),
    (),
    ("", " \n\t "),
    ("<self> <end> </s> <other>",),
    ("old " * 30, "x" * 100_000, "a \x00 b"),
    ("a", "b", "c", "d", "e"),
]
USES = {
    "beam": {"beams": 3},
    "mutual": {"beams": 3, "mutual_information": 0.4, "alpha": 0.5},
    "sample": {"search": "sample", "temperature": 0.9, "top_k": 9, "seed": 5},
}


def make(kind, data=None):
    keras.utils.set_random_seed(0)
    return Talker.create(TALKS, data={**DATA, **(data or {})}, model=KINDS[kind])


def untrained(kind, path=None, data=None):
    """Weights that do not depend on the backend, and are not flat."""
    talker = make(kind, data)
    talker.relearn(empty_contexts=True)  # for mutual information
    rng = np.random.default_rng(1)
    for weight in talker.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.3, size=weight.shape))
    if path is not None:
        talker.save(path)
    return talker


@functools.cache
def fitted():
    """It has learned the names; nobody changes it."""
    return kept(Talker, _train)


def _train():
    keras.utils.set_random_seed(0)
    sizes = {**KINDS["transformer"], "dim": 32, "dropout": 0.0}
    talker = Talker.create(
        TALKS, data={**DATA, "vocabulary_size": 300, "max_turns": 1}, model=sizes
    )
    talker.fit(TALKS * 4, epochs=20, tokens_per_batch=128, learning_rate=1e-2, verbose=0)
    return talker


def everything(talker):
    answers = {name: talker.answer(HOSTILE, **use) for name, use in USES.items()}
    return {"answers": answers, "perplexity": talker.perplexity(TALKS)}


if __name__ == "__main__":
    found = {path: everything(Talker.load(path)) for path in sys.argv[1:]}
    print(json.dumps({"found": list(found.values()), "backend": keras.backend.backend()}))
