"""What the attention layers and blocks do beyond the contracts."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness_case import masked, set_biases
from keras import ops

from keras_attn.layers import (
    AdditiveAttention,
    DecoderBlock,
    FeedForward,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)

B, T, S, D = 2, 4, 5, 8


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def test_additive_by_formula():
    """v . tanh(q Wq + b + k Wk), in NumPy and float64."""
    query, value, key = normal(B, T, 3), normal(B, S, 6, seed=1), normal(B, S, 2, seed=2)
    layer = AdditiveAttention(7, use_bias=True)
    layer.build(query.shape, value.shape, key.shape)
    layer.query_dense.bias.assign(normal(7))
    context, weights = layer(query, value, key, return_attention_scores=True)
    wq, b, wk, v = (
        w.numpy().astype("float64")
        for w in (
            layer.query_dense.kernel, layer.query_dense.bias, layer.key_dense.kernel, layer.scale
        )
    )  # fmt: skip
    hidden = np.tanh((query @ wq + b)[:, :, None] + (key @ wk)[:, None])
    scores = (hidden @ v)[..., 0]
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(context, expected @ value, atol=1e-6)


def test_additive_with_projected_keys():
    """Projected once, used for many queries."""
    query, value = normal(B, T, 3), normal(B, S, 6)
    layer = AdditiveAttention(7)
    mask = np.arange(S) < [[3], [5]]
    expected = layer(query, value, value_mask=mask)
    projected = layer.project_key(value)
    steps = [
        layer(query[:, t : t + 1], value, projected_key=projected, value_mask=mask)
        for t in range(T)
    ]
    np.testing.assert_allclose(ops.concatenate(steps, axis=1), expected, atol=1e-6)


@pytest.mark.parametrize("cls", [MultiHeadSelfAttention, MultiHeadAttention])
def test_nothing_visible_gives_the_output_bias(cls):
    x = normal(B, T, D)
    layer = cls(2)
    inputs = [x] if cls is MultiHeadSelfAttention else [x, x]
    layer(*inputs)
    set_biases(layer)
    mask = np.ones((B, T, T), bool)
    mask[0, 1] = False
    output, weights = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    np.testing.assert_array_equal(output[0, 1], layer.output_dense.bias)
    assert (weights.numpy()[0, :, 1] == 0).all()
    assert np.abs(output[0, 0] - layer.output_dense.bias).max() > 1e-3


def test_self_attention_is_attention_to_itself():
    """The fused projection and the three of `MultiHeadAttention` are the same function."""
    x = normal(B, T, D)
    fused = MultiHeadSelfAttention(4, key_dim=3, value_dim=5, num_kv_heads=2, output_dim=6)
    other = MultiHeadAttention(4, key_dim=3, value_dim=5, num_kv_heads=2, output_dim=6)
    fused(x)
    set_biases(fused)
    other(x, x)
    kernel, bias = fused.qkv_dense.kernel.numpy(), fused.qkv_dense.bias.numpy()
    for start, stop, dense in [
        (0, 12, other.query_dense), (12, 18, other.key_dense), (18, 28, other.value_dense)
    ]:  # fmt: skip
        dense.set_weights([kernel[:, start:stop], bias[start:stop]])
    other.output_dense.set_weights(fused.output_dense.get_weights())
    np.testing.assert_allclose(
        fused(x, use_causal_mask=True), other(x, x, use_causal_mask=True), atol=1e-6
    )


def test_grouped_heads_repeat_keys_and_values():
    """Two key/value heads are four with each given twice."""
    x, memory = normal(B, T, D), normal(B, S, 6)
    grouped = MultiHeadAttention(4, num_kv_heads=2)
    full = MultiHeadAttention(4)
    grouped(x, memory)
    set_biases(grouped)
    full(x, memory)
    full.query_dense.set_weights(grouped.query_dense.get_weights())
    full.output_dense.set_weights(grouped.output_dense.get_weights())
    for name in ("key_dense", "value_dense"):
        kernel, bias = getattr(grouped, name).get_weights()
        getattr(full, name).set_weights(
            [
                np.repeat(kernel.reshape(6, 2, 2), 2, axis=1).reshape(6, 8),
                np.repeat(bias.reshape(2, 2), 2, axis=0).reshape(8),
            ]
        )
    np.testing.assert_allclose(grouped(x, memory), full(x, memory), atol=1e-6)


@pytest.mark.parametrize("cls", [MultiHeadSelfAttention, MultiHeadAttention])
def test_scale_and_widths(cls):
    """The scale is that of the scores; `1 / sqrt(key_dim)` is that of None."""
    x = normal(B, T, D)
    inputs = [x] if cls is MultiHeadSelfAttention else [x, x]
    layer = cls(2, key_dim=3, value_dim=5, output_dim=6, use_bias=False)
    expected = layer(*inputs, return_attention_scores=True)
    assert expected[0].shape == (B, T, 6)
    assert not any(weight.name == "bias" for weight in layer.weights)
    for scale in (3**-0.5, 0.1):
        other = cls.from_config({**layer.get_config(), "scale": scale})
        other(*inputs)
        other.set_weights(layer.get_weights())
        weights = other(*inputs, return_attention_scores=True)[1]
        assert np.allclose(weights, expected[1], atol=1e-6) == (scale == 3**-0.5)


def test_masks_of_keys_and_values_are_combined():
    query, value, key = normal(B, T, 3), normal(B, S, 6), normal(B, S, 2)
    of_values, of_keys = np.arange(S) < [[3], [5]], np.arange(S) > [[0], [1]]
    for layer in (MultiHeadAttention(1, 4), AdditiveAttention(4)):
        expected = layer(query, value, key, value_mask=of_values & of_keys)
        for call in (
            lambda layer=layer: layer(query, value, key, value_mask=of_values, key_mask=of_keys),
            lambda layer=layer: layer(query, value, masked(key, of_keys), value_mask=of_values),
            lambda layer=layer: layer(query, masked(value, of_values), masked(key, of_keys)),
            lambda layer=layer: layer(query, value, key, key_mask=of_values & of_keys),
        ):
            np.testing.assert_allclose(call(), expected, atol=1e-6)


def test_projected_memory():
    query, memory = normal(B, T, D), normal(B, S, 6)
    layer = MultiHeadAttention(2)
    mask = np.arange(S) < [[3], [5]]
    expected = layer(query, memory, value_mask=mask, return_attention_scores=True)
    projected = layer.project_memory(ops.convert_to_tensor(memory))
    actual = layer.attend_projected(
        ops.convert_to_tensor(query), projected, mask, return_attention_scores=True
    )
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_initial_kernels_differ():
    """No two projections start the same, nor do blocks of a stack."""
    decoder = TransformerDecoder(2, 2, intermediate_dim=12)
    decoder.build((None, None, D), (None, None, D))
    kernels = [w.numpy() for w in decoder.weights if w.name == "kernel"]
    for i, a in enumerate(kernels):
        for b in kernels[:i]:
            assert a.shape != b.shape or np.abs(a - b).max() > 1e-3


def test_any_initializer():
    """Functions too, and constants that are then the same everywhere."""
    block = DecoderBlock(
        2, intermediate_dim=12, kernel_initializer=lambda shape, dtype=None: ops.ones(shape, dtype)
    )
    block(normal(B, T, D), normal(B, S, D))
    assert all((w.numpy() == 1).all() for w in block.weights if w.name == "kernel")


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout"])
def test_dropout_is_of_training_only(rate):
    x = normal(B, T, D)
    encoder = TransformerEncoder(2, 2, intermediate_dim=12, seed=1, **{rate: 0.5})
    a, b = encoder(x, training=True), encoder(x, training=True)
    assert np.abs(a - b).max() > 1e-3
    np.testing.assert_array_equal(encoder(x), encoder(x, training=False))
    again = TransformerEncoder(2, 2, intermediate_dim=12, seed=1, **{rate: 0.5})
    again.build(x.shape)
    again.set_weights(encoder.get_weights())
    np.testing.assert_allclose(again(x, training=True), a, atol=1e-6)
    # The scores are those before dropout.
    _, weights = encoder(x, training=True, return_attention_scores=True)
    np.testing.assert_allclose(weights[0].numpy().sum(-1), np.ones((B, 2, T)), atol=1e-5)


def test_blocks_of_a_seeded_stack_drop_different_units():
    encoder = TransformerEncoder(2, 2, intermediate_dim=12, seed=1, dropout=0.5)
    encoder.build((None, None, D))
    # On PyTorch the second draw of a seed is the first one of the next.
    seeds = [b.dropout_layer.seed for b in encoder.blocks]
    assert abs(seeds[0] - seeds[1]) > 1000


def test_a_block_has_room_for_a_step():
    block = DecoderBlock(2, intermediate_dim=12)
    x = normal(B, T, D)
    block(x)
    _, state = block.prefill(x[:, :-1])
    assert [tensor.shape[2] for tensor in state["cache"]] == [T, T]


def test_a_triangle_is_never_read_as_padding():
    """Of a square shape it would fit as well, and show the future."""
    x, triangle = normal(T, T, D), np.tri(T, dtype=bool)
    encoder = TransformerEncoder(2, 2, intermediate_dim=12)
    expected = encoder(x, use_causal_mask=True)
    advice = r"padding as `padding_mask`.*mask\[None\]`, a triangle as `use_causal_mask=True`"
    with pytest.raises(ValueError, match=advice):
        encoder(x, attention_mask=triangle)
    np.testing.assert_allclose(encoder(x, attention_mask=triangle[None]), expected, atol=1e-6)
    decoder = DecoderBlock(2, intermediate_dim=12)
    for name, padding in (("attention_mask", "padding_mask"), ("cross_attention_mask", "memory")):
        with pytest.raises(ValueError, match=rf"`{name}` must have rank 3 .* as `{padding}"):
            decoder(x, x, **{name: triangle})


@pytest.mark.slow
def test_memory_masks_reach_every_block():
    """The silent bug of stock layers: padding was attended from the second block on."""
    x, memory = normal(B, T, D), normal(B, S, D)
    mask = np.arange(S) < [[3], [4]]
    changed = np.where(mask[..., None], memory, 50.0).astype("float32")
    blocks = [DecoderBlock(2, intermediate_dim=12) for _ in range(3)]

    def run(memory, **kwargs):
        y = x
        for block in blocks:
            y = block(y, memory, **kwargs)
        return y.numpy()

    expected = run(memory, memory_mask=mask)
    np.testing.assert_allclose(run(changed, memory_mask=mask), expected, atol=1e-5)
    implicit = masked(changed, mask)
    np.testing.assert_allclose(run(implicit), expected, atol=1e-5)
    np.testing.assert_array_equal(implicit._keras_mask, mask)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_left_padding(normalize_first):
    """With positions that count tokens, padding on the left changes nothing, step by step too."""
    embed = TokenEmbedding(9, D)
    positions = PositionalEncoding()
    stack = TransformerDecoder(3, 2, intermediate_dim=12, normalize_first=normalize_first)

    def run(ids):
        count = ops.cumsum(ops.cast(ids != 0, "int32"), axis=1)
        return stack(positions(embed(ids), positions=ops.maximum(count - 1, 0))).numpy()

    ids = np.array([[3, 1, 4, 1, 5]])
    expected = run(ids)
    for extra in (1, 3):
        padded = np.pad(ids, [(0, 0), (extra, 0)])
        np.testing.assert_allclose(run(padded)[:, extra:], expected, atol=1e-5)


@pytest.mark.quick("2-True-True")
@pytest.mark.parametrize(
    ("left", "with_memory", "normalize_first"),
    [
        (0, False, True),
        (0, True, False),
        (2, False, False),
        (2, True, True),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [(0, False, False), (0, True, True), (2, False, True), (2, True, False)]
        ),
    ],
)
def test_step_by_step(normalize_first, with_memory, left):
    """The cache gives what the call on the whole does, scores included."""
    x, memory = normal(B, T + left, D), normal(B, S, 6)
    mask = np.ones((B, T + left), bool)
    mask[0, :left] = False
    memory_mask = np.arange(S) < [[3], [5]]
    stack = TransformerDecoder(
        2, 4, intermediate_dim=12, num_kv_heads=2, key_dim=3, normalize_first=normalize_first
    )
    extra = {"memory": memory, "memory_mask": memory_mask} if with_memory else {}
    expected, own, cross = stack(x, padding_mask=mask, return_attention_scores=True, **extra)
    set_biases(stack)
    expected, own, cross = stack(x, padding_mask=mask, return_attention_scores=True, **extra)
    extra = {name: ops.convert_to_tensor(value) for name, value in extra.items()}
    x, P = ops.convert_to_tensor(x), left + 1
    output, state = stack.prefill(x[:, :P], mask[:, :P], max_length=T + left + 2, **extra)
    np.testing.assert_allclose(output[:, -1], expected[:, P - 1], atol=1e-5)
    for t in range(P, T + left):
        output, state, scores = stack.step(x[:, t : t + 1], state, return_attention_scores=True)
        np.testing.assert_allclose(output[:, 0], expected[:, t], atol=1e-5)
        for block in range(2):
            weights = scores["self"][block].numpy()[:, :, 0]
            np.testing.assert_allclose(
                weights[..., : t + 1], own[block][:, :, t, : t + 1], atol=1e-5
            )
            assert (weights[..., t + 1 :] == 0).all()
            if with_memory:
                np.testing.assert_allclose(
                    scores["cross"][block][:, :, 0], cross[block][:, :, t], atol=1e-5
                )
    assert all(tensor.shape[0] == B for tensor in keras.tree.flatten(state))
    rows = stack.reorder(state, ops.array([1, 1]))
    for cache in keras.tree.flatten(rows["cache"]):
        np.testing.assert_array_equal(cache[0], cache[1])


def test_feed_forward_by_formula():
    x = normal(2, 3, 4, 5)
    layer = FeedForward(7, activation="tanh")
    layer(x)
    set_biases(layer)
    w1, b1, w2, b2 = (w.numpy() for w in layer.weights)
    np.testing.assert_allclose(layer(x), np.tanh(x @ w1 + b1) @ w2 + b2, atol=1e-5)
    assert layer(x).shape == (2, 3, 4, 5)
    wrapped = keras.layers.TimeDistributed(layer)
    assert wrapped(keras.Input((3, 4, 5))).shape == (None, 3, 4, 5)


@pytest.mark.slow
def test_masks_reach_losses():
    """A mask of ours is what Keras' own losses count."""
    ids = np.array([[1, 2, 0, 0], [3, 4, 5, 0]])
    model = keras.Sequential(
        [
            TokenEmbedding(9, D),
            PositionalEncoding(),
            TransformerEncoder(1, 2, intermediate_dim=12, normalize_first=True),
            FeedForward(4),
            keras.layers.Dense(1),
        ]
    )
    model.compile(loss="mse", optimizer="sgd", jit_compile=False)
    y = normal(2, 4, 1)
    loss = model.evaluate(ids, y, verbose=0)
    errors = np.square(model(ids).numpy() - y)[..., 0]
    assert loss == pytest.approx(errors[ids != 0].mean(), rel=1e-5)
    model.fit(ids, y, epochs=1, verbose=0)


@pytest.mark.slow
def test_in_tf_function_of_unknown_shapes():
    """One trace for all batches and lengths, masks included."""
    stack = TransformerDecoder(2, 2, intermediate_dim=12)
    x, memory = normal(B, T, D), normal(B, S, D)
    traces = []

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([None, None, D]),
            tf.TensorSpec([None, None, D]),
            tf.TensorSpec([None, None], tf.bool),
        ],
    )
    def run(x, memory, mask):
        traces.append(1)
        return stack(x, memory, memory_mask=mask)

    for b, t, s in [(2, 4, 5), (1, 2, 3), (2, 1, 1)]:
        mask = np.arange(s) < [[max(1, s - 1)]] * b
        expected = stack(x[:b, :t], memory[:b, :s], memory_mask=mask)
        np.testing.assert_allclose(run(x[:b, :t], memory[:b, :s], mask), expected, atol=1e-5)
    assert len(traces) == 1
