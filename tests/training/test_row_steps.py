"""Smaller steps for some rows of a table."""

import keras
import numpy as np
import pytest

from keras_attn.training import scale_row_steps


def test_rows_of_an_embedding_take_their_steps():
    """On TensorFlow the gradient holds rows alone, some of them twice."""
    model = keras.Sequential([keras.Input((3,), dtype="int32"), keras.layers.Embedding(4, 2)])
    before = keras.ops.convert_to_numpy(model.weights[0])
    optimizer = keras.optimizers.SGD(0.5)
    scale_row_steps(optimizer, {id(model.weights[0]): [1.0, 0.5, 0.25, 1.0]})
    model.compile(optimizer, lambda y, z: keras.ops.sum(z, axis=(1, 2)))
    model.train_on_batch(np.array([[0, 1, 1]]), np.zeros((1, 1)))
    moved = keras.ops.convert_to_numpy(model.weights[0]) - before
    np.testing.assert_allclose(moved[:, 0], [-0.5, -0.5, 0, 0], atol=1e-6)
    np.testing.assert_allclose(moved[:, 0], moved[:, 1])


def test_other_variables_are_as_before():
    table, other = keras.Variable([[1.0], [1.0]]), keras.Variable([1.0])
    optimizer = keras.optimizers.SGD(1.0)
    scale_row_steps(optimizer, {id(table): [1.0, 0.1]})
    optimizer.apply([keras.ops.ones((2, 1)), keras.ops.ones(1)], [table, other])
    assert [float(x) for x in (table[0, 0], table[1, 0], other[0])] == pytest.approx([0, 0.9, 0])


def test_an_optimizer_that_scales_the_loss():
    table = keras.Variable([[1.0], [1.0]])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)
    scale_row_steps(optimizer, {id(table): [1.0, 0.1]})
    optimizer.apply([8.0 * keras.ops.ones((2, 1))], [table])
    assert [float(x) for x in (table[0, 0], table[1, 0])] == pytest.approx([0, 0.9])


def test_what_cannot_be():
    with pytest.raises(ValueError, match=r"above 0. Received: 0.0"):
        scale_row_steps(keras.optimizers.SGD(1.0), {1: [1.0, 0.0]})
