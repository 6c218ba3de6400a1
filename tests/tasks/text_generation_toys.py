"""A text that is learnt in seconds, and what must be the same on all backends. Run: as JSON."""

import json
import sys

import keras
import numpy as np

from keras_attn.tasks import TextGenerator
from keras_attn.text import CharacterTokenizer

TEXT = "to be, or not to be: that is the question.\n" * 40
CONFIG = {"units": 48, "dim": 16, "dropout": 0.0}
FILTERS = {"temperature": 0.9, "top_k": 8, "top_p": 0.95, "min_p": 0.01}
ALL = {**FILTERS, "repetition_penalty": 1.2, "no_repeat_ngram_size": 4}
PROMPTS = ["", "to be", "\n", "z\x00z that is 🙂", "question" * 9]
SEEDS = [1, -2, 3, 2**31 - 1, 5]


def make(sequence_length=24, **config):
    keras.utils.set_random_seed(0)
    return TextGenerator(
        CharacterTokenizer.train([TEXT]),
        model={**CONFIG, **config},
        data={"sequence_length": sequence_length},
    )


def untrained(path):
    """Weights that do not depend on the backend, and are not flat."""
    generator = make()
    rng = np.random.default_rng(0)
    for weight in generator.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.4, size=weight.shape))
    generator.save(path)
    return generator


def everything(generator):
    texts = [generator.generate(PROMPTS, 30, seed=SEEDS, **more) for more in ({}, ALL)]
    return {"texts": texts, "bits": generator.evaluate(TEXT[:100]).bits_per_character}


if __name__ == "__main__":
    found = everything(TextGenerator.load(sys.argv[1]))
    print(json.dumps({**found, "backend": keras.backend.backend()}))
