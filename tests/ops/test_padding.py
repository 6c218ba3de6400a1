"""What stands in padding, and what can be known of a mask."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from processes import answer

from keras_attn.layers import MultiHeadSelfAttention, TransformerEncoder
from keras_attn.ops.padding import check_right_padding, known_value, without_nan_in_padding

NAN, INF = np.nan, np.inf


def test_only_what_is_hidden_and_not_finite_changes():
    x = np.array([[[1.0, NAN], [NAN, 3.0], [INF, -INF]], [[5.0, 6.0]] * 3], "float32")
    mask = np.array([[1, 0, 0], [0, 1, 1]], bool)
    expected = np.array([[[1.0, NAN], [0, 3.0], [0, 0]], [[5.0, 6.0]] * 3])
    np.testing.assert_array_equal(without_nan_in_padding(x, tf.constant(mask)), expected)
    np.testing.assert_array_equal(without_nan_in_padding(x, None), x)
    high = without_nan_in_padding(x[..., None], tf.constant(mask))
    np.testing.assert_array_equal(high[..., 0], expected)


def test_gradients_do_not_come_from_padding():
    x = tf.constant([[[1.0], [NAN]]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.square(without_nan_in_padding(x, tf.constant([[True, False]]))))
    np.testing.assert_array_equal(tape.gradient(y, x), [[[2.0], [0.0]]])


def test_known_values():
    assert known_value(keras.Input((2,))) is None
    assert known_value(np.ones(2)).tolist() == [1, 1]
    assert known_value(tf.constant([3])).tolist() == [3]
    assert known_value([1, 2]) is None

    @tf.function(autograph=False)
    def traced(x):
        assert known_value(x) is None
        return x

    traced(tf.constant(1))


KNOWN = """
import json, keras, numpy as np
from keras import ops
from keras_attn.ops.padding import known_value
found = [known_value(ops.array([3])).tolist()]
if keras.backend.backend() == "jax":
    import jax
    def traced(x):
        found.append(known_value(x))
        return x
    jax.jit(traced)(np.ones(2))
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "expected"), [("jax", [[3], None]), ("torch", [[3]])])
def test_known_values_elsewhere(backend, expected):
    assert answer(backend, KNOWN) == expected


def test_a_promise_of_right_padding_is_checked_where_it_can_be():
    right = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    left = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], bool)
    check_right_padding(tf.constant(right), "mask")
    x = np.random.default_rng(0).normal(size=(3, 4, 8)).astype("float32")
    for layer, name in [
        (MultiHeadSelfAttention(2, right_padding=True), "mask"),
        (TransformerEncoder(1, 2, intermediate_dim=8, right_padding=True), "padding_mask"),
    ]:
        layer(x, **{name: right})
        with pytest.raises(ValueError, match=r"`right_padding=True` promises.*row 1.*0, 0, 1, 1"):
            layer(x, **{name: left})
    # In a graph it stays a promise.
    tf.function(lambda mask: layer(x, padding_mask=mask), autograph=False)(tf.constant(left))
