"""Heads that are switched off or replaced."""

import keras
import numpy as np
import pytest
from keras import ops
from processes import run_python

from keras_attn import ablate, attention_maps, heads_of
from keras_attn.adapt import enable_lora
from keras_attn.generation import CompiledFunction
from keras_attn.layers import (
    MultiHeadAttention,
    MultiHeadSelfAttention,
    SelfAttention,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)

N, D, T = 4, 8, 5
HIDDEN = np.array([[True] * T, [True] * 3 + [False] * 2])


def values_of(layer):
    """Gives all weights of a layer values that are not 0."""
    rng = np.random.default_rng(3)
    for weight in layer.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(scale=0.5, size=weight.shape))
    return layer


def made(**settings):
    layer = MultiHeadSelfAttention(N, value_dim=3, num_kv_heads=2, name="attend", **settings)
    x = np.random.default_rng(0).normal(size=(2, T, D)).astype("float32")
    layer(x)
    return values_of(layer), x


def by_hand(layer, x, weights):
    """The output of a layer whose heads have these weights `(B, N, T, S)`."""
    kernel, bias = (np.asarray(v, "float64") for v in layer.qkv_dense.weights)
    value = (x @ kernel + bias)[..., -2 * 3 :].reshape(2, T, 2, 3)
    context = np.einsum("bnts,bsnh->btnh", weights, value.repeat(2, axis=2))
    kernel, bias = (np.asarray(v, "float64") for v in layer.output_dense.weights)
    return context.reshape(2, T, N * 3) @ kernel + bias


@pytest.mark.parametrize("heads", [0, [3], [1, 2]])
def test_heads_that_are_left_out(heads):
    layer, x = made()
    before, weights = layer(x, mask=HIDDEN, return_attention_scores=True)
    expected = np.asarray(weights).copy()
    expected[:, heads] = 0
    with ablate(layer, {"attend": heads}):
        output = layer(x, mask=HIDDEN)
    np.testing.assert_allclose(output, by_hand(layer, x, expected), atol=1e-5)
    np.testing.assert_array_equal(layer(x, mask=HIDDEN), before)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"positions": "rotary", "key_dim": 4},
        {"qk_norm": "rms_norm"},
        {"attention_sinks": True},
    ],
    ids=str,
)
def test_uniform_attention(settings):
    """Over the keys that a query sees, and in the other heads as before."""
    layer, x = made(**settings)
    _, weights = layer(x, mask=HIDDEN, use_causal_mask=True, return_attention_scores=True)
    visible = np.tril(np.ones((T, T))) * HIDDEN[:, None]
    expected = np.asarray(weights).copy()
    expected[:, 2] = visible / visible.sum(-1, keepdims=True)
    with ablate(layer, {"attend": [2]}, "uniform"):
        output, found = layer(x, mask=HIDDEN, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(output, by_hand(layer, x, expected), atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{}, {"positions": "alibi"}, {"attention_kernel": "chunked"}, {"attention_sinks": True}],
    ids=str,
)
def test_a_fixed_pattern(settings):
    """A query that sees nothing of the pattern has no weights; the others' sum to 1."""
    layer, x = made(**settings)
    pattern = np.random.default_rng(1).uniform(size=(7, 7)) * np.tri(7, 7, -1)
    with ablate(layer, {"attend": [1]}, pattern):
        maps = attention_maps(lambda x: layer(x, mask=HIDDEN), x)
        output = layer(x, mask=HIDDEN)
    (weights,) = maps.values()
    expected = pattern[:T, :T] * HIDDEN[:, None]
    total = expected.sum(-1, keepdims=True)
    expected = np.divide(expected, total, out=np.zeros_like(expected), where=total > 0)
    np.testing.assert_allclose(weights[:, 1], expected, atol=1e-6)
    assert not weights[:, 1, 0].any()
    np.testing.assert_allclose(output, by_hand(layer, x, weights), atol=1e-5)
    np.testing.assert_allclose(weights[:, 2:], plain_weights(layer, x)[:, 2:], atol=1e-6)


def plain_weights(layer, x):
    (weights,) = attention_maps(lambda x: layer(x, mask=HIDDEN), x).values()
    return weights


def translator():
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embed = TokenEmbedding(9, D, name="embed")
    memory = TransformerEncoder(2, 2, intermediate_dim=12, name="encoder")(embed(source))
    output = TransformerDecoder(2, 2, intermediate_dim=12, name="decoder")(embed(target), memory)
    return values_of(keras.Model([source, target], output))


IDS = [np.array([[1, 2, 3, 0]]), np.array([[4, 5, 0]])]
CROSS = "decoder/block_1/cross_attention"


@pytest.mark.slow
def test_everything_that_reads_a_model_sees_it():
    """What was compiled before: `predict`, a compiled function; and steps of a cache."""
    model = translator()
    compiled = CompiledFunction(lambda ids, length: model([ids, ids]), model)
    decoder = model.get_layer("decoder")

    def steps():
        x = model.get_layer("embed")(IDS[1][:, :2])
        memory = ops.ones((1, 3, D))
        _, state = decoder.prefill(x[:, :1], None, 4, memory)
        return decoder.step(x[:, 1:], np.array([1]), state)[0]

    calls = {
        "call": lambda: model(IDS),
        "predict": lambda: model.predict(IDS, verbose=0),
        "compiled": lambda: compiled(IDS[0], 1),
    }
    before = {name: np.asarray(call()) for name, call in calls.items()}
    with ablate(model, {CROSS: [0], "encoder/block_0/self_attention": [1]}):
        inside = {name: np.asarray(call()) for name, call in calls.items()}
    for name, call in calls.items():
        assert np.abs(inside[name] - before[name]).max() > 1e-2
        np.testing.assert_array_equal(call(), before[name])
    np.testing.assert_allclose(inside["predict"], inside["call"], atol=1e-5)


@pytest.mark.slow
def test_keys_are_those_of_attention_maps():
    model = translator()
    maps = attention_maps(model, IDS)
    assert [*dict.fromkeys(key.path for key in maps)] == list(heads_of(model))
    key = next(key for key in maps if key.role == "cross")
    with ablate(model, {key: [1]}, "uniform"):
        weights = attention_maps(model, IDS)[key]
    np.testing.assert_allclose(weights[:, 1, :, :3], 1 / 3, atol=1e-6)


def test_changes_of_lora_are_switched_off_too():
    layer, x = made()
    model = keras.Sequential([keras.Input((T, D)), layer])
    enable_lora(model, 2)
    values_of(layer)
    for replace in ("zero", "uniform"):
        with ablate(model, {"attend": [0, 1, 2, 3]}, replace):
            output, weights = layer(x, return_attention_scores=True)
        if replace == "zero":
            bias = np.broadcast_to(layer.output_dense.bias, output.shape)
            np.testing.assert_allclose(output, bias, atol=1e-6)
        else:
            np.testing.assert_allclose(weights, 1 / T, atol=1e-6)


def test_weights_are_restored_after_an_error():
    layer, x = made()
    before = layer(x)
    with pytest.raises(KeyError), ablate(layer, {"attend": [0]}), ablate(layer, {"attend": [1]}):
        raise KeyError
    np.testing.assert_array_equal(layer(x), before)


@pytest.mark.parametrize(
    ("heads", "replace", "error", "message"),
    [
        ({"attend": [4]}, "zero", ValueError, "attend has heads 0 to 3. Received: head 4"),
        ({"attend": [True]}, "zero", TypeError, "must be integers. Received: True"),
        ({"encoder": [0]}, "zero", ValueError, r"of \['attend'\]. Received: 'encoder'"),
        ({"attend": [0]}, "none", ValueError, "'zero', 'uniform' or an array"),
        ({"attend": [0]}, -np.ones((T, T)), ValueError, "at least 0.*minimum -1"),
        ({"attend": [0]}, np.ones(T), ValueError, r"shape \(T, S\).*shape \(5,\)"),
    ],
    ids=["head", "number", "layer", "replace", "negative", "rank"],
)
def test_what_is_wrong(heads, replace, error, message):
    layer, _ = made()
    with pytest.raises(error, match=message), ablate(layer, heads, replace):
        pass


@keras.saving.register_keras_serializable(package="keras_attn_tests")
def nearer(scores, head, query, key):
    return scores - ops.cast(ops.abs(query - key), scores.dtype)


def test_weights_that_would_not_be_uniform():
    """A pattern replaces the scores after a `score_mod` and a bias."""
    layer, x = made(score_mod=nearer)
    bias = np.random.default_rng(4).normal(size=(1, 1, T, T)).astype("float32")
    with ablate(layer, {"attend": [0]}, np.ones((T, T))):
        _, weights = layer(x, attention_bias=bias, return_attention_scores=True)
    np.testing.assert_allclose(weights[:, 0], 1 / T, atol=1e-6)
    with (
        pytest.raises(ValueError, match=r"score_mod=<function.* Pass an array of ones"),
        ablate(layer, {"attend": [0]}, "uniform"),
    ):
        pass
    plain, x = made()
    before = plain(x, attention_bias=bias)
    with ablate(plain, {"attend": [0]}, "uniform"):
        plain(x)
        with pytest.raises(
            ValueError, match=r"call of attend with `attention_bias`\. Pass an array"
        ):
            plain(x, attention_bias=bias)
    np.testing.assert_array_equal(plain(x, attention_bias=bias), before)


def test_what_cannot_be_done():
    layer, x = made(positions="alibi")
    with (
        pytest.raises(ValueError, match=r"positions='alibi'. Pass an array of ones"),
        ablate(layer, {"attend": [0]}, "uniform"),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"at least 5 queries and 5 keys.*Received: shape \(2, 2\)"),
        ablate(layer, {"attend": [0]}, np.ones((2, 2))),
    ):
        layer(x)
    with (
        pytest.raises(RuntimeError, match="were changed inside `ablate`"),
        ablate(layer, {"attend": [0]}),
    ):
        values_of(layer)
    with (
        pytest.raises(
            ValueError, match=r"has no such layer\. Call it once .*`keras_attn\.from_keras"
        ),
        ablate(SelfAttention(), {"attend": [0]}),
    ):
        pass
    cross = MultiHeadAttention(N, 2, name="cross")
    cross(x, x)
    for name in ("query", "key", "value", "output"):
        getattr(cross, f"{name}_dense").quantize("int8")
    with ablate(cross, {"cross": range(N)}):
        np.testing.assert_allclose(cross(x, x), 0 * x, atol=1e-6)


@pytest.mark.slow
def test_a_pattern_is_not_lost_in_compiled_functions():
    """A first call in a compiled function, a later one, and a step are errors."""
    model = translator()
    pattern = np.ones((4, 4))
    known = CompiledFunction(lambda ids, length: model([ids, ids]), model)
    known(IDS[0], 1)
    with (
        pytest.raises(RuntimeError, match="in a compiled function or in a cached step"),
        ablate(model, {CROSS: [0]}, pattern),
    ):
        CompiledFunction(lambda ids, length: model([ids, ids]), model)(IDS[0], 1)
    with (
        pytest.raises(RuntimeError, match="No eager call reached decoder/block_1"),
        ablate(model, {CROSS: [0]}, pattern),
    ):
        known(IDS[0], 1)


SCRIPT = """
import keras, numpy as np
from keras_attn import ablate, heads_of
from keras_attn.layers import MultiHeadSelfAttention
x = np.random.default_rng(0).normal(size=(1, 4, 8)).astype("float32")
layer = MultiHeadSelfAttention(2, name="attend")
model = keras.Sequential([keras.Input((4, 8)), layer])
before = model.predict(x, verbose=0)
(name,) = heads_of(model)
with ablate(model, {name: [0, 1]}):
    assert np.abs(model.predict(x, verbose=0)).max() == 0
with ablate(model, {name: [0, 1]}, "uniform"):
    _, weights = layer(x, return_attention_scores=True)
    assert np.allclose(keras.ops.convert_to_numpy(weights), 0.25, atol=1e-6)
with ablate(model, {name: [0]}, np.eye(4)):
    _, weights = layer(x, return_attention_scores=True)
    assert np.allclose(keras.ops.convert_to_numpy(weights)[0, 0], np.eye(4), atol=1e-6)
assert (model.predict(x, verbose=0) == before).all()
print("same")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends(backend):
    assert run_python(backend, SCRIPT).stdout.split()[-1] == "same"
