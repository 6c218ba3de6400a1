"""Biases of scores, relative positions, windows, scaled rotary positions, activations, outputs."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.layers import (
    DecoderBlock,
    FeedForward,
    GridPositionalEncoding,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    PositionalEncoding,
    RotaryEmbedding,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
    TransformerEncoderBlock,
)
from keras_attn.layers.sinusoidal_initializer import SinusoidalInitializer
from keras_attn.models import (
    SequenceDecoder,
    TransformerEncoderDecoderConfig,
    packed_transformer,
)
from keras_attn.ops import apply_rotary, relative_position_buckets, rotary_rates
from keras_attn.ops.compilers import tracing_for
from keras_attn.training import ChunkedLossModel, MaskedCrossEntropy

B, T, D, N = 2, 5, 8, 2


def normal(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


BIASED = [
    (MultiHeadSelfAttention(N), 1),
    (MultiHeadSelfAttention(N, positions="alibi"), 1),
    (MultiHeadSelfAttention(N, attention_kernel="chunked"), 1),
    (MultiHeadAttention(N), 2),
    (TransformerEncoderBlock(N, intermediate_dim=8), 1),
    (DecoderBlock(N, intermediate_dim=8), 1),
    (TransformerEncoder(2, N, intermediate_dim=8), 1),
    (TransformerDecoder(2, N, intermediate_dim=8, rematerialize=True), 1),
]


@pytest.mark.quick(slow=["MultiHeadSelfAttention-int2", "TransformerDecoder-int"])
@pytest.mark.parametrize(("layer", "inputs"), BIASED, ids=lambda v: type(v).__name__)
def test_a_bias_is_added_to_the_scores(layer, inputs):
    x = [normal(B, T, D)] * inputs
    plain = layer(*x)
    # The same for all keys changes nothing; -inf hides as a mask does.
    constant = layer(*x, attention_bias=np.full((1, 1, T, 1), 3.0, "float32"))
    np.testing.assert_allclose(constant, plain, atol=1e-5)
    each = np.random.default_rng(1).random((B, N, T, T)) > 0.4
    each[..., 0] = True
    hidden = layer(*x, attention_bias=np.where(each, 0.0, -np.inf).astype("float32"))
    np.testing.assert_allclose(hidden, layer(*x, attention_mask=each), atol=1e-5)
    bias = tf.Variable(normal(B, N, T, T))
    with tf.GradientTape() as tape:
        output = layer(*x, attention_bias=bias.value(), training=True)
        loss = tf.reduce_sum(tf.sin(output))
    assert np.abs(output - plain).max() > 1e-3
    assert np.abs(tape.gradient(loss, bias)).max() > 1e-4
    symbol = keras.Input((N, T, T))
    assert layer(*[keras.Input((T, D))] * inputs, attention_bias=symbol).shape == (None, T, D)
    for wrong in (normal(T, T), normal(B, N, T, T + 1), normal(3, N, T, T), each):
        with pytest.raises(ValueError, match=r"`attention_bias` must be floats.*\(2, 2, 5, 5\)"):
            layer(*x, attention_bias=wrong)


def test_a_bias_by_hand():
    layer = MultiHeadSelfAttention(1, key_dim=D, use_bias=False)
    x, bias = normal(1, T, D), normal(1, 1, T, T)
    _, weights = layer(x, attention_bias=bias, return_attention_scores=True)
    q, k, _ = np.split(x[0] @ layer.qkv_dense.kernel.numpy(), 3, axis=-1)
    scores = q @ k.T / D**0.5 + bias[0, 0]
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights[0, 0], expected, atol=1e-5)


def test_float_masks_are_told_of_it():
    with pytest.raises(ValueError, match="`attention_bias` of a layer"):
        MultiHeadSelfAttention(N)(normal(B, T, D), attention_mask=normal(B, T, T))


def test_buckets_by_hand():
    """4 of 8 buckets each way: 0 and 1 alone, then 2 to 7, then all the rest from 8 on."""
    distance = np.array([0, -1, -2, -3, -4, -7, -8, -100, 1, 2, 8])
    expected = [0, 1, 2, 2, 3, 3, 3, 3, 5, 6, 7]
    found = relative_position_buckets(ops.array(distance), 8, 8)
    assert ops.convert_to_numpy(found).tolist() == expected
    # 8 for earlier keys alone: later ones are where the query is.
    found = relative_position_buckets(ops.array(distance), 8, 16, bidirectional=False)
    assert ops.convert_to_numpy(found).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0]


@pytest.mark.parametrize("kernel", ["plain", "chunked"])
def test_relative_positions_keep_float64(kernel):
    """In float32, scores would not notice a change of 1e-9."""
    layer = MultiHeadSelfAttention(
        2, positions="relative", attention_kernel=kernel, dtype="float64"
    )
    x = np.random.default_rng(0).normal(size=(1, 5, 8))
    before = ops.convert_to_numpy(layer(x))
    table = layer.relative_bias.embeddings
    change = np.random.default_rng(1).normal(size=table.shape)

    def moved(step):
        table.assign_add(step * change)
        found = ops.convert_to_numpy(layer(x))
        table.assign_sub(step * change)
        return found - before

    np.testing.assert_allclose(moved(1e-9) / 1e-9, moved(1e-5) / 1e-5, atol=1e-5)


def test_positions_keep_float64():
    """Sines, cosines and slopes have other digits in float32."""
    rng, far = np.random.default_rng(0), {"rtol": 0, "atol": 1e-12}
    x = rng.normal(size=(1, 6, 16))
    places, rates = np.arange(6)[:, None], 10000.0 ** (-2 * np.arange(8) / 16)
    table = np.stack([np.sin(places * rates), np.cos(places * rates)], -1).reshape(6, 16)
    np.testing.assert_allclose(PositionalEncoding(dtype="float64")(x), x + table, **far)
    initializer = SinusoidalInitializer(0.5**0.5)
    np.testing.assert_allclose(initializer((6, 16), "float64"), table, **far)
    grid = GridPositionalEncoding(2, dtype="float64")(x)
    angles = np.stack([places // 2, places % 2]) * 10000.0 ** (-2 * np.arange(4) / 8)
    both = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(2, 6, 8)
    np.testing.assert_allclose(grid, x + np.concatenate(both, -1), **far)

    heads = rng.normal(size=(1, 6, 2, 16))
    turned = heads[..., :8] + 1j * heads[..., 8:]
    turned = turned * np.exp(1j * places * rates)[:, None]
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    found = apply_rotary(ops.convert_to_tensor(heads, "float64"))
    np.testing.assert_allclose(found, expected, **far)

    layer = MultiHeadSelfAttention(12, positions="alibi", dtype="float64")
    layer(rng.normal(size=(1, 6, 24)))
    bias = layer._bias(ops.arange(6)[None])
    slopes = [*(2.0**-n for n in range(1, 9)), *(2.0 ** -(n - 0.5) for n in range(1, 5))]
    distances = np.abs(places - places.T)
    np.testing.assert_allclose(bias[0], -np.array(slopes)[:, None, None] * distances, **far)


def test_factors_keep_float64():
    """The square root of 3 and 0.7 have other digits in float32."""
    rng, far = np.random.default_rng(0), {"rtol": 0, "atol": 1e-12}
    embedding = TokenEmbedding(5, 3, scale=True, dtype="float64")
    found = embedding(np.array([[1, 4]]))
    table = ops.convert_to_numpy(embedding.embedding.embeddings)
    np.testing.assert_allclose(found, table[None, [1, 4]] * 3**0.5, **far)
    settings = {"intermediate_dim": 8, "dtype": "float64"}
    plain, scaled = (
        TransformerDecoder(1, 4, output_scale=scale, **settings) for scale in (None, 0.7)
    )
    x = rng.normal(size=(1, 3, 8))
    wanted = 0.7 * ops.convert_to_numpy(plain(x))
    scaled(x)
    scaled.set_weights(plain.get_weights())
    np.testing.assert_allclose(scaled(x), wanted, **far)
    parts, state = scaled.prefill(x[:, :2], max_length=3)
    step, _ = scaled.step(x[:, 2:], state)
    np.testing.assert_allclose(np.concatenate([parts, step], axis=1), wanted, **far)


@pytest.mark.slow
def test_relative_positions_are_one_table_for_a_stack(tmp_path):
    settings = {"positions": "relative", "num_buckets": 4, "max_distance": 5}
    inputs = keras.Input((None, D))
    stack = TransformerEncoder(2, N, intermediate_dim=8, **settings)
    model = keras.Model(inputs, stack(inputs))
    tables = {id(block.self_attention.relative_bias) for block in stack.blocks}
    assert len(tables) == 1
    assert sum(w.shape == (4, N) for w in stack.weights) == 1
    (table,) = (w for w in stack.weights if w.shape == (4, N))
    x = normal(B, T, D)
    before = model(x)
    table.assign(normal(4, N) * 3)
    after = model(x)
    assert np.abs(before - after).max() > 1e-3
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(keras.models.load_model(tmp_path / "model.keras")(x), after)
    # Only distances count.
    np.testing.assert_allclose(stack(x, positions=np.arange(T) + 40), after, atol=1e-6)


@pytest.mark.parametrize("window", [1, 3])
def test_a_window_by_hand(window):
    layer = MultiHeadSelfAttention(N, sliding_window=window)
    x = normal(B, T, D)
    distance = np.arange(T)[:, None] - np.arange(T)
    for causal in (False, True):
        near = np.abs(distance) < window
        near &= (distance >= 0) | (not causal)
        _, weights = layer(x, use_causal_mask=causal, return_attention_scores=True)
        np.testing.assert_array_equal(weights.numpy() > 0, np.broadcast_to(near, (B, N, T, T)))


@pytest.mark.quick("left-{'sliding_window': 2}")
@pytest.mark.parametrize(
    "settings",
    [{"sliding_window": 2}, {"positions": "relative", "num_buckets": 4, "max_distance": 5}],
    ids=str,
)
@pytest.mark.parametrize("side", ["right", "left"])
def test_steps_after_padded_prompts(settings, side):
    """Rows of their own lengths, cached: what each row gives alone, of no padding."""
    stack = TransformerDecoder(2, N, intermediate_dim=8, **settings)
    x, lengths = normal(B, 6, D), (3, 1)
    stack(x)
    for weight in stack.weights:
        weight.assign(weight + 0.3 * np.random.default_rng(0).normal(size=weight.shape))
    prompt, mask = np.zeros((B, 3, D), "float32"), np.zeros((B, 3), bool)
    for row, n in enumerate(lengths):
        at = slice(0, n) if side == "right" else slice(3 - n, 3)
        prompt[row, at], mask[row, at] = x[row, :n], True
    positions = None if side == "right" else np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    if "positions" not in settings:
        positions = None
    _, state = stack.prefill(prompt, mask, max_length=6, positions=positions)
    for t in range(3):
        new = np.stack([x[row, n + t] for row, n in enumerate(lengths)])[:, None]
        y, state = stack.step(new, state)
        for row, n in enumerate(lengths):
            alone = stack(x[row : row + 1, : n + t + 1])[0, -1]
            np.testing.assert_allclose(y[row, 0], alone, atol=1e-5)


def test_scaled_rotary_positions():
    plain = rotary_rates(8, 10000.0)
    np.testing.assert_allclose(rotary_rates(8, 10000.0, {"type": "linear", "factor": 4}), plain / 4)
    x = normal(B, T, N, 8)
    half = RotaryEmbedding(scaling={"type": "linear", "factor": 2.0})
    np.testing.assert_allclose(half(x, positions=2 * np.arange(T)), RotaryEmbedding()(x), atol=1e-5)
    # Llama 3.1: fast pairs stay, slow ones are divided, those between are in between.
    scaling = {"type": "llama3", "factor": 8.0}
    rates, found = rotary_rates(128, 500000.0), rotary_rates(128, 500000.0, scaling)
    waves = 2 * np.pi / rates
    np.testing.assert_allclose(found[waves < 8192 / 4], rates[waves < 8192 / 4])
    np.testing.assert_allclose(found[waves > 8192], rates[waves > 8192] / 8)
    between = (waves > 8192 / 4) & (waves < 8192)
    assert between.sum() > 3
    assert ((found > rates / 8) & (found < rates))[between].all()
    linear = {"type": "linear", "factor": 2}
    wrongs = [{**linear, "type": "yarn"}, {"factor": 2}, {"type": "linear"}, "linear"]
    for wrong in (*wrongs, {**linear, "factor": 0}, {**linear, "low": 1}):
        with pytest.raises(ValueError, match=r"scaling.*Received"):
            RotaryEmbedding(scaling=wrong)


@pytest.mark.slow
def test_gelu_tanh_is_saved_by_its_name(tmp_path):
    x = np.linspace(-4, 4, 24).reshape(1, 3, 8).astype("float32")
    for layer in (
        FeedForward(6, activation="gelu_tanh"),
        TransformerEncoderBlock(N, intermediate_dim=6, activation="gelu_tanh"),
    ):
        assert layer.get_config()["activation"] == "gelu_tanh"
        json.dumps(layer.get_config())
        inputs = keras.Input((None, 8))
        model = keras.Model(inputs, layer(inputs))
        model.save(tmp_path / "model.keras")
        np.testing.assert_allclose(keras.models.load_model(tmp_path / "model.keras")(x), model(x))
    cubed = 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    from keras_attn.layers.activations import activation

    np.testing.assert_allclose(activation("gelu_tanh")(x), cubed, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_gelu_of_jax(dtype):
    """Values and derivatives are PyTorch's in float64, to the precision of the dtype."""
    import jax
    import torch

    from keras_attn.layers.activations import gelu_of_jax

    gelu = gelu_of_jax()
    x = jax.numpy.linspace(-7, 7, 701, dtype=dtype)
    wide = torch.tensor(np.asarray(x, "float64"), requires_grad=True)
    y = torch.nn.functional.gelu(wide)
    (first,) = torch.autograd.grad(y.sum(), wide, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), wide)
    slope = jax.grad(lambda x: gelu(x).sum().astype("float32"))
    found = gelu(x), slope(x), jax.grad(lambda x: slope(x).sum().astype("float32"))(x)
    unit = {"float32": 5e-7, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    for array, expected in zip(found, (y, first, second), strict=True):
        assert array.dtype == dtype
        expected = expected.detach().numpy()
        np.testing.assert_allclose(np.asarray(array, "float64"), expected, rtol=unit, atol=unit)
    assert gelu(jax.numpy.arange(3)).dtype == "float32"


@pytest.mark.slow
def test_a_bias_of_tied_outputs():
    embed = TokenEmbedding(7, D, output_bias=True)
    embed.build()
    x = normal(B, T, D)
    plain = embed(x, reverse=True)
    embed.bias.assign(np.arange(7.0))
    for xla in (False, True):
        with tracing_for(xla):
            logits = embed(x, reverse=True)
        np.testing.assert_allclose(logits, plain + np.arange(7.0), atol=1e-5)
    # The loss in chunks sees it.
    ids = keras.Input((None,), dtype="int32")
    model = keras.Model(ids, embed(embed(ids), reverse=True))
    data, labels = np.array([[3, 1, 4]]), np.array([[1, 4, 2]])
    losses = []
    for each in (model, ChunkedLossModel(model)):
        each.compile("sgd", MaskedCrossEntropy(), jit_compile=False)
        losses.append(each.evaluate(data, labels, verbose=0))
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.slow
def test_outputs_that_are_not_tied():
    config = TransformerEncoderDecoderConfig(
        12, num_layers=1, dim=D, num_heads=N, intermediate_dim=8, dropout=0.0, tied_output=False
    )
    model = config.build()
    head = model.get_layer("head")
    assert head.kernel.shape == (D, 12)
    ids = np.array([[3, 5, 7, 2]])
    logits = model({"source_ids": ids, "target_ids": ids})
    sequences = SequenceDecoder(model)
    memory, mask = sequences.encode(ids)
    for t in range(1, 5):
        found, _ = sequences.decoder.prefill(ids[:, :t], None, memory, mask, max_length=5)
        np.testing.assert_allclose(found, logits[:, t - 1], atol=1e-5)
    assert packed_transformer(model).count_params() == model.count_params()


def test_settings_are_checked():
    for settings, words in [
        ({"positions": "rope"}, "'relative'.*'rope'"),
        ({"num_buckets": 5}, "even.*num_buckets=5"),
        ({"num_buckets": 32, "max_distance": 10}, "max_distance=10"),
        ({"sliding_window": 0}, "`sliding_window`.*0"),
        ({"rotary_scaling": {"type": "dynamic"}}, "`rotary_scaling`.*dynamic"),
    ]:
        for make in (
            lambda s: MultiHeadSelfAttention(N, **s),
            lambda s: TransformerEncoder(1, N, intermediate_dim=8, **s),
        ):
            with pytest.raises(ValueError, match=words):
                make(settings)
