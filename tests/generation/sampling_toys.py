"""Sampling in plain NumPy, and what must be the same on all backends. Run as a script: as JSON."""

import json

import keras
import numpy as np
from generation_toys import END, PAD, START, TableDecoder, randomize, tables
from keras import ops

from keras_attn.generation import CompiledFunction, row_seeds, sample, uniform_noise
from keras_attn.layers import PositionalEncoding, TokenEmbedding, TransformerDecoder
from keras_attn.models import TokenDecoder

FILTERS = {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.02}
REPEATS = {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2}
SETTINGS = {"plain": {}, "filters": FILTERS, "repeats": REPEATS, "all": {**FILTERS, **REPEATS}}


def mixed(x):
    """lowbias32 on Python integers."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) % 2**32
    x = ((x ^ (x >> 15)) * 0x846CA68B) % 2**32
    return x ^ (x >> 16)


def noise(seed, step):
    """One random number, from an integer of 32 bits."""
    golden = 0x9E3779B9
    x = mixed((mixed((seed % 2**32) ^ golden) + step * golden) % 2**32)
    return ((mixed((x + seed) % 2**32) >> 9) + 0.5) / 2**23


def seed_of_row(seed, row):
    return mixed((mixed(seed) + row * 0x9E3779B9) % 2**32)


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def filtered(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """As the processors of `transformers`, one token after the other, in float64."""
    x = np.array(logits, "float64") / temperature
    if top_k is not None:
        x[x < sorted(x)[-min(top_k, len(x))]] = -np.inf
    if top_p is not None and top_p < 1:
        order, p, total = np.argsort(-x), softmax(x), 0.0
        for i in order:
            if total >= top_p:
                x[i] = -np.inf
            total += p[i]
    if min_p is not None:
        p = softmax(x)
        x[p < min_p * p.max()] = -np.inf
    return x


def penalized(logits, seen, penalty):
    x = np.array(logits, "float64")
    for i in set(seen):
        x[i] = x[i] / penalty if x[i] > 0 else x[i] * penalty
    return x


def blocked(tokens, n):
    """The tokens that would repeat an n-gram of `tokens`."""
    if n == 0 or len(tokens) < n - 1:
        return set()
    end = tuple(tokens[len(tokens) - (n - 1) :])
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return {gram[-1] for gram in grams if gram[:-1] == end}


def plain_sample(
    logits_after, prompt, length, seed, penalty=1.0, n=0, min_length=0, suppressed=(), **filters
):
    """Tokens, score and distance of the noise to the nearest border of a token."""
    tokens, score, nearest = [], 0.0, 1.0
    for step in range(length):
        logits = np.array(logits_after([*prompt, *tokens]), "float64")
        x = penalized(logits, [*prompt, *tokens], penalty)
        never = {*suppressed, *({END} if len(tokens) + 1 < min_length else ())}
        x[list(never)] = -np.inf
        repeats = blocked([*prompt, *tokens], n)
        if any(x[i] > -np.inf for i in range(len(x)) if i not in repeats):
            x[list(repeats)] = -np.inf
        total = np.cumsum(softmax(filtered(x, **filters)))
        u = noise(seed, step)
        token = int(np.argmax(total > u))
        nearest = min(nearest, np.abs(total[:-1] - u).min())
        score += np.log(softmax(logits)[token])
        tokens.append(token)
        if token == END:
            break
    return tokens, score, nearest


def table_logits(table, growth):
    """The logits of `TableDecoder` after tokens."""

    def logits_after(tokens):
        before, last = [PAD, *tokens][-2:]
        V = table.shape[-1]
        return table[before * V + last] * np.float32(1 + growth * (len(tokens) - 1))

    return logits_after


def transformer(V=9, D=8):
    """A decoder-only Transformer of random weights."""
    embedding = TokenEmbedding(V, D)
    stack = TransformerDecoder(1, 2, intermediate_dim=16)
    embedding.build()
    stack.build((None, None, D))
    randomize(embedding, 1)
    randomize(stack, 2)
    return TokenDecoder(embedding, PositionalEncoding(), stack)


PROMPTS = np.array([[START, 3, 4, 3], [START, 5, PAD, PAD], [START, 4, 4, PAD]], "int32")
SEEDS = np.array([5, -17, 2**31 - 1], "int32")


def transformer_sample(decoder, **settings):
    """A compiled function of ids and seeds."""
    settings = {"end_id": END, "pad_id": PAD, **settings}

    def generate(ids, max_length, seeds):
        mask = ops.not_equal(ids, PAD)
        return sample(decoder, ids, mask, max_length=max_length, seed=seeds, **settings)

    variables = [*decoder.embedding.variables, *decoder.decoder.variables]
    return CompiledFunction(generate, variables)


def everything():
    """What must be the same on all backends, as a dict of lists.

    One compiled function for all: on JAX each takes seconds.
    """
    decoder, table = transformer(), tables(3, 9)

    def at_once(ids, max_length, seeds):
        mask = ops.not_equal(ids, PAD)
        toy = (TableDecoder(), ids, mask, ops.convert_to_tensor(table))
        large = (decoder, ids, mask)
        inputs = {"plain": toy, "filters": toy, "repeats": toy, "all": large}
        found = {}
        for name, settings in SETTINGS.items():
            end_id = END if inputs[name] is large else None
            found[name] = sample(
                *inputs[name], max_length=max_length, end_id=end_id, seed=seeds, **settings
            )
        mixed_seeds = row_seeds(3, ops.arange(3))
        found["noise"] = [mixed_seeds, *(uniform_noise(mixed_seeds, i) for i in range(5))]
        return found

    variables = [*decoder.embedding.variables, *decoder.decoder.variables]
    if keras.backend.backend() == "tensorflow":  # other tests compile there
        found = at_once(*map(ops.convert_to_tensor, (PROMPTS, 12, SEEDS)))
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
    else:
        found = CompiledFunction(at_once, variables)(PROMPTS, 12, SEEDS)
    results = {"noise": [np.asarray(t).tolist() for t in found.pop("noise")]}
    for name, generation in found.items():
        results[name] = [np.asarray(t).tolist() for t in (generation.tokens, generation.lengths)]
        results[f"{name} scores"] = np.round(generation.scores, 3).tolist()
    eager = sample(
        TableDecoder(), PROMPTS, PROMPTS != PAD, ops.convert_to_tensor(table), max_length=10,
        end_id=None, seed=4, **SETTINGS["all"],
    )  # fmt: skip
    results["eager"] = ops.convert_to_numpy(eager.tokens).tolist()
    return results


if __name__ == "__main__":
    print(json.dumps({"backend": keras.backend.backend(), **everything()}))
