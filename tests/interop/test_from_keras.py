"""Layers and models of Keras and KerasHub become ours, with equal outputs and gradients."""

import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from from_keras_cases import CASES, X, Y, check_layer, check_model, heads, hub
from keras import layers

from keras_attn import from_keras


@pytest.mark.quick(slow=["grouped"])
@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_equal(name):
    check_layer(name)


@pytest.mark.slow
def test_a_model_is_equal_and_trains_alike():
    check_model()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_equal_on(backend):
    script = Path(__file__).with_name("from_keras_cases.py")
    env = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert f"equal on {backend}" in done.stdout, done.stderr[-3000:]


class Own(layers.MultiHeadAttention):
    """May compute anything."""


def built(layer, *inputs):
    layer(*inputs)
    return layer


REFUSED = [
    (lambda: heads(), ValueError, "not built. Call it once"),
    (lambda: built(Own(2, 4), X, X), TypeError, "not subclasses"),
    (lambda: built(layers.Dense(2), X), TypeError, "keras_hub's TransformerDecoder"),
    (lambda: built(heads(attention_axes=2), X[None], X[None]), ValueError, "attention_axes="),
    (lambda: built(heads(output_shape=(2, 3)), X, X), ValueError, "output_shape="),
    (lambda: built(heads(use_gate=True), X, X), ValueError, "use_gate=True"),
    (lambda: built(heads(sliding_window=2), X, X), ValueError, "sliding_window=2"),
    (lambda: built(heads(activity_regularizer="l2"), X, X), ValueError, "activity_regularizer="),
    (lambda: built(heads(kernel_constraint="max_norm"), X, X), ValueError, "=MaxNorm"),
    (lambda: built(layers.Attention(score_mode="concat"), [X, X]), ValueError, "score_mode="),
    (lambda: built(layers.AdditiveAttention(use_scale=False), [X, X]), ValueError, "use_scale="),
    (lambda: keras.Sequential([keras.Input((3,)), layers.Dense(2)]), ValueError, "no layer to"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_what_would_compute_something_else_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        from_keras(make())


def test_partly_frozen_and_adapted_layers_are_refused():
    layer = built(heads(), X, X)
    layer.query_dense.trainable = False
    with pytest.raises(ValueError, match="some sublayers frozen"):
        from_keras(layer)
    layer = built(heads(), X, X)
    layer.query_dense.enable_lora(2)
    with pytest.raises(ValueError, match="LoRA or quantized"):
        from_keras(layer)


def test_calls_in_a_model_that_would_differ_are_refused():
    x, y = keras.Input((5, 8)), keras.Input((7, 6))
    model = keras.Model([x, y], heads()(x, y, use_causal_mask=True))
    with pytest.raises(ValueError, match="use_causal_mask=True and 5 queries for 7 keys"):
        from_keras(model)
    model = keras.Model([x, y], layers.Attention()([x, x], use_causal_mask=True))
    with pytest.raises(ValueError, match="Give LuongAttention an `attention_mask`"):
        from_keras(model)


def masked_model():
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = layers.Embedding(20, 8, mask_zero=True)(ids)
    for _ in range(2):
        x = layers.Add()([x, heads()(x, x)])
    return keras.Model(ids, layers.GlobalAveragePooling1D()(x))


@pytest.mark.slow
def test_masks_that_keras_clears():
    """Keras attends to the padding in the second block; ours does not, and says so."""
    model = masked_model()
    with pytest.raises(ValueError, match="clears the masks of its inputs"):
        from_keras(model)
    ours = from_keras(model, padding=False)
    ids = np.array([[3, 4, 5, 0, 0], [6, 7, 8, 9, 1]])
    np.testing.assert_allclose(ours(ids)[:1], ours(ids[:1, :3]), atol=1e-5)
    assert np.abs(model(ids)[:1] - model(ids[:1, :3])).max() > 1e-3
    np.testing.assert_allclose(ours(ids[1:]), model(ids[1:]), atol=1e-5)
    assert from_keras(model, ids[1:]).name == model.name  # given inputs, without padding
    with pytest.raises(ValueError, match="differ by"):
        from_keras(model, ids)


def test_a_sequential_model():
    model = keras.Sequential(
        [keras.Input((5,), dtype="int32"), layers.Embedding(9, 8), hub("TransformerEncoder")]
    )
    ours = from_keras(model)
    ids = np.array([[1, 2, 3, 4, 5]])
    np.testing.assert_allclose(ours(ids), model(ids), atol=1e-5)
    with pytest.raises(ValueError, match="are only used with models"):
        from_keras(built(heads(), X, Y), X)
