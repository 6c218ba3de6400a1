"""The recurrent encoder: masks of every shape, against Keras and NumPy."""

import keras
import numpy as np
import pytest
from keras import ops
from recurrent_references import gru, lstm

from keras_attn.layers import RecurrentEncoder
from keras_attn.ops import summarize

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 6, 3)).astype("float32")
MASK = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 1], [0] * 6, [1] * 6], bool)


def values(layer):
    return [ops.convert_to_numpy(w).astype("float64") for w in layer.weights]


def run(cell, x, weights, units):
    """One direction over the tokens of one row."""
    state = np.zeros(units) if cell == "gru" else (np.zeros(units), np.zeros(units))
    outputs = []
    for token in x:
        state = gru(token, state, *weights) if cell == "gru" else lstm(token, state, *weights)
        outputs.append(state if cell == "gru" else state[0])
    return np.array(outputs)


@pytest.mark.quick("lstm")
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_two_layers_of_two_directions(cell):
    """Padding on the right, on the left and between, an empty row: only tokens are read."""
    encoder = RecurrentEncoder(4, num_layers=2, cell=cell)
    encoder(X)
    for weight in encoder.weights:
        if "float" in weight.dtype:
            weight.assign(RNG.normal(size=weight.shape) * 0.7)
    output = ops.convert_to_numpy(encoder(X, padding_mask=MASK))
    for b in range(len(X)):
        x = X[b][MASK[b]].astype("float64")
        for forward, backward in zip(encoder.forward_layers, encoder.backward_layers, strict=True):
            if len(x):
                there = run(cell, x, values(forward), 4)
                back = run(cell, x[::-1], values(backward), 4)[::-1]
                x = np.concatenate([there, back], axis=1)
        if len(x):
            np.testing.assert_allclose(output[b][MASK[b]], x, atol=1e-5)
        assert not output[b][~MASK[b]].any()


def test_its_ends_are_the_final_states_of_keras():
    """Those that Bidirectional returns, with a mask on the right."""
    encoder = RecurrentEncoder(4)
    encoder(X)
    keras_layer = keras.layers.Bidirectional(
        keras.layers.GRU(4, return_sequences=True, return_state=True, use_cudnn=False)
    )
    keras_layer.build(X.shape)
    keras_layer.forward_layer.set_weights(encoder.forward_layers[0].get_weights())
    keras_layer.backward_layer.set_weights(encoder.backward_layers[0].get_weights())
    mask = np.arange(6) < np.array([[4], [6], [1], [5]])
    output = encoder(X, padding_mask=mask)
    wanted, forward, backward = keras_layer(X, mask=ops.convert_to_tensor(mask))
    output, wanted = ops.convert_to_numpy(output), ops.convert_to_numpy(wanted)
    np.testing.assert_allclose(output[mask], wanted[mask], atol=1e-6)
    ends = summarize(ops.convert_to_tensor(output), ops.convert_to_tensor(mask), "ends")
    expected = np.concatenate([forward, backward], axis=1)
    np.testing.assert_allclose(ops.convert_to_numpy(ends), expected, atol=1e-6)


def test_no_mask_reaches_the_recurrent_layers():
    """With a mask, Keras leaves cuDNN where it is not right-padded."""
    seen = []

    class Spy(keras.layers.GRU):
        def call(self, sequences, initial_state=None, mask=None, training=False):
            seen.append(mask)
            return super().call(sequences, initial_state, mask, training)

    encoder = RecurrentEncoder(4, num_layers=2, dropout=0.1)
    encoder.build(X.shape)
    for name in ("forward_layers", "backward_layers"):
        layers = getattr(encoder, name)
        for i, layer in enumerate(layers):
            spy = Spy.from_config(layer.get_config())
            spy.build((None, None, 3 if i == 0 else 8))
            layers[i] = spy
    x = keras.layers.Masking()(np.where(MASK[..., None], X, 0))
    output = encoder(x, training=True)
    assert seen == [None] * 4
    np.testing.assert_array_equal(ops.convert_to_numpy(output._keras_mask), MASK)


@pytest.mark.slow
def test_dropout_is_between_the_layers_only():
    one = RecurrentEncoder(4, dropout=0.5)
    np.testing.assert_array_equal(one(X, training=True), one(X))
    two = RecurrentEncoder(4, num_layers=2, dropout=0.5)
    assert np.abs(two(X, training=True) - two(X)).max() > 1e-3


def test_errors():
    for settings, message in [
        ({"units": 0}, "positive integer"),
        ({"num_layers": 0}, "positive integer"),
        ({"cell": "rnn"}, r"'gru', 'lstm'.*'rnn'"),
        ({"dropout": 1.0}, r"\[0, 1\)"),
        ({"recurrent_dropout": -0.1}, r"\[0, 1\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            RecurrentEncoder(**{"units": 4, **settings})
    with pytest.raises(ValueError, match=r"shape \(B, S, D\)"):
        RecurrentEncoder(4).call(X[0])


@pytest.mark.parametrize("kind", ["mean", "last", "ends"])
def test_symbolic_summaries(kind):
    """`==` of Keras' symbolic tensors asks whether they are one object."""
    x, mask = keras.Input((6, 3)), keras.Input((6,), dtype="bool")
    found = keras.Model([x, mask], summarize(x, mask, kind))([X, MASK])
    expected = summarize(ops.convert_to_tensor(X), ops.convert_to_tensor(MASK), kind)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-6)
