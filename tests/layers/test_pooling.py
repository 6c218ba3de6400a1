"""Poolings against plain loops in float64, and by hand."""

import keras
import numpy as np
import pytest
from harness_case import numpy, set_biases
from keras import ops

from keras_attn import collect_attention
from keras_attn.layers import (
    AttentionPooling,
    FinalStatesPooling,
    FirstTokenPooling,
    MaskedAveragePooling,
    MaskedMaxPooling,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 6, 4)).astype("float32")
# Right, left and scattered padding, all tokens, none.
MASK = np.array(
    [
        [1, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 1],
        [0, 1, 0, 1, 1, 0],
        [1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 0],
    ],
    bool,
)
POOLINGS = {
    "average": (MaskedAveragePooling(), lambda rows: rows.mean(0)),
    "sqrtn": (MaskedAveragePooling(combiner="sqrtn"), lambda rows: rows.sum(0) / len(rows) ** 0.5),
    "max": (MaskedMaxPooling(), lambda rows: rows.max(0)),
    "first": (FirstTokenPooling(), lambda rows: rows[0]),
    "final": (FinalStatesPooling(), lambda rows: np.concatenate([rows[-1, :2], rows[0, 2:]])),
}


def reference(pool, x, mask):
    x = x.astype("float64")
    return np.stack([pool(r[m]) if m.any() else 0 * r[0] for r, m in zip(x, mask, strict=True)])


@pytest.mark.parametrize("name", ["first", "final"])
def test_what_is_infinite_elsewhere_is_not_seen(name):
    x, mask = np.ones((1, 3, 2), "float32"), np.array([[False, True, True]])
    x[0, 2 if name == "first" else 0] = np.inf
    assert numpy(POOLINGS[name][0](x, mask=mask)).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_float64_is_float64(combiner):
    x = RNG.normal(size=(5, 6, 4))
    layer = MaskedAveragePooling(combiner=combiner, dtype="float64")
    _, pool = POOLINGS["average" if combiner == "mean" else combiner]
    np.testing.assert_allclose(layer(x, mask=MASK), reference(pool, x, MASK), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", POOLINGS)
def test_against_plain_numpy(name):
    layer, pool = POOLINGS[name]
    np.testing.assert_allclose(layer(X, mask=MASK), reference(pool, X, MASK), atol=1e-6)
    np.testing.assert_allclose(layer(X), reference(pool, X, np.ones_like(MASK)), atol=1e-6)
    # What padding holds does not matter, how large it may be.
    large = np.where(MASK[..., None], X, 1e4).astype("float32")
    np.testing.assert_allclose(layer(large, mask=MASK), layer(X, mask=MASK), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", POOLINGS)
def test_half_precision(name, dtype):
    layer, pool = POOLINGS[name]
    output = type(layer)(**{**layer.get_config(), "dtype": dtype})(X, mask=MASK)
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    found = numpy(ops.cast(output, "float32"))
    np.testing.assert_allclose(found, reference(pool, X, MASK), atol=0.03)
    assert (found[4] == 0).all()


@pytest.mark.parametrize("name", POOLINGS)
def test_masks_end_here_without_a_warning(name):
    embedding = keras.layers.Embedding(9, 4, mask_zero=True)
    model = keras.Sequential([embedding, POOLINGS[name][0], keras.layers.Dense(2)])
    ids = np.array([[3, 4, 0, 0]])
    np.testing.assert_allclose(model(ids), model(ids[:, :2]), atol=1e-6)
    assert getattr(model(ids), "_keras_mask", None) is None


def additive(x, mask, kernel, bias, query):
    """Yang et al., 2016, equations 5 to 7."""
    outputs, weights = [], []
    for row, visible in zip(x.astype("float64"), mask, strict=True):
        scores = np.tanh(row @ kernel + bias) @ query[:, 0]
        own = np.where(visible, np.exp(scores), 0)
        own = own / own.sum() if visible.any() else own
        weights.append(own)
        outputs.append(sum(w * v for w, v in zip(own, row, strict=True)))
    return np.stack(outputs), np.stack(weights)


def test_additive_attention():
    layer = AttentionPooling(units=3, name="attend")
    layer.build(X.shape)
    set_biases(layer)
    with collect_attention() as maps:
        output, weights = layer(X, mask=MASK, return_attention_scores=True)
    dense = layer.hidden_dense
    expected = additive(X, MASK, numpy(dense.kernel), numpy(dense.bias), numpy(layer.query))
    np.testing.assert_allclose(output, expected[0], atol=1e-6)
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)
    assert (numpy(weights)[~MASK] == 0).all()
    assert [(key.path, key.role) for key in maps] == [("attend", "pooling")]
    np.testing.assert_array_equal(maps.select("pooling")[0], weights)


def test_dot_attention_by_hand():
    layer = AttentionPooling(score="dot")
    layer.build((1, 3, 4))
    layer.query.assign([[2.0], [0.0], [0.0], [0.0]])
    x = np.zeros((1, 3, 4), "float32")
    x[0, :, 0] = 0.0, np.log(3.0), 50.0  # scores 0, log 3, and a hidden one
    x[0, :, 1] = 4.0, 8.0, 100.0
    output, weights = layer(x, mask=[[1, 1, 0]], return_attention_scores=True)
    np.testing.assert_allclose(weights, [[0.25, 0.75, 0.0]], atol=1e-6)
    np.testing.assert_allclose(output[0, 1], 7.0, atol=1e-5)
    assert layer.count_params() == 4


def test_number_of_weights_and_default_width():
    layer = AttentionPooling(units=3)
    layer.build((None, None, 4))
    assert layer.count_params() == 4 * 3 + 3 + 3
    layer = AttentionPooling()
    layer.build((None, None, 4))
    assert layer.count_params() == 4 * 4 + 4 + 4


def test_dropout_of_attention_is_in_training_only():
    layer = AttentionPooling(attention_dropout=0.5, seed=1)
    still, weights = layer(X, return_attention_scores=True)
    dropped, kept = layer(X, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(weights, kept)  # those before dropout
    assert np.abs(numpy(still) - numpy(dropped)).max() > 0.05
    np.testing.assert_array_equal(layer(X), still)


def test_errors():
    for cls in (MaskedAveragePooling, MaskedMaxPooling, FirstTokenPooling, AttentionPooling):
        with pytest.raises(ValueError, match=r"\(B, ., D\).*Received: shape \(2, 3\)"):
            cls()(keras.Input((3,), batch_size=2))
    with pytest.raises(ValueError, match=r"mean.*sqrtn.*Received: 'sum'"):
        MaskedAveragePooling(combiner="sum")
    with pytest.raises(ValueError, match="even width"):
        FinalStatesPooling()(keras.Input((None, 3)))
    with pytest.raises(ValueError, match=r"additive.*dot.*Received: 'luong'"):
        AttentionPooling(score="luong")
    with pytest.raises(ValueError, match="is only used with score='additive'"):
        AttentionPooling(units=4, score="dot")
    with pytest.raises(ValueError, match="positive integer"):
        AttentionPooling(units=0)
    with pytest.raises(ValueError, match=r"in \[0, 1\)"):
        AttentionPooling(attention_dropout=1.0)
