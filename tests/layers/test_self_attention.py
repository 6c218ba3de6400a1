"""One head: numbers computed by hand, NumPy in float64, torch, and what joins the three kinds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from harness_case import set_biases

from keras_attn import attention_maps
from keras_attn.layers import MultiHeadSelfAttention, SelfAttention

B, T, D, U = 2, 4, 6, 3
SETTINGS = [
    {"projection": None},
    {"projection": "shared", "units": U, "use_bias": True},
    {"projection": "separate", "units": U, "use_bias": True},
]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def made(x, **settings):
    """A layer with random biases."""
    layer = SelfAttention(**settings)
    layer.build(x.shape)
    set_biases(layer)
    return layer


def run(layer, x, **kwargs):
    """Output and weights of one sequence, without the batch."""
    x = np.array([x], "float32")
    output, weights = layer(x, return_attention_scores=True, **kwargs)
    return output.numpy()[0], weights.numpy()[0]


def test_without_weights_by_hand():
    """x x^T = [[1, 0, 1], [0, 1, 1], [1, 1, 2]]; e / (2 e + 1) = 0.4223188, ..."""
    x = [[1, 0], [0, 1], [1, 1]]
    output, weights = run(SelfAttention(scale=1.0), x)
    expected = [
        [0.4223188, 0.1553624, 0.4223188],
        [0.1553624, 0.4223188, 0.4223188],
        [0.2119416, 0.2119416, 0.5761169],
    ]
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    expected = [[0.8446376, 0.5776812], [0.5776812, 0.8446376], [0.7880584, 0.7880584]]
    np.testing.assert_allclose(output, expected, atol=1e-6)


def test_a_shared_projection_by_hand():
    """x W = [[1, 1], [0, 1]], its products [[2, 1], [1, 1]]; e / (e + 1) = 0.7310586."""
    layer = SelfAttention(projection="shared", scale=1.0)
    layer.build((1, 2, 2))
    layer.set_weights([np.array([[1, 1], [0, 1]])])
    output, weights = run(layer, [[1, 0], [0, 1]])
    np.testing.assert_allclose(weights, [[0.7310586, 0.2689414], [0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(output, [[0.7310586, 1], [0.5, 1]], atol=1e-6)


@pytest.mark.parametrize(
    "scale, kwargs, expected_weights, expected",
    [
        # Products [[0, 2], [2, 0]] by 1 / 2; by 1 / sqrt(2): 1 / (1 + exp(-1.4142136)) = 0.8044297.
        (0.5, {}, [[0.2689414, 0.7310586], [0.7310586, 0.2689414]],
         [[2.4621172, 3.4621172], [1.5378828, 2.5378828]]),
        (None, {}, [[0.1955703, 0.8044297], [0.8044297, 0.1955703]],
         [[2.6088594, 3.6088594], [1.3911406, 2.3911406]]),
        (0.5, {"use_causal_mask": True}, [[1, 0], [0.7310586, 0.2689414]],
         [[1, 2], [1.5378828, 2.5378828]]),
        (0.5, {"mask": [[0, 1]]}, [[0, 1], [0, 1]], [[3, 4], [3, 4]]),
        (0.5, {"attention_mask": [[[1, 0], [0, 0]]]}, [[1, 0], [0, 0]], [[1, 2], [0, 0]]),
    ],
)  # fmt: skip
def test_separate_projections_by_hand(scale, kwargs, expected_weights, expected):
    layer = SelfAttention(projection="separate", scale=scale)
    layer.build((1, 2, 2))
    layer.set_weights(np.array([[[0, 2], [2, 0]], [[1, 0], [0, 1]], [[1, 2], [3, 4]]]))
    assert [w.path.split("/")[-2] for w in layer.weights] == ["query", "key", "value"]
    output, weights = run(layer, [[1, 0], [0, 1]], **kwargs)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-6)
    np.testing.assert_allclose(output, expected, atol=1e-6)


def projected(layer, x):
    """Queries, keys and values by the layer's weights, in float64."""
    x = x.astype("float64")
    weights = [w.numpy().astype("float64") for w in layer.weights]
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    if layer.projection is None:
        return x, x, x
    if layer.projection == "shared":
        ((kernel, bias),) = pairs
        return (x @ kernel + bias,) * 3
    return tuple(x @ kernel + bias for kernel, bias in pairs)


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: str(s["projection"]))
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_by_formula(settings, causal, scale):
    """Token by token, in NumPy; padding, a mask for each query and causality together."""
    x = normal(B, T, D)
    layer = made(x, scale=scale, **settings)
    mask = np.arange(T) < [[3], [4]]
    each = np.random.default_rng(0).random((B, T, T)) > 0.4
    each[1, 2] = False
    output, weights = layer(
        x, attention_mask=each, mask=mask, use_causal_mask=causal, return_attention_scores=True
    )
    query, key, value = projected(layer, x)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    for b in range(B):
        for t in range(T):
            seen = [s for s in range(T) if mask[b, s] and each[b, t, s] and not (causal and s > t)]
            row = np.zeros(T)
            if seen:
                exponentials = np.exp(factor * key[b, seen] @ query[b, t])
                row[seen] = exponentials / exponentials.sum()
            np.testing.assert_allclose(weights[b, t], row, atol=1e-6)
            np.testing.assert_allclose(output[b, t], row @ value[b], atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: str(s["projection"]))
@pytest.mark.parametrize("masks", ["none", "attention", "causal"])
def test_torch(settings, masks):
    """`scaled_dot_product_attention`: outputs, and gradients of the inputs and weights."""
    x = normal(B, T, D)
    layer = made(x, scale=0.4, **settings)
    each = np.random.default_rng(0).random((B, T, T)) > 0.4
    each[..., 0] = True
    kwargs = {"none": {}, "attention": {"attn_mask": torch.tensor(each)}}
    kwargs = kwargs.get(masks, {"is_causal": True})
    theirs = torch.tensor(x, requires_grad=True)
    weights = [torch.tensor(w.numpy(), requires_grad=True) for w in layer.weights]
    parts = [theirs @ w + b for w, b in zip(weights[::2], weights[1::2], strict=True)] or [theirs]
    parts = parts if len(parts) == 3 else parts * 3
    expected = torch.nn.functional.scaled_dot_product_attention(*parts, scale=0.4, **kwargs)
    upstream = normal(*expected.shape, seed=1)
    expected.backward(torch.tensor(upstream))
    ours = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(ours)
        output = layer(
            ours,
            attention_mask=each if masks == "attention" else None,
            use_causal_mask=masks == "causal",
        )
        loss = tf.reduce_sum(output * upstream)
    np.testing.assert_allclose(output, expected.detach(), atol=1e-5)
    gradients = tape.gradient(loss, [ours, *(w.value for w in layer.weights)])
    for gradient, tensor in zip(gradients, [theirs, *weights], strict=True):
        np.testing.assert_allclose(gradient, tensor.grad, atol=1e-5)


def test_each_step_holds_the_one_before():
    """The identity for W is no weights; three times the same W is a shared one."""
    x = normal(B, T, D)
    bare, shared, separate = (SelfAttention(projection=p) for p in (None, "shared", "separate"))
    expected = bare(x).numpy()
    shared(x)
    shared.set_weights([np.eye(D)])
    np.testing.assert_allclose(shared(x), expected, atol=1e-6)
    kernel = normal(D, D, seed=1)
    shared.set_weights([kernel])
    separate(x)
    separate.set_weights([kernel] * 3)
    np.testing.assert_allclose(separate(x), shared(x), atol=1e-6)
    assert np.abs(shared(x) - expected).max() > 1e-2


def test_separate_is_one_head_of_multi_head_self_attention():
    """With the identity for its output projection."""
    x = normal(B, T, D)
    layer = made(x, projection="separate", use_bias=True)
    other = MultiHeadSelfAttention(1)
    other.build(x.shape)
    weights = layer.get_weights()
    fused = [np.concatenate(weights[i::2], axis=-1) for i in (0, 1)]
    other.set_weights([*fused, np.eye(D), np.zeros(D)])
    np.testing.assert_allclose(layer(x), other(x), atol=1e-6)


@pytest.mark.parametrize(
    "settings, count",
    [
        ({}, 0),
        ({"projection": "shared"}, D * D),
        ({"projection": "shared", "units": U, "use_bias": True}, D * U + U),
        ({"projection": "separate", "units": U}, 3 * D * U),
        ({"projection": "separate", "units": U, "use_bias": True}, 3 * D * U + 3 * U),
    ],
)
def test_number_of_weights(settings, count):
    layer = SelfAttention(**settings)
    assert layer(normal(B, T, D)).shape == (B, T, settings.get("units", D))
    assert layer.count_params() == count


def test_projections_start_different():
    layer = SelfAttention(
        projection="separate", kernel_initializer=keras.initializers.GlorotUniform()
    )
    layer.build((None, None, D))
    a, b, c = (w.numpy() for w in layer.weights)
    assert min(np.abs(a - b).max(), np.abs(b - c).max(), np.abs(a - c).max()) > 1e-3


def test_dropout_is_of_training_only():
    x = normal(B, T, D)
    layer = SelfAttention(projection="separate", attention_dropout=0.5, seed=1)
    assert np.abs(layer(x, training=True) - layer(x, training=True)).max() > 1e-3
    np.testing.assert_array_equal(layer(x), layer(x, training=False))
    _, weights = layer(x, training=True, return_attention_scores=True)
    np.testing.assert_allclose(weights.numpy().sum(-1), np.ones((B, T)), atol=1e-5)


def test_one_map_a_call():
    x = keras.Input((None, D))
    model = keras.Model(
        x, SelfAttention(projection="shared", name="second")(SelfAttention(name="first")(x))
    )
    maps = attention_maps(model, normal(B, T, D))
    assert [(key.path, key.role, m.shape) for key, m in maps.items()] == [
        ("first", "self", (B, T, T)),
        ("second", "self", (B, T, T)),
    ]
