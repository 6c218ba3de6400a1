"""Random layers, inputs and masks, and what must hold of all: `python tests/reliability.py`.

    KERAS_BACKEND=jax python tests/reliability.py --cases 1000 --seed 1

Each case is drawn by Hypothesis, which finds the smallest one that fails. No TensorFlow is needed:
the same cases run on every backend. With the policy float64, first and second derivatives are
compared with differences.
"""

import argparse
import inspect
import itertools
import json
import time
from collections import Counter

import keras
import numpy as np
from backend_calls import BACKEND, compiled_call, float64_allowed, gradients
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from keras import ops

from keras_attn import layers
from keras_attn.generation import beam_search
from keras_attn.models import TokenDecoder

D = 8
TOLERANCE = {"float32": 1e-4, "mixed_bfloat16": 0.12, "mixed_float16": 0.03, "float64": 1e-9}
EXTREME = [0.0, -3.0, 3.0, -1e4, 1e4, -1e9, float(np.finfo("float32").min), -np.inf]
STEP = 1e-6
RAN = Counter()

small = st.integers(1, 4)
heads = {
    "num_kv_heads": st.sampled_from([None, 1, 2]),
    "attention_kernel": st.sampled_from(["auto", "plain", "chunked"]),
    "value_rank": st.sampled_from([None, 2]),
    "scale": st.sampled_from([None, 1.0]),
    "qk_norm": st.sampled_from([None, "rms_norm"]),
    "softcap": st.sampled_from([None, 3.0]),
    "attention_sinks": st.booleans(),
}
positional = {
    "positions": st.sampled_from([None, "rotary", "alibi", "relative"]),
    "sliding_window": st.sampled_from([None, 1, 2, 9]),
}
blocks = {
    **heads,
    **positional,
    "normalize_first": st.booleans(),
    "normalization": st.sampled_from(["layer_norm", "rms_norm"]),
    "gated": st.booleans(),
    "activation": st.sampled_from(["relu", "gelu_tanh"]),
}
stacks = {**blocks, "output_scale": st.sampled_from([None, 0.7])}


def recurrent_decoder(attention, order, **kwargs):
    """A decoder of its cell and its attention."""
    made = {
        "additive": lambda: layers.AdditiveAttention(3, **kwargs),
        "luong": lambda: layers.LuongAttention(score="general", **kwargs),
    }
    return layers.AttentionDecoder(
        keras.layers.GRUCell(D, **kwargs),
        made[attention](),
        order=order,
        attention_units=D,
        **kwargs,
    )


KINDS = {  # a class, its sizes, its settings, and the names of its inputs and of their masks
    "self": (layers.MultiHeadSelfAttention, (4,), {**heads, **positional}, {"x": "mask"}),
    "heads": (
        layers.MultiHeadAttention, (4, 2), heads, {"query": "query_mask", "value": "value_mask"},
    ),
    "one head": (
        layers.SelfAttention, (), {"projection": st.sampled_from([None, "shared", "separate"])},
        {"x": "mask"},
    ),
    "additive": (
        layers.AdditiveAttention, (3,), {"normalize": st.booleans()},
        {"query": "query_mask", "value": "value_mask"},
    ),
    "luong": (
        layers.LuongAttention, (), {"score": st.sampled_from(["dot", "general", "concat"])},
        {"query": "query_mask", "value": "value_mask"},
    ),
    "encoder": (layers.TransformerEncoder, (2, 4), stacks, {"x": "padding_mask"}),
    "decoder": (
        layers.TransformerDecoder, (2, 4), stacks,
        {"x": "padding_mask", "memory": "memory_mask"},
    ),
    "decoder alone": (layers.TransformerDecoder, (2, 4), stacks, {"x": "padding_mask"}),
    "encoder block": (layers.TransformerEncoderBlock, (4,), blocks, {"x": "padding_mask"}),
    "decoder block": (
        layers.DecoderBlock, (4,), blocks, {"x": "padding_mask", "memory": "memory_mask"},
    ),
    "feed forward": (layers.FeedForward, (6,), {"gated": st.booleans()}, {"x": "mask"}),
    "recurrent": (
        layers.RecurrentEncoder, (D // 2,),
        {"cell": st.sampled_from(["gru", "lstm"]), "num_layers": st.integers(1, 2)},
        {"x": "padding_mask"},
    ),
    "recurrent decoder": (
        recurrent_decoder, (),
        {"attention": st.sampled_from(["additive", "luong"]),
         "order": st.sampled_from(["luong", "bahdanau"])},
        {"x": "padding_mask", "memory": "memory_mask"},
    ),
    "word by word": (
        layers.WordByWordAttention, (3,), {}, {"query": "query_mask", "value": "value_mask"},
    ),
    "final states": (layers.FinalStatesPooling, (), {}, {"x": "mask"}),
    "average": (layers.MaskedAveragePooling, (), {}, {"x": "mask"}),
    "max": (layers.MaskedMaxPooling, (), {}, {"x": "mask"}),
    "first": (layers.FirstTokenPooling, (), {}, {"x": "mask"}),
    "pooled": (layers.AttentionPooling, (), {}, {"x": "mask"}),
}  # fmt: skip
POOLED = ("average", "max", "first", "pooled", "final states")
STACKS = ("encoder", "encoder block", "decoder", "decoder alone", "decoder block")
ONE_SIDED = ("decoder", "decoder alone", "decoder block", "recurrent decoder", "word by word")
FORMS = {
    "bool": lambda m: m,
    "int": lambda m: m.astype("int32"),
    "list": lambda m: m.tolist(),
    "tensor": ops.convert_to_tensor,
}


def numpy(x):
    x = ops.convert_to_tensor(x)
    wide = "float64" if keras.backend.standardize_dtype(x.dtype) == "float64" else "float32"
    return np.asarray(ops.convert_to_numpy(ops.cast(x, wide)), "float64")


class Drawn:
    """A layer, its inputs and masks, and calls of it with something changed."""

    def __init__(self, draw):
        self.kind = draw(st.sampled_from(sorted(KINDS)))
        cls, sizes, choices, self.masks_of = KINDS[self.kind]
        self.settings = {name: draw(choice) for name, choice in choices.items()}
        if self.kind in STACKS:
            self.settings["intermediate_dim"] = 8
        self.policy = draw(st.sampled_from(sorted(TOLERANCE)))
        self.dtype = "float64" if self.policy == "float64" else "float32"
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.B, self.pools = draw(st.integers(1, 3)), self.kind in POOLED
        self.first = next(iter(self.masks_of))
        self.layer = cls(*sizes, **self.settings, dtype=self.policy)
        self.inputs, self.masks = {}, {}
        for name in self.masks_of:
            length = draw(st.sampled_from([0, 1, 2, 4, 5]))
            self.inputs[name] = self.rng.normal(size=(self.B, length, D)).astype(self.dtype)
            # Right padding, holes, and rows of padding alone.
            density = draw(st.sampled_from([0.0, 0.5, 0.8, 1.0]))
            holes = self.rng.random((self.B, length)) < density
            ends = np.arange(length) < self.rng.integers(0, length + 1, (self.B, 1))
            self.masks[name] = draw(st.sampled_from([holes, ends, ends | True]))
        takes = inspect.signature(self.layer.call).parameters
        self.takes_bias = "attention_bias" in takes
        self.causal = not set(ONE_SIDED) & {self.kind} and "use_causal_mask" in takes
        self.causal = self.causal and len(self.inputs) == 1 and draw(st.booleans())
        self.options = {"use_causal_mask": True} if self.causal else {}
        self.causal |= self.kind in ONE_SIDED
        self.form = FORMS[draw(st.sampled_from(sorted(FORMS)))]
        self.each = None
        keys = "value" if "value" in self.inputs else "x"
        T, S = self.inputs[self.first].shape[1], self.inputs[keys].shape[1]
        several = 4 if self.takes_bias else 1
        self.pairs = [(self.B, 1, T, S), (1, several, T, S)]
        if "attention_mask" in takes and draw(st.booleans()):
            shape = draw(st.sampled_from([(self.B, T, S), (1, T, S), *self.pairs]))
            self.each = self.rng.random(shape) < 0.7
        self.build()

    def build(self):
        # With two tokens each, of any values: then weights far from those that layers begin with.
        self.layer(*[np.ones((1, 2, D), self.dtype)] * len(self.inputs))
        for variable in self.layer.trainable_variables:
            noise = self.rng.normal(size=variable.shape)
            variable.assign(variable + 0.2 * ops.cast(noise, variable.dtype))

    def call(self, inputs=None, masks=None, each="own", **options):
        """The output of the case, or of other inputs and masks."""
        inputs = self.inputs if inputs is None else inputs
        masks = self.masks if masks is None else masks
        told = {self.masks_of[name]: self.form(mask) for name, mask in masks.items()
                if mask.size or self.form is not FORMS["list"]}  # fmt: skip
        each = self.each if isinstance(each, str) else each
        if each is not None:
            told["attention_mask"] = each
        return self.layer(*inputs.values(), **told, **self.options, **options)

    def real(self, y):
        """What of an output counts."""
        y = numpy(y)
        return y if self.pools else y[self.masks[self.first]]

    def close(self, a, b):
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[self.policy] * self.size)


def check(d):
    """All that must hold of a case; raises an AssertionError."""
    y = d.call()
    found = numpy(y)
    d.size = 1 + np.abs(found).max(initial=0)
    shape = (d.B, D) if d.pools else (d.B, d.inputs[d.first].shape[1], D)
    assert found.shape == shape
    assert np.isfinite(found).all()
    for name in PROPERTIES:
        RAN[name.__name__] += name(d, y) is not False  # it may have nothing to say


def no_nan_from_padding(d, y):
    dirty = {}
    for name, x in d.inputs.items():
        dirty[name] = np.where(d.masks[name][..., None], x, np.resize([np.nan, np.inf, -np.inf], D))
    output = d.call({name: x.astype(d.dtype) for name, x in dirty.items()})
    d.close(d.real(output), d.real(y))


def more_padding(d, y):
    if d.each is not None or (d.causal and len(d.inputs) > 1 and "memory" not in d.inputs):
        return False
    more = 1 + d.rng.integers(3)
    inputs = {n: np.pad(x, [(0, 0), (0, more), (0, 0)], constant_values=7.0)
              for n, x in d.inputs.items()}  # fmt: skip
    masks = {n: np.pad(m, [(0, 0), (0, more)]) for n, m in d.masks.items()}
    output = numpy(d.call(inputs, masks))
    output = output if d.pools else output[:, : d.inputs[d.first].shape[1]][d.masks[d.first]]
    d.close(output, d.real(y))


def order_of_the_batch(d, y):
    order = d.rng.permutation(d.B)
    each = d.each if d.each is None or len(d.each) == 1 else d.each[order]
    output = d.call(
        {n: x[order] for n, x in d.inputs.items()}, {n: m[order] for n, m in d.masks.items()}, each
    )
    d.close(numpy(output), numpy(y)[order])


def past(d, y):
    length = d.inputs[d.first].shape[1]
    if not d.causal or length < 2:
        return False
    at = int(d.rng.integers(1, length))
    inputs = {n: np.array(x) for n, x in d.inputs.items()}
    inputs[d.first][:, at:] = d.rng.normal(size=inputs[d.first][:, at:].shape)
    d.close(numpy(d.call(inputs))[:, :at], numpy(y)[:, :at])


def scores(d, y):
    takes = inspect.signature(d.layer.call).parameters
    chunked = d.settings.get("attention_kernel") == "chunked"
    if "return_attention_scores" not in takes or chunked:
        return False
    output, *weights = keras.tree.flatten(d.call(return_attention_scores=True))
    d.close(numpy(output), numpy(y))
    for w in map(numpy, weights):
        sums = w.sum(axis=-1)
        # Attention sinks take a share.
        less = d.settings.get("attention_sinks", False) & (sums < 1) & (sums >= 0)
        assert ((np.abs(sums - 1) < 0.03) | (sums == 0) | less).all()
    if d.kind in ("additive", "luong") or (d.kind == "one head" and not d.settings["projection"]):
        value = d.inputs["x" if d.kind == "one head" else "value"]
        value = np.where(d.masks[list(d.masks)[-1]][..., None], value, 0)
        d.close(numpy(weights[0]) @ value, numpy(y))
    if d.kind in ("self", "heads"):
        value = ops.convert_to_tensor(next(reversed(d.inputs.values())))
        value = d.layer.project(value)[2] if d.kind == "self" else d.layer._project(value, None)[1]
        group = 4 // value.shape[2]
        value = np.repeat(numpy(value), group, axis=2)
        context = np.einsum("bnts,bsnh->btnh", numpy(weights[0]), value)
        context = context.reshape(*context.shape[:2], 4 * context.shape[3])
        dense = d.layer.output_dense
        d.close(context @ numpy(dense.kernel) + numpy(dense.bias), numpy(y))


def cache(d, y):
    """Step by step after a prompt; rows of tokens alone, as prompts and steps are."""
    x = d.inputs.get("x")
    steps = d.kind in ("decoder", "decoder alone", "decoder block")
    if not steps or x.shape[1] < 2 or d.each is not None:
        return False
    masks = {**d.masks, "x": np.ones(x.shape[:2], bool)}
    whole = numpy(d.call(masks=masks))
    at = int(d.rng.integers(1, x.shape[1]))
    memory = (
        {"memory": d.inputs["memory"], "memory_mask": masks["memory"]} if len(masks) > 1 else {}
    )
    parts = [None]
    parts[0], state = d.layer.prefill(x[:, :at], max_length=x.shape[1], **memory)
    for t in range(at, x.shape[1]):
        if d.kind == "decoder block":  # of which a stack does the counting
            seen = np.arange(x.shape[1])[None] <= np.full((d.B, 1), t)
            new, state, _ = d.layer.step(
                x[:, t : t + 1], state, ops.convert_to_tensor(t, "int32"),
                ops.convert_to_tensor(seen), memory.get("memory_mask"),
            )  # fmt: skip
        else:
            new, state = d.layer.step(x[:, t : t + 1], state)
        parts.append(new)
    d.close(np.concatenate([numpy(part) for part in parts], axis=1), whole)


def bias(d, y):
    """Finite for any bias; -inf hides as a mask does; one bias for all keys changes nothing."""
    if not d.takes_bias:
        return False
    shape = d.pairs[int(d.rng.integers(len(d.pairs)))]
    values = d.rng.choice(EXTREME, size=shape)
    assert np.isfinite(numpy(d.call(attention_bias=values.astype(d.dtype)))).all()
    hidden = d.rng.random(shape) < 0.4
    biased = d.call(attention_bias=np.where(hidden, -np.inf, 0.0).astype(d.dtype))
    own = True if d.each is None else d.each if d.each.ndim == 4 else d.each[:, None]
    d.close(numpy(biased), numpy(d.call(each=own & ~hidden)))
    if d.dtype == d.policy and not d.settings["attention_sinks"]:
        same = d.rng.normal(scale=10, size=(*shape[:3], 1)).astype(d.dtype)
        d.close(numpy(d.call(attention_bias=same)), numpy(y))


def derivatives(d, y):
    """First and second ones are those of differences, and none comes from padding."""
    if d.policy != "float64":
        return False
    weights = d.layer.trainable_variables
    names, factors = list(d.inputs), d.rng.normal(size=numpy(y).shape)
    counts = np.ones((), bool) if d.pools else d.masks[d.first][..., None]

    def loss(xs):
        values = zip(weights, xs[len(names) :], strict=True)
        with keras.StatelessScope(state_mapping=list(values)):
            output = d.call(dict(zip(names, xs, strict=False)))
        return ops.sum(ops.where(counts, output, 0) * ops.convert_to_tensor(factors, d.dtype))

    def along(xs, direction):
        terms = zip(gradients(loss, xs), direction, strict=True)
        return sum(ops.sum(g * ops.convert_to_tensor(u, d.dtype)) for g, u in terms)

    def difference(function, direction):
        ends = [
            function([np.asarray(x + step * u) for x, u in zip(point, direction, strict=True)])
            for step in (STEP, -STEP)
        ]
        return (float(numpy(ends[0])) - float(numpy(ends[1]))) / (2 * STEP)

    point = [*d.inputs.values(), *map(numpy, weights)]
    u, w = ([d.rng.normal(size=x.shape) for x in point] for _ in range(2))
    clean = list(map(numpy, gradients(loss, point)))
    first = sum((g * x).sum() for g, x in zip(clean, u, strict=True))
    np.testing.assert_allclose(first, difference(loss, u), rtol=1e-5, atol=1e-5)
    second_derivatives(d, point, along, difference, (u, w))
    if d.kind == "feed forward":  # reads each position alone, so its weights read padding too
        return True
    masks = [d.masks[name][..., None] for name in names]
    dirty = [np.where(m, x, np.nan) for m, x in zip(masks, point, strict=False)]
    found = list(map(numpy, gradients(loss, [*dirty, *point[len(names) :]])))
    for g, expected in zip(found, clean, strict=True):
        d.close(g, expected)
    for g, mask in zip(found, masks, strict=False):
        assert not g[~np.broadcast_to(mask, g.shape)].any()


def second_derivatives(d, point, along, difference, directions):
    """Compared with differences of first ones; or an error of a kernel without them."""
    u, w = directions
    RAN["second_derivatives"] += 1
    kernel = d.settings.get("attention_kernel")
    try:
        found = gradients(lambda xs: along(xs, u), point)
    except (NotImplementedError, LookupError) as error:  # LookupError by TensorFlow
        assert kernel == "chunked" and "first derivatives only" in str(error)
        return
    except RuntimeError as error:
        # By PyTorch: of its kernel, which `auto` takes, and of an embedding that reads no ids.
        assert BACKEND == "torch"
        empty = any(x.shape[1] == 0 for x in d.inputs.values())
        assert empty or (kernel == "auto" and "is not implemented" in str(error))
        return
    found = sum((numpy(g) * x).sum() for g, x in zip(found, w, strict=True))
    expected = difference(lambda xs: along(xs, u), w)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def unknown_lengths(d, y):
    """A functional model of symbols without lengths, compiled by backends that compile."""
    if d.rng.random() > 0.3:  # others take long to compile
        return False
    symbols = [keras.Input((None, D), dtype=d.dtype) for _ in d.inputs]
    arrays = list(d.inputs.values())
    told = {d.masks_of[name]: mask for name, mask in d.masks.items()}
    if d.each is not None:
        told["attention_mask"] = d.each
    kwargs = {}
    for name, mask in told.items():
        heads = mask.shape[1:-2]
        shape = (None, *heads, *[None] * (mask.ndim - 1 - len(heads)))
        kwargs[name] = keras.Input(batch_shape=shape, dtype="bool")
    inputs = [*symbols, *kwargs.values()]
    model = keras.Model(inputs, d.layer(*symbols, **kwargs, **d.options))
    d.close(numpy(compiled_call(model, [*arrays, *told.values()])), numpy(y))


PROPERTIES = (
    no_nan_from_padding, more_padding, order_of_the_batch, past, scores, cache, bias, derivatives,
    unknown_lengths,
)  # fmt: skip


def check_beams(vocabulary, length, start):
    """A beam that holds all sequences is exhaustive search."""
    rng = np.random.default_rng(start)
    embedding = layers.TokenEmbedding(vocabulary, D, mask_zero=False)
    stack = layers.TransformerDecoder(1, 2, intermediate_dim=8)
    embedding.build()
    stack.build((None, None, D))
    for variable in (*embedding.weights, *stack.weights):
        variable.assign(variable + 0.5 * ops.cast(rng.normal(size=variable.shape), variable.dtype))
    decoder, end, prompt = TokenDecoder(embedding, None, stack), vocabulary - 1, [[0]]
    count = vocabulary**length
    best = beam_search(
        decoder, ops.array(prompt, "int32"), num_beams=count, num_return_sequences=min(3, count),
        max_length=length, end_id=end,
    )  # fmt: skip

    def logp(sequence):
        logits, state = decoder.prefill(ops.array(prompt, "int32"), max_length=length + 1)
        total = 0.0
        for position, token in enumerate(sequence, start=1):
            row = numpy(logits)[0]
            total += row[token] - row.max() - np.log(np.exp(row - row.max()).sum())
            if token == end or position == length:
                break
            logits, state = decoder.step(
                ops.array([token], "int32"), ops.array([position], "int32"), state
            )
        return total

    sequences = {
        (*s[: s.index(end)], end) if end in s else s
        for s in itertools.product(range(vocabulary), repeat=length)
    }
    expected = sorted((logp(s) for s in sequences), reverse=True)[: min(3, count)]
    np.testing.assert_allclose(numpy(best.scores)[0], expected, atol=1e-4)
    RAN["beams"] += 1


def run(cases, number):
    """Draws so many cases and checks them; returns how often each property was asked for."""
    RAN.clear()
    quiet = settings(
        max_examples=cases, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip

    @seed(number)
    @quiet
    @given(st.data())
    def any_layer(data):
        with float64_allowed():
            d = Drawn(data.draw)
            RAN[d.kind] += 1
            check(d)

    @seed(number)
    @settings(quiet, max_examples=max(1, cases // 50))
    @given(st.integers(2, 3), st.integers(1, 3), st.integers(0, 2**16))
    def any_search(vocabulary, length, start):
        check_beams(vocabulary, length, start)

    any_layer()
    any_search()
    return dict(RAN)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    ran = run(options.cases, options.seed)
    ran["seconds"] = round(time.monotonic() - began)
    print(json.dumps({"backend": keras.backend.backend(), **ran}))
