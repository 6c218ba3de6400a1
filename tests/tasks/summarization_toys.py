"""Texts whose summaries are learnt in seconds: who did it."""

import functools

from keras_attn.tasks import Summarizer
from keras_attn.text import BytePairTokenizer

ANIMALS = "dog cat bird cow fox hen pig rat".split()
WEATHER = "It rained. It snowed. It was hot.".replace(". ", ".|").split("|")
PAIRS = [
    (f"{weather}\nThe {animal} ran home.", f"a {animal}")
    for animal in ANIMALS
    for weather in WEATHER
]
TEXTS = [text for text, _ in PAIRS]
DATA = {"vocabulary_size": 330, "max_length": 24, "max_summary_length": 5}
SMALL = {"dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 8, "dropout": 0.0}


@functools.cache
def tokenizer():
    """Byte pairs of the toy's words."""
    return BytePairTokenizer.train([side for pair in PAIRS for side in pair], 330, allow_fewer=True)


def make(prefix="", **model):
    """A summarizer of random weights."""
    return Summarizer(tokenizer(), prefix, model={**SMALL, **model}, data=DATA)
