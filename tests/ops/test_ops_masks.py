"""Masks: what is accepted, what is refused, and how causal ones are aligned."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.ops import (
    as_boolean_mask,
    causal_mask,
    check_padding_mask,
    combine_masks,
    dot_product_attention,
)


@pytest.mark.parametrize("T", [1, 2, 3, 5])
@pytest.mark.parametrize("S", [1, 3, 4])
def test_causal_is_aligned_at_the_end(T, S):
    """Query t sees key s where s <= t + S - T; lengths known or not."""
    expected = [[s <= t + S - T for s in range(S)] for t in range(T)]
    query, key = ops.ones((2, T, 4)), ops.ones((2, S, 3, 2))
    known = ops.convert_to_numpy(causal_mask(query, key))
    assert known.tolist() == [[expected]]
    shapes = [tf.TensorSpec([None, None, 4]), tf.TensorSpec([None, None, 3, 2])]
    unknown = tf.function(causal_mask, input_signature=shapes, autograph=False)(query, key)
    np.testing.assert_array_equal(unknown, known)
    one_known = [tf.TensorSpec([2, T, 4]), tf.TensorSpec([None, None, 3, 2])]
    unknown = tf.function(causal_mask, input_signature=one_known, autograph=False)(query, key)
    np.testing.assert_array_equal(unknown, known)


def test_of_symbolic_tensors():
    """Of unknown lengths, as a functional model has them."""
    x = keras.Input((None, 2, 4))
    y = dot_product_attention(x, x, x, use_causal_mask=True, sliding_window=2)
    lengths = keras.Input((), dtype="int32")
    z = dot_product_attention(x, x, x, key_lengths=lengths)
    model = keras.Model([x, lengths], [y, z])
    given, counts = np.random.default_rng(0).normal(size=(2, 5, 2, 4)), np.array([5, 2])
    given = given.astype("float32")
    found = model([given, counts])
    wanted = (
        dot_product_attention(given, given, given, use_causal_mask=True, sliding_window=2),
        dot_product_attention(given, given, given, key_lengths=ops.convert_to_tensor(counts)),
    )
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_accepted():
    for mask in ([[1, 0]], [[True, False]], np.array([[1, 0]], "uint8"), tf.constant([[1, 0]])):
        result = as_boolean_mask(mask)
        assert result.dtype == "bool"
        assert ops.convert_to_numpy(result).tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_refused(dtype):
    with pytest.raises(ValueError, match=f"`here` must be boolean.*{dtype}.*1, 2"):
        as_boolean_mask(np.zeros((1, 2), dtype), "here")


@pytest.mark.parametrize("shape", [(2,), (2, 4), (3, 3), (1, 3), (2, 3, 1)])
def test_padding_masks(shape):
    with pytest.raises(ValueError) as error:
        check_padding_mask(np.ones(shape, bool), 2, 3)
    assert str(shape) in str(error.value)
    assert "(2, 3)" in str(error.value)
    assert tuple(check_padding_mask(np.ones((2, 3), bool), None, None).shape) == (2, 3)


def test_combined():
    rng = np.random.default_rng(0)
    B, N, T, S = 2, 3, 4, 5
    padding, each = rng.random((B, S)) > 0.3, rng.random((B, N, T, S)) > 0.3
    causal = causal_mask(ops.ones((B, T, 1)), ops.ones((B, S, 1)))
    visible = ops.convert_to_numpy(combine_masks((B, T), (B, S), N, each, padding, causal))
    for b, n, t, s in np.ndindex(B, N, T, S):
        assert visible[b, n, t, s] == (each[b, n, t, s] and padding[b, s] and s <= t + S - T)
    assert combine_masks((B, T), (B, S), N) is None
    for shape in [(B, T, S), (1, T, S), (B, 1, T, S), (B, N, T, S), (1, 1, T, S)]:
        mask = combine_masks((B, T), (B, S), N, np.ones(shape, bool))
        np.broadcast_to(mask, (B, N, T, S))
        assert len(mask.shape) == 4


@pytest.mark.parametrize("shape", [(5,), (2, 4, 4), (2, 3, 5), (2, 2, 4, 5), (2, 4, 1)])
def test_wrong_attention_masks(shape):
    with pytest.raises(ValueError) as error:
        combine_masks((2, 4, 8), (2, 5, 8), 3, np.ones(shape, bool))
    assert str(shape) in str(error.value)
    assert "(2, 4, 5)" in str(error.value)


@pytest.mark.parametrize("shape", [(2, 5), (4, 5), (5, 5)])
def test_attention_masks_of_rank_2_are_refused(shape):
    with pytest.raises(
        ValueError, match=r"rank 3 or 4.*padding as `key_mask`.*mask\[None\]"
    ) as error:
        combine_masks((2, 4, 8), (2, 5, 8), 3, np.ones(shape, bool))
    assert str(shape) in str(error.value)
