"""Channel and spatial attention: numbers by hand, NumPy in float64, and PyTorch."""

import keras
import numpy as np
import pytest
import torch
from keras import ops

from keras_attn import collect_attention
from keras_attn.layers import CBAM, ChannelAttention, SpatialAttention

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 7, 8)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


def randomize(layer):
    rng = np.random.default_rng(1)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return layer


def set_weights(layer, *weights):
    layer.set_weights([np.array(w) for w in weights])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_squeeze_and_excitation_by_hand():
    layer = ChannelAttention(reduction=2)
    x = np.zeros((1, 1, 2, 2), "float32")
    x[0, 0] = [[1.0, 4.0], [3.0, -2.0]]  # averages 2 and 1
    layer.build(x.shape)
    # hidden = relu(2 * 2 - 1 + 1) = 4
    set_weights(layer, [[2.0], [-1.0]], [1.0], [[0.25, -1.0]], [0.0, 4.0])
    output, gates = layer(x, return_attention_scores=True)
    np.testing.assert_allclose(numpy(gates), [[0.7310586, 0.5]], atol=1e-6)
    np.testing.assert_allclose(
        numpy(output)[0, 0], [[0.7310586, 2.0], [2.1931758, -1.0]], atol=1e-6
    )


def test_a_hidden_unit_can_be_off():
    layer = ChannelAttention(reduction=1, use_bias=False)
    layer.build((1, 1, 1, 1))
    set_weights(layer, [[-1.0]], [[5.0]])
    assert numpy(layer(np.full((1, 1, 1, 1), 6.0)))[0, 0, 0, 0] == 3.0


@pytest.mark.parametrize("pools", [("average",), ("max",), ("average", "max")])
def test_channel_attention_in_numpy(pools):
    layer = ChannelAttention(reduction=3, activation="tanh", pools=pools)
    layer(X)
    w1, b1, w2, b2 = (w.astype("float64") for w in randomize(layer).get_weights())
    assert w1.shape == (8, 2)  # 8 // 3
    x = X.astype("float64")
    pooled = {"average": x.mean((1, 2)), "max": x.max((1, 2))}
    expected = sigmoid(sum(np.tanh(pooled[p] @ w1 + b1) @ w2 + b2 for p in pools))
    output, gates = layer(X, return_attention_scores=True)
    np.testing.assert_allclose(numpy(gates), expected, atol=1e-6)
    np.testing.assert_allclose(numpy(output), x * expected[:, None, None], atol=1e-5)


def test_spatial_attention_by_hand():
    layer = SpatialAttention(kernel_size=3, use_bias=True)
    x = np.zeros((1, 2, 3, 2), "float32")
    x[0, 0, 0] = [1.0, 3.0]  # average 2, maximum 3
    layer.build(x.shape)
    kernel = np.zeros((3, 3, 2, 1), "float32")
    kernel[1, 1, :, 0] = [1.0, -1.0]  # of the place itself: average less maximum
    kernel[1, 0, :, 0] = [0.0, 1.0]  # of its neighbour to the left: maximum
    set_weights(layer, kernel, [1.0])
    _, gates = layer(x, return_attention_scores=True)
    logits = np.array([[2 - 3 + 1, 3 + 1, 1], [1, 1, 1]])
    np.testing.assert_allclose(numpy(gates)[0], sigmoid(logits), atol=1e-6)


def cbam_in_torch(x, weights):
    """Of pictures (B, C, H, W), after the paper; `weights` are those of the layer."""
    w1, b1, w2, b2, kernel = (torch.tensor(w) for w in weights)
    linear = torch.nn.functional.linear

    def network(pooled):
        return linear(linear(pooled, w1.T, b1).relu(), w2.T, b2)

    average = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
    maximum = torch.nn.functional.adaptive_max_pool2d(x, 1).flatten(1)
    what = torch.sigmoid(network(average) + network(maximum))
    x = x * what[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True).values], 1)
    padding = kernel.shape[0] // 2
    where = torch.sigmoid(
        torch.nn.functional.conv2d(maps, kernel.permute(3, 2, 0, 1), padding=padding)
    )
    return x * where, what, where[:, 0]


@pytest.mark.parametrize("kernel_size", [3, 7])
def test_cbam_is_that_of_an_implementation_in_torch(kernel_size):
    layer = CBAM(reduction=4, kernel_size=kernel_size)
    layer(X)
    randomize(layer)
    expected = cbam_in_torch(torch.tensor(X).permute(0, 3, 1, 2), layer.get_weights())
    output, what, where = layer(X, return_attention_scores=True)
    np.testing.assert_allclose(numpy(output), expected[0].permute(0, 2, 3, 1), atol=1e-5)
    np.testing.assert_allclose(numpy(what), expected[1], atol=1e-5)
    np.testing.assert_allclose(numpy(where), expected[2], atol=1e-5)


MAKERS = {
    "channel": lambda **kwargs: ChannelAttention(reduction=2, pools=("average", "max"), **kwargs),
    "spatial": lambda **kwargs: SpatialAttention(kernel_size=3, **kwargs),
    "cbam": lambda **kwargs: CBAM(reduction=4, kernel_size=3, **kwargs),
}


@pytest.mark.parametrize("name", MAKERS)
def test_channels_first(name):
    last, first = MAKERS[name](), MAKERS[name](data_format="channels_first")
    last(X)
    moved = np.moveaxis(X, 3, 1)
    first(moved)
    first.set_weights(randomize(last).get_weights())
    output, *gates = last(X, return_attention_scores=True)
    moved_output, *moved_gates = first(moved, return_attention_scores=True)
    np.testing.assert_allclose(numpy(moved_output), np.moveaxis(numpy(output), 3, 1), atol=1e-6)
    for a, b in zip(moved_gates, gates, strict=True):
        np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-6)
    assert type(first).from_config(first.get_config()).data_format == "channels_first"


def test_data_format_is_that_of_keras():
    keras.config.set_image_data_format("channels_first")
    try:
        layer = CBAM(reduction=2)
    finally:
        keras.config.set_image_data_format("channels_last")
    assert layer.channel_attention.data_format == layer.spatial_attention.data_format
    assert layer.channel_attention.data_format == "channels_first"


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("name", MAKERS)
def test_symbolic_gates_and_what_stays_as_it_was(name, policy):
    layer = MAKERS[name](dtype=policy)
    before = X.copy()
    eager = layer(X, return_attention_scores=True)
    symbols = MAKERS[name](dtype=policy)(keras.Input((None, None, 8)), return_attention_scores=True)
    assert len(symbols) == len(eager)
    for symbol, value in zip(symbols, eager, strict=True):
        assert symbol.dtype == keras.backend.standardize_dtype(value.dtype)
        assert len(symbol.shape) == len(value.shape)
        assert all(a in (None, b) for a, b in zip(symbol.shape, value.shape, strict=True))
    np.testing.assert_array_equal(X, before)
    with collect_attention() as maps:
        alone = layer(X)
    assert len(maps) == 0
    np.testing.assert_array_equal(numpy(alone), numpy(eager[0]))


def test_sums_over_a_picture_do_not_overflow_in_float16():
    layer = ChannelAttention(reduction=1, dtype="float16")
    layer.build((1, 64, 64, 1))
    set_weights(layer, [[0.01]], [0.0], [[1.0]], [0.0])
    x = np.full((1, 64, 64, 1), 200.0, "float16")  # their sum is 819200
    _, gates = layer(x, return_attention_scores=True)
    np.testing.assert_allclose(numpy(gates), [[sigmoid(2.0)]], atol=1e-3)


def test_keras_warns_of_masks():
    x = keras.layers.Masking()(np.ones((1, 2, 2, 2), "float32"))
    with pytest.warns(UserWarning, match="does not support masking"):
        ChannelAttention(reduction=1)(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ChannelAttention(reduction=0), "`reduction` of ChannelAttention.*positive.*0"),
        (lambda: ChannelAttention(pools=()), r"`pools` of ChannelAttention.*\(\)"),
        (lambda: ChannelAttention(pools="max"), "`pools`.*'max'"),
        (lambda: ChannelAttention(pools=("max", "max")), "`pools`.*'max', 'max'"),
        (lambda: ChannelAttention(pools=("mean",)), "`pools`.*'mean'"),
        (lambda: SpatialAttention(kernel_size=4), "odd.*4"),
        (lambda: SpatialAttention(kernel_size=7.0), r"`kernel_size` of SpatialAttention.*7\.0"),
        (lambda: CBAM(data_format="last"), "`data_format` of CBAM.*channels_first.*'last'"),
        (lambda: CBAM(kernel_size=2), "odd.*2"),
        (lambda: ChannelAttention()(X), "`reduction`.*at most.*reduction=16, 8 channels"),
        (lambda: CBAM()(keras.Input((4, 4, 8))), "reduction=16, 8 channels"),
        (lambda: SpatialAttention()(X[0]), r"\(B, H, W, C\).*\(5, 7, 8\)"),
        (
            lambda: SpatialAttention(data_format="channels_first")(keras.Input((None, 4, 8))),
            r"\(B, C, H, W\).*channels_first.*\(None, None, 4, 8\)",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_another_number_of_channels():
    layer = ChannelAttention(reduction=2)
    layer(X)
    with pytest.raises(ValueError, match="expected axis"):
        layer(X[..., :4])
