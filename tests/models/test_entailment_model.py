"""Word-by-word attention and the models of entailment against the equations of the paper."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import attention_maps
from keras_attn.layers import WordByWordAttention
from keras_attn.models import PAIR_CLASSIFIERS, EntailmentConfig

ATTENTIONS = ("none", "last", "word_by_word", "matching")
PREMISES = [[3, 1, 4, 1, 5, 9], [2, 6], [8, 1, 8]]
HYPOTHESES = [[5, 3], [5, 8, 9, 7], [1, 8, 2]]


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def word_by_word(weights, h, y):
    """Equations 11 to 13 of the paper for one pair, a word and a premise word at a time."""
    of_value, of_query, of_state, carry, scale = weights
    r, found, alphas = np.zeros(y.shape[1]), [], []
    for t in range(len(h)):
        scores = np.zeros(len(y))
        for s in range(len(y)):
            m = np.tanh(y[s] @ of_value + h[t] @ of_query + r @ of_state)
            scores[s] = m @ scale
        alpha = softmax(scores)
        r = sum(a * row for a, row in zip(alpha, y, strict=True)) + np.tanh(r @ carry)
        found.append(r)
        alphas.append(alpha)
    return np.array(found), np.array(alphas)


def weights_of(layer):
    """Matrices of the layer as float64, those of the paper in the order of its equations."""
    denses = (layer.value_dense, layer.query_dense, layer.state_dense, layer.carry_dense)
    found = [np.asarray(dense.kernel, "float64") for dense in denses]
    return [*found, np.asarray(layer.scale, "float64")[:, 0]]


def random_weights(model, scale=0.7):
    rng = np.random.default_rng(5)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=scale, size=weight.shape))


def test_the_layer_is_the_paper():
    rng = np.random.default_rng(0)
    queries, values = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 6, 7))
    lengths = [(2, 6), (4, 2), (3, 1)]
    query_mask = np.arange(4) < np.array([[t] for t, _ in lengths])
    value_mask = np.arange(6) < np.array([[s] for _, s in lengths])
    layer = WordByWordAttention(3)
    layer.build((None, None, 5), (None, None, 7))
    random_weights(layer)
    for left in (False, True):  # padding before the words too
        q, v, qm, vm = queries, values, query_mask, value_mask
        if left:
            q, v, qm, vm = (x[:, ::-1] for x in (q, v, qm, vm))
        r, weights, last = layer(
            q.astype("float32"), v.astype("float32"), query_mask=qm, value_mask=vm,
            return_attention_scores=True, return_state=True,
        )  # fmt: skip
        for b in range(3):
            expected, alphas = word_by_word(weights_of(layer), q[b][qm[b]], v[b][vm[b]])
            np.testing.assert_allclose(r[b].numpy()[qm[b]], expected, atol=2e-6)
            np.testing.assert_allclose(last[b], expected[-1], atol=2e-6)
            np.testing.assert_allclose(weights[b].numpy()[qm[b]][:, vm[b]], alphas, atol=2e-6)
            assert not weights[b].numpy()[:, ~vm[b]].any()
            assert not r[b].numpy()[~qm[b]].any()
            assert not weights[b].numpy()[~qm[b]].any()


def lstm(layer, x, cell):
    """Hochreiter and Schmidhuber's with a forget gate; the gates in Keras' order."""
    kernel, recurrent, bias = (np.asarray(w, "float64") for w in layer.cell.weights)
    h, states = np.zeros_like(cell), []

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    for row in x:
        i, f, g, o = np.split(row @ kernel + h @ recurrent + bias, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        states.append(h)
    return np.array(states), cell


def expected_logits(model, config, premise, hypothesis):
    layers = {layer.name: layer for layer in model.layers}

    def dense(name, x):
        weights = [np.asarray(w, "float64") for w in layers[name].weights]
        return x @ weights[0] + (weights[1] if len(weights) > 1 else 0)

    def embed(ids):
        return dense("projection", np.asarray(layers["embedding"].embedding.embeddings)[ids])

    x = embed(hypothesis)
    y, cell = lstm(layers["premise"], embed(premise), np.zeros(config.units))
    if config.attention == "matching":
        words = embed(premise)

        def cosines(row):
            return words @ row / np.linalg.norm(words, axis=1) / np.linalg.norm(row)

        found = np.array([softmax(10 * cosines(row)) @ words for row in x])
        x = np.concatenate([x, found, x - found, x * found], axis=1)
    h, _ = lstm(layers["hypothesis"], x, cell)
    if config.attention in ("none", "matching"):
        return dense("head", h[-1])
    if config.attention == "last":
        attend = layers["attention"]
        query, key = np.asarray(attend.query_dense.kernel), np.asarray(attend.key_dense.kernel)
        m = np.tanh(y @ key + h[-1] @ query)
        r = softmax(m @ np.asarray(attend.scale)[:, 0]) @ y
    else:
        r = word_by_word(weights_of(layers["attention"]), h, y)[0][-1]
    combination = np.asarray(layers["combination"].kernel, "float64")
    both = r @ combination[: config.units] + h[-1] @ combination[config.units :]
    return dense("head", np.tanh(both))


def padded(rows, width, left=False):
    table = np.zeros((len(rows), width), "int32")
    for i, row in enumerate(rows):
        table[i, slice(width - len(row), None) if left else slice(len(row))] = row
    return table


@pytest.mark.quick("word_by_word", "matching")
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_models_are_the_paper(attention):
    config = EntailmentConfig(
        11, num_classes=3, attention=attention, dim=4, units=5, projection_dim=6, dropout=0.3
    )
    model = config.build()
    random_weights(model)
    expected = [
        expected_logits(model, config, p, h) for p, h in zip(PREMISES, HYPOTHESES, strict=True)
    ]
    for widths, left in (((6, 4), False), ((9, 4), False), ((8, 7), True)):
        inputs = {
            "premise_ids": padded(PREMISES, widths[0], left),
            "hypothesis_ids": padded(HYPOTHESES, widths[1], left),
        }
        np.testing.assert_allclose(model(inputs), expected, atol=5e-6)


@pytest.mark.slow
def test_two_networks_read_the_two_texts():
    """One network for both is a fault of others: the second learns to look things up."""
    model = EntailmentConfig(11, num_classes=3, dim=4, units=5).build()
    cells = [model.get_layer(name).cell for name in ("premise", "hypothesis")]
    assert cells[0].kernel is not cells[1].kernel
    assert np.abs(cells[0].kernel.numpy() - cells[1].kernel.numpy()).max() > 1e-2


@pytest.mark.slow
def test_about_as_many_weights_as_in_the_paper():
    """252,000 besides the embeddings, with 300-wide vectors, 100 units and 3 classes."""
    config = EntailmentConfig(2, num_classes=3, dim=300, units=100, projection_dim=100)
    assert config.build().count_params() - 600 == 251_303


@pytest.mark.slow
def test_matching_of_words_that_are_zero():
    """As padding is, and words that dropout took away: gradients are finite."""
    config = EntailmentConfig(
        11, num_classes=3, dim=4, units=5, projection_dim=0, attention="matching"
    )
    model = config.build()
    table = model.get_layer("embedding").embedding.embeddings
    table.assign(table * (np.arange(11) > 3)[:, None])
    inputs = {"premise_ids": padded(PREMISES, 7), "hypothesis_ids": padded(HYPOTHESES, 5)}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs) ** 2)
    gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
    assert all(np.isfinite(tf.convert_to_tensor(g).numpy()).all() for g in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_texts_without_words(attention):
    model = EntailmentConfig(11, num_classes=3, dim=4, units=5, attention=attention).build()
    inputs = {
        "premise_ids": np.array([[0, 0], [3, 4], [0, 0]], "int32"),
        "hypothesis_ids": np.array([[5, 3], [0, 0], [0, 0]], "int32"),
    }
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)
        loss = tf.reduce_sum(logits**2)
    gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
    for tensor in (logits, *map(tf.convert_to_tensor, gradients)):
        assert np.isfinite(tensor.numpy()).all()


def test_the_weights_are_collected():
    model = EntailmentConfig(11, num_classes=3, dim=4, units=5).build()
    inputs = {"premise_ids": padded(PREMISES, 6), "hypothesis_ids": padded(HYPOTHESES, 4)}
    (weights,) = attention_maps(model, inputs).select(role="cross")
    assert weights.shape == (3, 4, 6)
    real = padded(HYPOTHESES, 4) > 0
    np.testing.assert_allclose(weights.sum(-1), real, atol=1e-6)
    assert (weights[1, :, 2:] == 0).all()
    assert PAIR_CLASSIFIERS.name_of(EntailmentConfig(2, num_classes=2)) == "lstm"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "attention"), [("mixed_bfloat16", "word_by_word"), ("mixed_float16", "matching")]
)
def test_low_precision(policy, attention):
    config = EntailmentConfig(11, num_classes=3, dim=4, units=5, attention=attention)
    model, low = config.build(), config.build(policy)
    random_weights(model)
    low.set_weights(model.get_weights())
    inputs = {"premise_ids": padded(PREMISES, 6), "hypothesis_ids": padded(HYPOTHESES, 4)}
    assert keras.backend.standardize_dtype(low(inputs).dtype) == policy[6:]
    np.testing.assert_allclose(tf.cast(low(inputs), "float32"), model(inputs), atol=0.15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "all"}, "`attention`"),
        ({"units": 0}, "`units`"),
        ({"dropout": 1.0}, "`dropout`"),
        ({"projection_dim": -1}, "`projection_dim`"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        EntailmentConfig(11, num_classes=3, **settings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: WordByWordAttention(0), "positive integer"),
        (lambda: WordByWordAttention(3)(tf.ones((2, 3, 4))), "needs a `value`"),
        (lambda: WordByWordAttention(3)(tf.ones((2, 4)), tf.ones((2, 3, 4))), "must have shape"),
        (lambda: WordByWordAttention(3)(tf.ones((2, 3, 4)), tf.ones((5, 3, 4))), "batch size"),
    ],
)
def test_wrong_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()
