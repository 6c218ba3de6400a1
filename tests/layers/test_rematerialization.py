"""Blocks computed again in the backward pass give what blocks that were kept give."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness_case import assert_equal, numpy

from keras_attn import attention_maps
from keras_attn.layers import TransformerDecoder, TransformerEncoder
from keras_attn.layers.rematerialization import rematerialized

B, T, S, D, N, F = 2, 5, 4, 8, 2, 6
NOISE = {"dropout": 0.3, "attention_dropout": 0.2, "seed": 3}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def encoder(rematerialize, **settings):
    stack = TransformerEncoder(2, N, intermediate_dim=F, rematerialize=rematerialize, **settings)
    mask = tf.constant(np.arange(T) < [[3], [T]])
    return stack, lambda x, m, **kwargs: stack(x, padding_mask=mask, **kwargs)


def decoder(rematerialize, **settings):
    stack = TransformerDecoder(
        2,
        N,
        intermediate_dim=F,
        rematerialize=rematerialize,
        normalize_first=True,
        positions="alibi",
        **settings,
    )
    hidden = tf.constant(np.arange(S) < [[S], [2]])
    return stack, lambda x, m, **kwargs: stack(x, m, memory_mask=hidden, **kwargs)


def run(make, rematerialize, compiled=False, training=True, scores=False, steps=2, **settings):
    """Outputs, gradients and seeds of some training calls: each has noise of its own."""
    keras.utils.set_random_seed(1)
    stack, call = make(rematerialize, **settings)
    x, memory = tf.constant(normal(B, T, D)), tf.constant(normal(B, S, D, seed=1))
    kwargs = {"return_attention_scores": True} if scores else {}
    call(x, memory)  # builds it

    def step():
        with tf.GradientTape() as tape:
            tape.watch([x, memory])
            outputs = call(x, memory, training=training, **kwargs)
            weighted = [tf.cast(y, tf.float32) * normal(*y.shape) for y in tf.nest.flatten(outputs)]
            loss = tf.add_n([tf.reduce_sum(y) for y in weighted])
        inputs = [x, memory] if make is decoder else [x]
        return outputs, tape.gradient(loss, [*inputs, *[w.value for w in stack.trainable_weights]])

    step = tf.function(step, jit_compile=compiled == "xla", autograph=False) if compiled else step
    results = [numpy(step()) for _ in range(steps)]
    seeds = [v.numpy() for v in stack.non_trainable_variables]
    return results, seeds, stack


SLOW = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.parametrize("make", [encoder, decoder])
@pytest.mark.parametrize(
    "compiled", [False, pytest.param("graph", marks=SLOW), pytest.param("xla", marks=SLOW)]
)
def test_values_gradients_and_noise(make, compiled):
    results, seeds, _ = run(make, True, compiled, **NOISE)
    expected, expected_seeds, stack = run(make, False, compiled, **NOISE)
    assert_equal(results, expected, atol=1e-5)
    assert_equal(seeds, expected_seeds, atol=0)
    assert len(seeds) == len(stack.blocks) * (2 if make is encoder else 3)
    assert np.abs(results[0][0] - results[1][0]).max() > 1e-2  # other noise in each step
    quiet, _, _ = run(make, True, compiled, steps=1)
    assert np.abs(results[0][0] - quiet[0][0]).max() > 1e-2
    assert all(np.abs(g).max() > 0 for g in results[0][1])


@pytest.mark.slow
@pytest.mark.parametrize("policy, atol", [("mixed_float16", 2e-2), ("mixed_bfloat16", 2e-1)])
def test_half_precision(policy, atol):
    results, _, stack = run(encoder, True, **NOISE, dtype=policy)
    expected, _, _ = run(encoder, False, **NOISE, dtype=policy)
    assert results[0][0].dtype == stack.compute_dtype
    assert {g.dtype for g in results[0][1][1:]} == {np.dtype("float32")}
    floats = tf.nest.map_structure(lambda a: np.asarray(a, "float32"), (results, expected))
    assert_equal(*floats, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("make", [encoder, decoder])
def test_with_scores(make):
    results, _, _ = run(make, True, scores=True, steps=1, **NOISE)
    expected, _, _ = run(make, False, scores=True, steps=1, **NOISE)
    assert_equal(results, expected, atol=1e-5)


@pytest.mark.quick("settings2-1")
@pytest.mark.parametrize(
    "settings, times", [((True, True), 2), ((True, False), 1), ((False, True), 1)]
)
def test_blocks_are_called_again(monkeypatch, settings, times):
    """In training, and only where it is asked for."""
    rematerialize, training = settings
    calls = []
    block = TransformerEncoder._block_class
    part = block._feed_forward
    monkeypatch.setattr(block, "_feed_forward", lambda *args: (calls.append(0), part(*args))[1])
    run(encoder, rematerialize, training=training, steps=1)
    assert len(calls) == 2 * (times + 1)  # once without gradients, to build it


@pytest.mark.slow
def test_frozen_blocks():
    """Gradients flow through, not to, weights that are not trained."""
    stack, call = encoder(True, **NOISE)
    x = tf.constant(normal(B, T, D))
    call(x, None)
    stack.blocks[1].trainable = False
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(call(x, None, training=True) * normal(B, T, D))
    gradients = tape.gradient(loss, [w.value for w in stack.trainable_weights])
    assert len(gradients) == len(stack.blocks[0].weights)
    assert all(np.abs(g).max() > 0 for g in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("make", [encoder, decoder])
def test_maps_are_collected(make):
    """Collecting chooses the plain call."""
    _, call = make(True, **NOISE)
    inputs = normal(B, T, D), normal(B, S, D)
    call(*inputs)
    outputs = []
    maps = attention_maps(lambda x: outputs.append(call(*x, training=True)), inputs)
    assert len(maps) == (2 if make is encoder else 4)
    assert np.isfinite(numpy(outputs[0])).all()


@pytest.mark.slow
def test_fit():
    """A functional model, saved and loaded; `fit` with gradients of some batches added up."""
    x = keras.Input((None, D))
    stack = TransformerEncoder(2, N, intermediate_dim=F, rematerialize=True, **NOISE)
    model = keras.Model(x, keras.layers.Dense(1)(stack(x)))
    model.compile(keras.optimizers.Adam(0.01, gradient_accumulation_steps=2), "mse")
    data = normal(16, T, D)
    history = model.fit(data, data[..., :1], batch_size=4, epochs=8, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]


def test_any_layer_with_noise():
    keras.utils.set_random_seed(1)
    layer = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5, seed=2)])
    layer.build((None, D))
    x = tf.constant(normal(3, D))
    first = rematerialized(layer, x, training=True)
    second = rematerialized(layer, x, training=True)
    state = layer.layers[1].seed_generator.state
    assert state.numpy().tolist() == [2, 2]
    state.assign([2, 0])
    np.testing.assert_array_equal(layer(x, training=True), first)
    np.testing.assert_array_equal(layer(x, training=True), second)
