"""The loss of a large vocabulary in chunks, against PyTorch in float64 and against whole logits."""

import itertools
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
from keras import ops
from processes import answer

from keras_attn.batches import TokenBatches
from keras_attn.layers import TokenEmbedding
from keras_attn.metrics import Perplexity
from keras_attn.models import TransformerEncoderDecoderConfig
from keras_attn.training import ChunkedLossModel, MaskedCrossEntropy, linear_cross_entropy

N, D, V = 37, 6, 50


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    hidden, kernel, bias = (rng.normal(size=s).astype("float32") for s in ((N, D), (V, D), (V,)))
    weights = (rng.random(N) > 0.3) * rng.random(N).astype("float32")
    return hidden, kernel, bias, rng.integers(0, V, N), weights.astype("float32")


def reference(hidden, kernel, bias, labels, weights, smoothing):
    """The loss and its gradients, by PyTorch in float64."""
    h, k, b = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in arrays()[:3])
    losses = torch.nn.functional.cross_entropy(
        h @ k.T + (0 if bias is None else b),
        torch.tensor(labels),
        reduction="none",
        label_smoothing=smoothing,
    )
    weights = torch.tensor(weights, dtype=torch.float64)
    loss = (losses * weights).sum() / weights.sum()
    loss.backward()
    grads = [h.grad, k.grad] if bias is None else [h.grad, k.grad, b.grad]
    return loss.item(), [g.numpy() for g in grads]


def cases():
    """Nearly all eagerly; compiled with all that there is, and without in chunks with a rest."""
    for smoothing, with_bias in itertools.product((0.0, 0.1), (False, True)):
        for chunk in (1, 8, 37, 1000, None):
            # Hundreds of chunks take long; they differ from some in their number alone.
            quick = chunk != 1 or (with_bias and smoothing)
            marks = () if quick else pytest.mark.slow
            yield pytest.param(chunk, "eager", smoothing, with_bias, marks=marks)
        for chunk, mode in itertools.product((8, 37, None), ("graph", "xla")):
            quick = with_bias and smoothing and (chunk != 37 or mode == "xla")
            quick = quick or (chunk == 8 and not with_bias and not smoothing)
            marks = () if quick else pytest.mark.slow
            yield pytest.param(chunk, mode, smoothing, with_bias, marks=marks)


@pytest.mark.quick(
    slow=[
        "8-graph-0.0-False",
        "8-xla-0.0-False",
        "1-eager-0.1-True",
        "8-graph-0.1-True",
        "8-xla-0.1-True",
        "37-xla-0.1-True",
        "None-graph-0.1-True",
        "None-xla-0.1-True",
    ]
)
@pytest.mark.parametrize(("chunk", "mode", "smoothing", "with_bias"), list(cases()))
def test_value_and_gradients(chunk, smoothing, with_bias, mode):
    hidden, kernel, bias, labels, weights = arrays()
    bias = bias if with_bias else None
    given = [hidden, kernel] + ([bias] if with_bias else [])

    def run(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            loss = linear_cross_entropy(
                *given[:2],
                ops.convert_to_tensor(labels),
                ops.convert_to_tensor(weights),
                smoothing,
                given[2] if with_bias else None,
                chunk,
            )
        return loss, tape.gradient(loss, given)

    if mode == "graph":  # of a number of tokens that is not known
        shapes = [[None, D], [V, D], [V]][: len(given)]
        run = tf.function(run, input_signature=[tf.TensorSpec(s) for s in shapes], autograph=False)
    elif mode == "xla":
        run = tf.function(run, jit_compile=True, autograph=False)
    loss, gradients = run(*map(tf.constant, given))
    expected, wanted = reference(hidden, kernel, bias, labels, weights, smoothing)
    assert float(loss) == pytest.approx(expected, abs=2e-6)
    for actual, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(actual, other, atol=1e-6)
    alone = linear_cross_entropy(
        *map(ops.convert_to_tensor, (hidden, kernel, labels, weights)),
        smoothing,
        bias,
        chunk,
        gradient=False,
    )
    assert float(alone) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    """Products in half, sums in float32; the kernel's gradient stays a float32 one."""
    hidden, kernel, _, labels, weights = arrays()
    kernel = tf.constant(kernel)
    with tf.GradientTape() as tape:
        h = tf.cast(hidden, dtype)
        tape.watch([h, kernel])
        loss = linear_cross_entropy(h, kernel, labels, weights, 0.1, chunk_size=8)
    of_hidden, of_kernel = tape.gradient(loss, [h, kernel])
    expected, wanted = reference(hidden, kernel, None, labels, weights, 0.1)
    assert loss.dtype == "float32" and of_kernel.dtype == "float32" and of_hidden.dtype == dtype
    assert float(loss) == pytest.approx(expected, rel=0.01)
    np.testing.assert_allclose(tf.cast(of_hidden, "float32"), wanted[0], atol=2e-3)
    np.testing.assert_allclose(of_kernel, wanted[1], atol=2e-3)


@pytest.mark.slow
def test_float16_keeps_small_gradients():
    """Of many tokens each has a small weight, and most words a small probability."""
    rng = np.random.default_rng(0)
    hidden, kernel = rng.normal(size=(2000, 8)), 0.1 * rng.normal(size=(4000, 8))
    labels, weights = rng.integers(0, 50, 2000), np.ones(2000, "float32")
    found = {}
    for dtype in ("float32", "float16"):
        h, k = tf.constant(hidden, dtype), tf.constant(kernel, "float32")
        with tf.GradientTape() as tape:
            tape.watch([h, k])
            loss = 2.0**15 * linear_cross_entropy(h, k, labels, weights, chunk_size=500)
        found[dtype] = [np.array(tf.cast(g, "float32")) for g in tape.gradient(loss, [h, k])]
    for half, whole in zip(found["float16"], found["float32"], strict=True):
        for part in (slice(None), slice(50, 2000)):  # these words are no labels
            error = np.linalg.norm(half[part] - whole[part]) / np.linalg.norm(whole[part])
            assert error < 0.01


def test_labels_outside_and_no_weight():
    hidden, kernel, _, labels, weights = arrays()
    labels[3] = V
    for weight, isnan in ((1.0, True), (0.0, False)):
        weights[3] = weight
        loss = linear_cross_entropy(hidden, kernel, labels, weights)
        assert np.isnan(float(loss)) == isnan
    assert float(linear_cross_entropy(hidden, kernel, labels, weights * 0)) == 0
    with pytest.raises(ValueError, match=r"chunk_size.*Received: 0"):
        linear_cross_entropy(hidden, kernel, labels, weights, chunk_size=0)


def test_gradients_of_gradients_are_an_error():
    """The gradient is computed with the loss, and TensorFlow knows nothing of how."""
    hidden, kernel, _, labels, weights = arrays()
    hidden = tf.constant(hidden)
    with tf.GradientTape() as outer:
        outer.watch(hidden)
        with tf.GradientTape() as inner:
            inner.watch(hidden)
            loss = linear_cross_entropy(hidden, kernel, labels, weights, chunk_size=8)
        first = inner.gradient(loss, hidden)
    with pytest.raises(NotImplementedError, match="first derivatives only on this backend"):
        outer.gradient(first, hidden)


def batches(seed=0):
    rng = np.random.default_rng(seed)
    sides = [[rng.integers(3, 40, n).tolist() for n in rng.integers(2, 9, 24)] for _ in range(2)]
    return TokenBatches(*sides, start_id=1, end_id=2, tokens_per_batch=96, max_shapes=1)


def tied(dtype=None):
    config = TransformerEncoderDecoderConfig(
        40, dim=16, num_layers=1, num_heads=2, intermediate_dim=16, dropout=0.0
    )
    return config.build(dtype=dtype)


def shared():
    """One embedding at both ends, without a Transformer between them."""
    inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in ("source_ids", "target_ids")}
    embedding = TokenEmbedding(40, 16)
    x = keras.layers.Dense(16, activation="tanh")(embedding(inputs["target_ids"]))
    return keras.Model(inputs, embedding(x, reverse=True))


def with_dense(**dense):
    """A model of the same inputs, which does not look at the sources."""
    inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in ("source_ids", "target_ids")}
    x = TokenEmbedding(40, 16)(inputs["target_ids"])
    x = keras.layers.Dense(16, **dense)(x)
    return keras.Model(inputs, keras.layers.Dense(40)(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "chunks"),
    [
        (shared, [5]),
        (with_dense, [None]),
        pytest.param(with_dense, [5], marks=pytest.mark.slow),
        pytest.param(tied, [5, None], marks=pytest.mark.slow),
    ],
)
def test_training_equals_that_of_whole_logits(make, chunks):
    """The same losses, and the same weights after some steps."""
    keras.utils.set_random_seed(1)
    plain = make()
    begun = plain.get_weights()

    def trained(model, **how):
        loss = MaskedCrossEntropy(label_smoothing=0.1)
        model.compile(keras.optimizers.SGD(0.1), loss, **how)
        history = model.fit(batches(), epochs=2, verbose=0, shuffle=False).history["loss"]
        return history, model.evaluate(batches(), verbose=0)

    losses, loss = trained(plain, run_eagerly=True)
    for chunk in chunks:
        other = make()
        other.set_weights(begun)
        chunked = ChunkedLossModel(other, chunk_size=chunk)
        found, after = trained(chunked, jit_compile=False)
        np.testing.assert_allclose(losses, found, atol=1e-5)
        for w, v in zip(plain.weights, other.weights, strict=True):
            np.testing.assert_allclose(w, v, atol=1e-5)
        assert loss == pytest.approx(after, abs=1e-5)
        assert len(chunked.trainable_variables) == len(other.trainable_variables)


@pytest.mark.slow
def test_xla_and_half_precision():
    ids = keras.Input((8,), dtype="int32")
    model = keras.Model(
        ids,
        keras.layers.Dense(40, dtype="mixed_bfloat16")(
            TokenEmbedding(40, 16, dtype="mixed_bfloat16")(ids)
        ),
    )
    chunked = ChunkedLossModel(model)
    chunked.compile("adam", MaskedCrossEntropy(), jit_compile=True)
    x = np.random.default_rng(0).integers(1, 40, (16, 8))
    history = chunked.fit(x, x, batch_size=8, epochs=3, verbose=0).history["loss"]
    assert np.isfinite(history).all() and history[2] < history[0]


@pytest.mark.slow
def test_other_losses_are_added():
    model = with_dense(kernel_regularizer=keras.regularizers.L2(3.0))
    chunked = ChunkedLossModel(model)
    for m in (model, chunked):
        m.compile("sgd", MaskedCrossEntropy(), jit_compile=False)
    a, b = (m.evaluate(batches(), verbose=0) for m in (model, chunked))
    assert a == pytest.approx(b, rel=1e-5)
    assert a > 5  # ln 40 and the penalty


@pytest.mark.slow
def test_saved_and_loaded(tmp_path):
    chunked = ChunkedLossModel(shared(), chunk_size=7)
    chunked.compile("adam", MaskedCrossEntropy(), jit_compile=False)
    chunked.optimizer.build(chunked.trainable_variables)
    chunked.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    assert loaded.chunk_size == 7
    a, b = (m.evaluate(batches(), verbose=0) for m in (chunked, loaded))
    assert a == pytest.approx(b, abs=1e-6)


def test_what_cannot_be_chunked():
    ids = keras.Input((None,), dtype="int32")
    x = TokenEmbedding(40, 16)(ids)
    activated = keras.Model(ids, keras.layers.Dense(40, activation="softmax")(x))
    penalty = keras.regularizers.L2(0.1)
    penalized = keras.Model(ids, keras.layers.Dense(40, activity_regularizer=penalty)(x))
    for model, error, message in [
        (activated, ValueError, "Received: Dense"),
        (penalized, ValueError, "activity regularizer. Received: Dense"),
        (keras.Model(ids, x), ValueError, "Received: TokenEmbedding"),
        (keras.Model(ids, [x, x]), ValueError, "one output.*Received: 2"),
        (keras.layers.Dense(3), TypeError, "functional keras.Model.*Received: Dense"),
    ]:
        with pytest.raises(error, match=message):
            ChunkedLossModel(model)
    with pytest.raises(ValueError, match=r"chunk_size.*Received: -1"):
        ChunkedLossModel(shared(), chunk_size=-1)
    chunked = ChunkedLossModel(shared())
    chunked.compile("adam", "mse", jit_compile=False)
    with pytest.raises(ValueError, match=r"MaskedCrossEntropy.*loss='mse'"):
        chunked.fit(batches(), verbose=0)
    chunked.compile("adam", MaskedCrossEntropy(), metrics=[Perplexity()], jit_compile=False)
    with pytest.raises(ValueError, match="does not support metrics"):
        chunked.fit(batches(), verbose=0)
    weighted = ChunkedLossModel(shared())
    weighted.compile("adam", MaskedCrossEntropy(), loss_weights=[3.0], jit_compile=False)
    with pytest.raises(ValueError, match=r"does not support loss_weights.*\[3\.0\]"):
        weighted.fit(batches(), verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_other_backends(backend, tmp_path):
    names = ("hidden", "kernel", "bias", "labels", "weights")
    given = dict(zip(names, arrays(), strict=True))
    ids = np.random.default_rng(0).integers(1, 40, (8, 5)).astype("int32")
    np.savez(tmp_path / "given.npz", ids=ids, **given)
    script = Path(__file__).parent / "chunked_loss_script.py"
    found = answer(backend, script, tmp_path / "given.npz", tmp_path / "found.npz")
    expected, wanted = reference(*given.values(), 0.1)
    assert found["value"] == pytest.approx(expected, abs=2e-6)
    with np.load(tmp_path / "found.npz") as gradients:
        for actual, other in zip(gradients.values(), wanted, strict=True):
            np.testing.assert_allclose(actual, other, atol=1e-6)
    if backend == "jax":
        h = torch.tensor(given["hidden"], dtype=torch.float64, requires_grad=True)
        losses = torch.nn.functional.cross_entropy(
            h @ torch.tensor(given["kernel"], dtype=torch.float64).T,
            torch.tensor(given["labels"]),
            reduction="none",
            label_smoothing=0.1,
        )
        weights = torch.tensor(given["weights"] / given["weights"].sum(), dtype=torch.float64)
        (first,) = torch.autograd.grad((losses * weights).sum(), h, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), h)
        np.testing.assert_allclose(found["second"], second, atol=1e-7)
    else:
        assert "first derivatives only" in found["second"]
    plain, chunked = found["losses"]
    assert chunked == pytest.approx(plain, abs=1e-5)
    assert chunked[2] < chunked[0]
