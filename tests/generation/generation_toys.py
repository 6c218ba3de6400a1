"""Small language models, searches over them in plain Python, and a small Transformer."""

import itertools
import math

import keras
import numpy as np
from keras import ops, tree

from keras_attn.generation import CompiledFunction, beam_search, greedy_search
from keras_attn.models import SequenceDecoder, TransformerEncoderDecoderConfig

PAD, START, END = 0, 1, 2
GROWTH = 1 / 16


class TableDecoder:
    """A language model a row: `logits = table[last but one, last] * (1 + growth * position)`.

    The tables are the memory `(B, V * V, V)`, so that one search runs over as many models as there
    are rows. The growth shows wrong positions, and makes that no two sequences have one score.
    """

    def __init__(self, dtype="float32", growth=GROWTH):
        self.dtype = dtype
        self.growth = growth

    def prefill(self, prompt, prompt_mask=None, memory=None, memory_mask=None, max_length=None):
        prompt = ops.cast(prompt, "int32")
        mask = ops.ones_like(prompt) if prompt_mask is None else ops.cast(prompt_mask, "int32")
        last = ops.sum(mask, axis=1, keepdims=True) - 1
        before = ops.take_along_axis(prompt, ops.maximum(last - 1, 0), axis=1)
        before = ops.where(last > 0, before, PAD)
        last = ops.take_along_axis(prompt, last, axis=1)
        state = {"table": memory, "before": before[:, 0], "last": last[:, 0]}
        return self._logits(state, ops.sum(mask, axis=1) - 1), state

    def step(self, tokens, positions, state, return_scores=False):
        state = {**state, "before": state["last"], "last": ops.cast(tokens, "int32")}
        return self._logits(state, positions), state

    def _logits(self, state, positions):
        V = state["table"].shape[-1]
        index = ops.reshape(state["before"] * V + state["last"], (-1, 1, 1))
        logits = ops.take_along_axis(state["table"], index, axis=1)[:, 0]
        factor = 1 + self.growth * ops.cast(positions, "float32")
        return ops.cast(logits * ops.expand_dims(factor, 1), self.dtype)


def tables(count, V, scale=1.5, seed=0):
    """Tables `(count, V * V, V)` of random models."""
    rng = np.random.default_rng(seed)
    return (scale * rng.normal(size=(count, V * V, V))).astype("float32")


def log_probabilities(table, length):
    """Log-softmax in float64 at all positions, `(length, V * V, V)`."""
    table = np.asarray(table, "float64") * (1 + GROWTH * np.arange(length)[:, None, None])
    top = table.max(-1, keepdims=True)
    return table - top - np.log(np.exp(table - top).sum(-1, keepdims=True))


def next_log_probabilities(logp, prompt, tokens, min_length=0, suppressed=(), rule=None):
    """Of each next token; -inf where it must not come. `rule(prompt, tokens)` returns the token
    that is forced, or the set of those that must not come."""
    V = logp.shape[-1]
    before, last = [PAD, *prompt, *tokens][-2:]
    result = logp[len(prompt) + len(tokens) - 1, before * V + last].copy()
    result[list(suppressed)] = -np.inf
    if len(tokens) + 1 < min_length:
        result[END] = -np.inf
    ruled = set() if rule is None else rule(prompt, tokens)
    if isinstance(ruled, int):
        result[:] = -np.inf
        result[ruled] = 0.0
    elif (result[[i for i in range(V) if i not in ruled]] > -np.inf).any():
        result[list(ruled)] = -np.inf
    return result


def rank(score, tokens, alpha, kind="gnmt", given=0):
    n = max(len(tokens) - given, 1)
    return score / (n if kind == "power" else (5 + n) / 6) ** alpha


def exhaustive_search(
    table, prompt, max_length, alpha=0.0, min_length=0, suppressed=(), ends=(END,), kind="gnmt",
    given=0, rule=None,
):  # fmt: skip
    """All sequences there are, the best first: `(rank, tokens, finished)`."""
    logp = log_probabilities(table, len(prompt) + max_length)
    V = logp.shape[-1]
    found = []
    for length in range(1, max_length + 1):
        inner = [i for i in range(V) if i not in ends]
        last = range(V) if length == max_length else ends
        for tokens in itertools.product(*[inner] * (length - 1), last):
            score = sum(
                next_log_probabilities(logp, prompt, tokens[:i], min_length, suppressed, rule)[
                    token
                ]
                for i, token in enumerate(tokens)
            )
            if score > -math.inf:
                ranked = rank(score, tokens, alpha, kind, given)
                found.append((ranked, tokens, tokens[-1] in ends))
    return sorted(found, reverse=True)


def plain_beam_search(
    table, prompt, width, max_length, alpha=0.0, min_length=0, suppressed=(), forget=False
):
    """Beam search by its rules, without an early stop. `forget`: what left the beam is lost."""
    logp = log_probabilities(table, len(prompt) + max_length)
    beams, ended = [(0.0, (), False)], []
    for _ in range(max_length):
        candidates = []
        for score, tokens, finished in beams:
            if finished:
                candidates.append((score, tokens, True))
                continue
            following = next_log_probabilities(logp, prompt, tokens, min_length, suppressed)
            candidates += [
                (score + p, (*tokens, i), i == END)
                for i, p in enumerate(following)
                if p > -math.inf
            ]
        candidates.sort(key=lambda c: rank(c[0], c[1], alpha), reverse=True)
        beams = candidates[:width]
        ended = [c for c in {*ended, *beams} if c[2]]
    found = beams if forget else {*ended, *beams}
    return sorted(((rank(s, t, alpha), t, f) for s, t, f in found), reverse=True)


def to_lists(result, row):
    """The n best of a row as `(score, tokens, finished)`, padding checked and cut off."""
    found = []
    for score, tokens, length, finished in zip(
        *(np.asarray(ops.convert_to_numpy(t))[row] for t in (result[1], result[0], *result[2:])),
        strict=True,
    ):
        assert np.all(tokens[length:] == PAD)
        found.append((float(score), tuple(tokens[:length].tolist()), bool(finished)))
    return found


def assert_same(result, row, expected, tolerance=1e-5):
    """Checks the n best of a row against all `(score, tokens, finished)`; of ties, any will do."""
    found = [f for f in to_lists(result, row) if f[0] > -math.inf]
    assert len(found) == min(len(expected), result.scores.shape[1])
    np.testing.assert_allclose(
        [f[0] for f in found], [e[0] for e in expected[: len(found)]], atol=tolerance
    )
    known = {tokens: (score, finished) for score, tokens, finished in expected}
    assert len({f[1] for f in found}) == len(found)
    for score, tokens, finished in found:
        assert known[tokens][1] == finished
        assert abs(known[tokens][0] - score) <= tolerance


def randomize(model, seed, scale=0.5):
    """Gives all weights, biases and norms included, values that depend on the seed alone."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        value = rng.normal(scale=scale, size=weight.shape) + (weight.name == "gamma")
        weight.assign(value.astype("float32"))
    return model


def compiled(model):
    """The model in one TensorFlow function of inputs of any shape, which follows its weights."""
    import tensorflow as tf

    specs = tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), model.input)
    return tf.function(model, input_signature=[specs], autograph=False)


def small_transformer(seed=7, **settings):
    """A Transformer of random weights."""
    settings = {"num_layers": 1, "dim": 8, "num_heads": 2, "intermediate_dim": 16, **settings}
    config = TransformerEncoderDecoderConfig(11, 9, **settings)
    return randomize(config.build(), seed)


def sources(lengths, width, seed=0):
    """Source ids `(B, width)`, right-padded with 0."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, 11, size=(len(lengths), width))
    return np.where(np.arange(width) < np.array(lengths)[:, None], ids, 0).astype("int32")


def translate(model, num_beams=None, jit_compile=False, **settings):
    """A compiled function from source ids to the result of a search."""
    sequences = SequenceDecoder(model)
    settings = {"end_id": END, "pad_id": PAD, **settings}
    if num_beams:
        settings = {"num_beams": num_beams, **settings}
    search = beam_search if num_beams else greedy_search

    def generate(ids, max_length):
        memory, mask = sequences.encode(ids)
        prompt = ops.zeros_like(ids[:, :1]) + START
        return search(
            sequences.decoder, prompt, None, memory, mask, max_length=max_length, **settings
        )

    return CompiledFunction(generate, model.variables, jit_compile=jit_compile)


def everything():
    """What must be the same on all backends, as a flat dict of arrays.

    Compiled where a backend compiles anyway; on TensorFlow eagerly, as other tests compile there.
    """
    results = {}

    def run(compiled, ids, max_length):
        if keras.backend.backend() != "tensorflow":
            return compiled(ids, max_length)
        found = compiled.function(ops.convert_to_tensor(ids, "int32"), max_length)
        return tree.map_structure(ops.convert_to_numpy, found)

    table = tables(8, 5)
    prompt = np.array([[START, 3]] * 4 + [[START, PAD]] * 4)

    def toy_search(ids, max_length):
        return beam_search(
            TableDecoder(),
            ids,
            ops.not_equal(ids, PAD),
            ops.convert_to_tensor(table),
            num_beams=4,
            num_return_sequences=4,
            max_length=max_length,
            min_length=2,
            alpha=0.6,
            end_id=END,
        )

    def ruled_search(ids, max_length):
        return beam_search(
            TableDecoder(), ids, ops.not_equal(ids, PAD), ops.convert_to_tensor(table), num_beams=3,
            num_return_sequences=2, max_length=max_length, end_id=END, alpha=1.0,
            length_penalty_kind="power", early_stopping=False, no_repeat_ngram_size=2,
            forced_last_id=END, beginning=ids, beginning_mask=ops.not_equal(ids, PAD),
        )  # fmt: skip

    found = {
        "toy beam": run(CompiledFunction(toy_search, []), prompt, 6),
        "toy rules": run(CompiledFunction(ruled_search, []), prompt, 6),
    }
    model = small_transformer()
    ids = sources([5, 2, 1, 4], 5)
    greedy = translate(model)
    beam = translate(model, 3, num_return_sequences=3, alpha=1.0, suppressed_ids=(PAD, START))
    found["greedy"] = run(greedy, ids, 7)
    found["beam"] = run(beam, ids, 7)
    doubled = CompiledFunction(lambda ids, max_length: ids * 2, [])
    results["no rows"] = doubled(ids[:0], 7)  # for which a row is made up and dropped
    randomize(model, 2)
    found["greedy after a change"] = run(greedy, ids, 7)
    found["beam after a change"] = run(beam, ids, 7)
    for name, result in found.items():
        for field, value in result._asdict().items():
            results[f"{name}: {field}"] = value
    return results
