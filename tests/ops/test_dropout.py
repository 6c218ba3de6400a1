"""Masks of dropout: as many as asked for, independent; values and gradients."""

from pathlib import Path

import dropout_script
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from processes import answer

from keras_attn.layers import Dropout
from keras_attn.ops import dropout


def check(deviations, repeats):
    """Of 320 numbers one beyond 5 would be found once in five thousand times."""
    values = np.array(list(deviations.values()))
    assert len(values) == 320
    assert np.abs(values).max() < 5, max(deviations.items(), key=lambda item: abs(item[1]))
    assert 0.8 < values.std() < 1.2
    assert repeats["integer"] and repeats["generator"]
    np.testing.assert_allclose(repeats["odd"][:2], 0.8, atol=0.05)


@pytest.mark.slow
def test_masks():
    check(dropout_script.deviations(), dropout_script.repeats())


@pytest.mark.slow
def test_masks_of_jax():
    check(**answer("jax", Path(dropout_script.__file__)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_values_and_gradients(dtype, jit_compile):
    """Kept units are scaled, in both directions; what was dropped is forgotten, NaN too."""

    @tf.function(
        jit_compile=jit_compile,
        input_signature=[tf.TensorSpec((None, None), dtype)],
        autograph=False,
    )
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = dropout(x, 0.25, seed=3)
        return y, tape.gradient(y, x)

    x = tf.cast(np.random.default_rng(0).normal(size=(31, 17)) + 9, dtype)
    y, gradient = both(x)
    assert y.dtype == gradient.dtype == dtype
    x, y, gradient = (np.array(ops.cast(t, "float64")) for t in (x, y, gradient))
    kept = y != 0
    tolerance = {"float32": 1e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(y[kept], x[kept] / 0.75, rtol=tolerance)
    np.testing.assert_allclose(gradient, kept / 0.75, rtol=tolerance)
    x[~kept] = np.nan
    y, gradient = both(tf.cast(x, dtype))
    assert np.isfinite(np.array(ops.cast(y, "float32"))).all()
    np.testing.assert_array_equal(np.array(ops.cast(gradient, "float32")) != 0, kept)


def test_rates():
    x = ops.ones((10,))
    np.testing.assert_array_equal(dropout(x, 0.0, seed=1), 1)
    np.testing.assert_array_equal(dropout(x, 1e-6, seed=1), 1)  # rounded to 2^-16
    assert set(np.unique(dropout(ops.ones((1000,)), 0.999999, seed=1))) <= {0, 65536}
    assert tuple(dropout(ops.ones((0, 4)), 0.5, seed=1).shape) == (0, 4)
    for rate in (1.0, -0.1):
        with pytest.raises(ValueError, match=f"Received: {rate}"):
            dropout(x, rate, seed=1)


def test_layer():
    """Other units each time; the same again from the same config."""
    layer = Dropout(0.5, seed=1)
    x = ops.ones((200,))
    np.testing.assert_array_equal(layer(x), x)
    a, b = (np.array(layer(x, training=True)) for _ in range(2))
    assert set(a) == {0, 2} and (a != b).any()
    again = Dropout.from_config(layer.get_config())
    np.testing.assert_array_equal(again(x, training=True), a)
    with pytest.raises(ValueError, match="rate"):
        Dropout(1.0)


def test_layer_in_fit(monkeypatch):
    """Other units at each step of `fit`; none in `predict`."""
    seen = []

    def keeping(*args):
        y = dropout(*args)
        tf.py_function(lambda y: seen.append(y.numpy()), [y], [])
        return y

    monkeypatch.setattr("keras_attn.layers.dropout.dropout", keeping)
    inputs = keras.Input((50,))
    dense = keras.layers.Dense(1)
    model = keras.Model(inputs, dense(Dropout(0.5)(inputs)))
    model.compile("sgd", "mse", jit_compile=False)
    x = np.ones((8, 50), "float32")
    model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0)
    assert len(seen) == 4
    assert len({mask.tobytes() for mask in seen}) == 4
    assert all(set(np.unique(mask)) == {0, 2} for mask in seen)
    np.testing.assert_allclose(model.predict(x, verbose=0), dense(x), atol=1e-6)
