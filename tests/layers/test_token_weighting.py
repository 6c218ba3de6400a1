"""Weights of tokens, and ids of pairs."""

import hashlib
import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from harness_case import masked, numpy
from keras import ops

from keras_attn import collect_attention
from keras_attn.layers import HashedTokenPairs, TokenWeighting

IDS = np.array([[3, 1, 3, 0], [2, 2, 4, 1]], "int32")
X = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
IDF = [0.5, 1.0, 2.0, 4.0, 0.25]


@pytest.mark.parametrize("activation", [None, "softplus", "exponential"])
def test_initial_weights_are_what_it_begins_with(activation):
    layer = TokenWeighting(5, initial=IDF, activation=activation, name="weighting")
    np.testing.assert_allclose(layer.get_token_weights(), IDF, atol=1e-6)
    with collect_attention() as maps:
        output, weights = layer(X, IDS, return_attention_scores=True)
    np.testing.assert_allclose(weights, [[4, 1, 4, 0.5], [2, 2, 0.25, 1]], atol=1e-6)
    np.testing.assert_allclose(output, X * np.array(IDF)[IDS][..., None], atol=1e-5)
    assert [(key.path, key.role) for key in maps] == [("weighting", "weighting")]
    np.testing.assert_array_equal(maps.select("weighting")[0], weights)
    # Without them, it changes nothing.
    np.testing.assert_allclose(TokenWeighting(5, activation=activation)(X, IDS), X, atol=1e-6)


def test_padding_has_no_weight():
    layer = TokenWeighting(5, initial=IDF)
    mask = IDS != 0
    expected = [[4, 1, 4, 0], [2, 2, 0.25, 1]]
    for arguments in ({"x": X, "mask": mask}, {"x": masked(X, mask)}):
        output, weights = layer(token_ids=IDS, return_attention_scores=True, **arguments)
        np.testing.assert_allclose(weights, expected, atol=1e-6)
        np.testing.assert_array_equal(output._keras_mask, mask)
        assert (numpy(output)[~mask] == 0).all()
    np.testing.assert_allclose(layer.token_weights(IDS, mask), expected, atol=1e-6)


def test_weights_are_no_settings(tmp_path):
    layer = TokenWeighting(5, initial=IDF, activation="softplus")
    assert json.dumps(layer.get_config()).count("0.25") == 0
    x, ids = keras.Input((None, 3)), keras.Input((None,), dtype="int32")
    model = keras.Model([x, ids], layer(x, ids))
    layer.set_token_weights([1, 2, 3, 4, 5])
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras").layers[-1]
    np.testing.assert_allclose(loaded.get_token_weights(), [1, 2, 3, 4, 5], atol=1e-5)
    assert np.allclose(TokenWeighting.from_config(layer.get_config()).get_token_weights(), 1)


def test_gradients_are_those_of_the_rows_that_were_read():
    """Sparse, so that a large vocabulary costs nothing where the optimizer takes them so."""
    layer = TokenWeighting(5, initial=IDF)
    layer.build()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(X[:1], IDS[:1]))
    (gradient,) = tape.gradient(loss, [layer.table.value])
    assert isinstance(gradient, tf.IndexedSlices)
    sums = X[0].astype("float64").sum(-1)
    expected = [sums[3], sums[1], 0, sums[0] + sums[2], 0]
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), expected, atol=1e-6)


def test_mixed_precision_reads_before_it_casts():
    layer = TokenWeighting(5, initial=IDF, dtype="mixed_float16")
    output, weights = layer(X, IDS, return_attention_scores=True)
    assert output.dtype == weights.dtype == "float16"
    assert layer.table.dtype == "float32"
    table = numpy(layer.table)
    np.testing.assert_array_equal(table, np.array(IDF, "float32"))


def test_errors_of_weighting():
    with pytest.raises(ValueError, match=r"\(5,\).*Received: shape \(4,\)"):
        TokenWeighting(5, initial=[1, 2, 3, 4])
    with pytest.raises(ValueError, match=r"above 0.*from 0.0 to 1.0"):
        TokenWeighting(2, initial=[0, 1], activation="softplus")
    with pytest.raises(ValueError, match="finite"):
        TokenWeighting(2, initial=[np.nan, 1])
    with pytest.raises(ValueError, match=r"softplus.*Received: 'relu'"):
        TokenWeighting(2, activation="relu")
    x = keras.Input((4, 3), batch_size=2)
    with pytest.raises(ValueError, match=r"`token_ids`.*Received: shape \(2, 5\)"):
        TokenWeighting(5)(x, keras.Input((5,), batch_size=2, dtype="int32"))
    with pytest.raises(ValueError, match="integers"):
        TokenWeighting(5)(x, keras.Input((4,), batch_size=2))


def plain_pair_id(first, second, buckets, seed=0):
    """The hash of the docstring, in Python's integers of any size."""
    residues = []
    for lane in range(2):
        digest = hashlib.sha256(f"{seed} {lane}".encode()).digest()
        k = 2 + int.from_bytes(digest[:4], "big") % 46335
        h = int.from_bytes(digest[4:8], "big") % 46337
        for token in (first, second):
            h = ((h * k + token % 2**15) * k + token // 2**15) % 46337
            h = h**3 % 46337
        residues.append(h)
    return 1 + (residues[0] * 46337 + residues[1]) % (buckets - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "buckets", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1000, 2**20)), 2**30]
)
def test_pairs_are_those_of_plain_integers(buckets):
    rng = np.random.default_rng(0)
    ids = np.concatenate(
        [rng.integers(1, high, 50) for high in (20, 2**15, 2**16, 2**24, 2**31)]
        + [[2**31 - 1, 2**31 - 1, 2**15 - 1, 2**15, 1]]
    )
    for seed in (0, 7):
        neighbours = itertools.pairwise(ids.tolist())
        expected = [plain_pair_id(first, second, buckets, seed) for first, second in neighbours]
        layer = HashedTokenPairs(buckets, seed=seed)
        call = tf.function(layer, autograph=False)
        by_xla = tf.function(layer, autograph=False, jit_compile=True)
        for dtype in ("int32", "int64"):
            row = ids[None].astype(dtype)
            for function in (layer, call, by_xla):
                found = numpy(function(ops.convert_to_tensor(row)))
                assert found.dtype == np.int32
                assert found[0].tolist() == [*expected, 0]


def test_these_ids_never_change():
    """Trained embeddings belong to them."""
    found = numpy(HashedTokenPairs(2**20)(np.array([[1, 2, 30000, 70000, 2, 1]])))
    assert found[0].tolist() == [515899, 613122, 804123, 331024, 797630, 0]


def test_pairs_of_padding():
    pairs = HashedTokenPairs(1000)
    plain = numpy(pairs(np.array([[5, 7, 9]])))[0]
    assert (plain[:2] > 0).all()
    assert plain[2] == 0
    right, left, hole = numpy(pairs(np.array([[5, 7, 9, 0, 0], [0, 0, 5, 7, 9], [5, 0, 7, 9, 5]])))
    assert right.tolist() == [*plain, 0, 0]
    assert left.tolist() == [0, 0, *plain]
    assert hole.tolist()[:2] == [0, 0]
    assert hole[2] == plain[1]
    mask = np.array([[1, 1, 0]])
    assert numpy(pairs(np.array([[5, 7, 9]]), mask=mask))[0].tolist() == [plain[0], 0, 0]
    assert tuple(pairs(np.zeros((2, 0), "int32")).shape) == (2, 0)


def test_collisions_are_those_of_chance():
    """Small neighbouring ids are the common case; order and each token count."""
    first, second = np.meshgrid(np.arange(1, 301), np.arange(1, 301))
    ids = np.stack([first.ravel(), second.ravel()], axis=1)
    for buckets in (2**16, 10007, 2**20):
        found = numpy(HashedTokenPairs(buckets)(ids))[:, 0]
        n = len(ids)
        by_chance = (buckets - 1) * -np.expm1(-n / (buckets - 1))
        assert abs(len(np.unique(found)) / by_chance - 1) < 0.02
        counts = np.bincount(found, minlength=buckets)[1:]
        assert counts.max() < n / buckets + 6 * (n / buckets) ** 0.5 + 6
    other = numpy(HashedTokenPairs(2**20, seed=1)(ids))[:, 0]
    assert (other == found).mean() < 1e-3


def test_errors_of_pairs():
    for buckets in (0, 1, 2**30 + 1, 1.5):
        with pytest.raises(ValueError, match="num_buckets"):
            HashedTokenPairs(buckets)
    with pytest.raises(ValueError, match=r"integers.*float32"):
        HashedTokenPairs(10)(keras.Input((3,)))
    with pytest.raises(ValueError, match=r"\(B, S\)"):
        HashedTokenPairs(10)(keras.Input((3, 2), dtype="int32"))


@pytest.mark.parametrize("wrong", [-1, 11])
def test_ids_out_of_range_fail(wrong):
    """Negative ones too: they are no ids from the end."""
    layer = TokenWeighting(11)
    with pytest.raises(tf.errors.InvalidArgumentError):
        layer(np.ones((1, 1, 4), "float32"), np.array([[wrong]]))
