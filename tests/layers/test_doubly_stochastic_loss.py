"""The doubly stochastic loss: numbers, masks, gradients, what `fit` makes of it, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness_case import masked
from keras import ops

from keras_attn.layers import DoublyStochasticLoss

B, T, S = 3, 4, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, 2)).astype("float32")
WEIGHTS = RNG.dirichlet(np.ones(S), size=(B, T)).astype("float32")
LENGTHS = [4, 2, 0]
TOKENS = np.arange(T) < np.array(LENGTHS)[:, None]


def expected(factor, lengths=LENGTHS, places=S):
    total = 0.0
    for weights, length in zip(WEIGHTS.astype("float64"), lengths, strict=True):
        for s in range(places if length else 0):
            total += (1 - sum(weights[t, s] for t in range(length))) ** 2
    return factor * total / sum(lengths)


def added(*args, **kwargs):
    layer = DoublyStochasticLoss(0.7)
    output = layer(*args, **kwargs)
    np.testing.assert_array_equal(ops.convert_to_numpy(output), X)
    [loss] = layer.losses
    return float(loss)


def test_numbers_and_masks():
    """Padded steps and rows without a token count nothing, however the mask comes."""
    np.testing.assert_allclose(added(X, WEIGHTS), expected(0.7, [T] * B), rtol=1e-6)
    for loss in (
        added(X, WEIGHTS, padding_mask=TOKENS),
        added(X, WEIGHTS, mask=TOKENS),
        added(masked(X, TOKENS), WEIGHTS),
        added(masked(X, ~TOKENS), WEIGHTS, padding_mask=TOKENS),
    ):
        np.testing.assert_allclose(loss, expected(0.7), rtol=1e-6)
    places = np.broadcast_to(np.arange(S) < 3, (B, S))
    loss = added(X, WEIGHTS, padding_mask=TOKENS, memory_mask=places)
    np.testing.assert_allclose(loss, expected(0.7, places=3), rtol=1e-6)
    assert added(X, WEIGHTS, padding_mask=np.zeros((B, T), bool)) == 0


def test_each_place_once_costs_nothing():
    assert added(X, np.broadcast_to(np.eye(S)[:T], (B, T, S))) > 0  # one place is left
    square = np.broadcast_to(np.eye(T), (B, T, T)).astype("float32")
    assert added(X, square) == 0
    assert added(X, square[:, ::-1]) == 0


def test_gradients():
    """By hand: -2 (1 - sum_t w) for each place, over the number of tokens; zero at padding."""
    layer, weights = DoublyStochasticLoss(0.7), tf.constant(WEIGHTS)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        layer(X, weights, padding_mask=TOKENS)
        [loss] = layer.losses
    found = tape.gradient(loss, weights).numpy()
    looked = (WEIGHTS * TOKENS[..., None]).sum(axis=1, keepdims=True)
    wanted = -2 * 0.7 / sum(LENGTHS) * (1 - looked) * TOKENS[..., None]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    nothing = np.zeros((B, T), bool)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        layer(X, weights, padding_mask=nothing)
        [loss] = layer.losses
    assert not tape.gradient(loss, weights).numpy().any()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy):
    layer = DoublyStochasticLoss(0.7, dtype=policy)
    output = layer(X, WEIGHTS, padding_mask=TOKENS)
    assert keras.backend.standardize_dtype(output.dtype) == policy.removeprefix("mixed_")
    [loss] = layer.losses
    assert loss.dtype == "float32"
    np.testing.assert_allclose(float(loss), expected(0.7), rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_fit_trains_with_it(jit_compile):
    """Weights of a softmax, which nothing else asks for anything, come to look everywhere once."""
    ids = keras.Input((T,), dtype="int32")
    embedding = keras.layers.Embedding(T, T)
    weights = keras.layers.Softmax(axis=-1)(embedding(ids))
    model = keras.Model(ids, DoublyStochasticLoss(1.0)(weights, weights))
    embedding.set_weights([RNG.normal(size=(T, T)) + 2 * (np.arange(T) == 0)])
    nothing = keras.losses.MeanSquaredError()
    model.compile(keras.optimizers.Adam(0.1), nothing, jit_compile=jit_compile, loss_weights=[0.0])
    data = np.tile(np.arange(T), (50, 1)), np.zeros((50, T, T))  # one row, many steps
    assert model.evaluate(*data, verbose=0) > 0.3
    losses = model.fit(*data, batch_size=1, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < 0.01
    looked = model(data[0][:1]).numpy().sum(axis=1)
    np.testing.assert_allclose(looked, 1, atol=0.2)


def test_errors():
    for wrong in (-1, True, None, "much"):
        with pytest.raises(ValueError, match=f"`weight`.*{wrong}"):
            DoublyStochasticLoss(wrong)
    layer = DoublyStochasticLoss()
    with pytest.raises(ValueError, match=r"call layer\(x, attention_weights\)"):
        layer(X)
    with pytest.raises(ValueError, match=r"steps as `x`.*\(3, 3, 5\).*\(3, 4, 2\)"):
        layer(X, WEIGHTS[:, :3])
    with pytest.raises(ValueError, match=r"\(B, T, S\).*\(3, 4\)"):
        layer(X, WEIGHTS[:, :, 0])
    with pytest.raises(ValueError, match=r"memory_mask.*\(3, 4\)"):
        layer(X, WEIGHTS, memory_mask=np.ones((B, 4), bool))
