"""A language that is learnt in seconds."""

import functools

import keras
import numpy as np
from kept import kept

from keras_attn.tasks import Translator
from keras_attn.text import BytePairTokenizer

NUMBERS = "zero one two three four five six seven eight nine".split()
ZAHLEN = "null eins zwei drei vier fünf sechs sieben acht neun".split()
PAIRS = [
    (f"the {NUMBERS[i]} and {NUMBERS[j]}", f"die {ZAHLEN[i]} und {ZAHLEN[j]}")
    for i in range(10)
    for j in range(10)
]
CONFIG = {"dim": 32, "num_layers": 1, "num_heads": 2, "intermediate_dim": 64, "dropout": 0.0}


@functools.cache
def tokenizer():
    """Of a token for each word, so that all pairs are of one shape: a step is traced once."""
    return BytePairTokenizer.train([text for pair in PAIRS for text in pair], 332)


@functools.cache
def fitted():
    """A Transformer that has learned the pairs; nobody changes it."""
    return kept(Translator, _train)


def _train():
    keras.utils.set_random_seed(0)
    translator = Translator(tokenizer(), model=CONFIG, data={"max_length": 24})
    translator.fit(
        PAIRS, epochs=20, tokens_per_batch=128, learning_rate=1e-2, label_smoothing=0.0, verbose=0
    )
    return translator


def train_translation(data, run_dir, model=None, training=None, log=lambda text: None, **more):
    """Trains on prepared data, as the command does."""
    return Translator.train(data, data.dev, run_dir, None, model, training, log, **more)


def write_pairs(path, pairs=PAIRS):
    path.write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    return str(path)


def stacked(results):
    """Returns the n best of several texts as the arrays that the SavedModel's `details` gives.

    Args:
        results: At least one, all with the same number R of translations.

    Returns:
        `translations`, `scores`, `truncated` `(B, R)`, `source_truncated` `(B,)`, `source_tokens`
        `(B, S)`, `target_tokens` `(B, R, T)` and `alignments` `(B, R, T, S)`, padded with `""` and
        zeros. Strings are Python's, in arrays of objects.
    """
    R = len(results[0].translations)
    S = max(len(result.alignments[0].source_tokens) for result in results)
    T = max(len(a.target_tokens) for result in results for a in result.alignments)
    source_tokens = np.full((len(results), S), "", object)
    target_tokens = np.full((len(results), R, T), "", object)
    alignments = np.zeros((len(results), R, T, S), "float32")
    for b, result in enumerate(results):
        for r, alignment in enumerate(result.alignments):
            t, s = alignment.weights.shape
            source_tokens[b, :s] = alignment.source_tokens
            target_tokens[b, r, :t] = alignment.target_tokens
            alignments[b, r, :t, :s] = alignment.weights
    return {
        "translations": np.array([result.translations for result in results], object),
        "scores": np.array([result.scores for result in results], "float32"),
        "truncated": np.array([result.truncated for result in results]),
        "source_truncated": np.array([result.source_truncated for result in results]),
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "alignments": alignments,
    }
