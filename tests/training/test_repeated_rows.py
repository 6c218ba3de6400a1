"""Optimizers see one gradient for each token, as on JAX and PyTorch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import TokenEmbedding
from keras_attn.tasks.base.compiling import make_adam
from keras_attn.training import sum_repeated_rows

# Row 0 stands twice: its gradients are 2 and then 0.5.
STEPS = [[[1.0], [1.0], [3.0]], [[1.0], [-0.5], [1.0]]]
ROWS = [0, 0, 2]


def trained(optimizer):
    table = keras.Variable(np.zeros((3, 1), "float32"))
    for values in STEPS:
        gradient = tf.IndexedSlices(tf.constant(values), tf.constant(ROWS), tf.constant([3, 1]))
        optimizer.apply([gradient], [table])
    return np.array(table)[:, 0]


def adam_by_hand(gradients, rate=0.1, epsilon=1e-7):
    place = mean = square = 0.0
    for step, g in enumerate(gradients, 1):
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        step_size = rate * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
        place -= step_size * mean / (square**0.5 + epsilon)
    return place


def test_adam_by_hand():
    optimizer = keras.optimizers.Adam(0.1)
    sum_repeated_rows(optimizer)
    expected = [adam_by_hand([2.0, 0.5]), 0.0, adam_by_hand([3.0, 1.0])]
    np.testing.assert_allclose(trained(optimizer), expected, rtol=1e-5)


def test_a_scaled_loss():
    """The optimizer inside clips, and gets the gradients."""
    inner = keras.optimizers.Adam(0.1)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=1.0)
    sum_repeated_rows(optimizer)
    expected = [adam_by_hand([2.0, 0.5]), 0.0, adam_by_hand([3.0, 1.0])]
    np.testing.assert_allclose(trained(optimizer), expected, rtol=1e-5)


def test_keras_alone_squares_each_place():
    """What `sum_repeated_rows` is for; when this fails, Keras has mended it."""
    found = trained(keras.optimizers.Adam(0.1))
    assert abs(found[0] - adam_by_hand([2.0, 0.5])) > 0.03
    np.testing.assert_allclose(found[2], adam_by_hand([3.0, 1.0]), rtol=1e-5)


@pytest.mark.parametrize("settings", [{"global_clipnorm": 1.0}, {"clipnorm": 1.0}])
def test_norms(settings):
    optimizer = keras.optimizers.SGD(1.0, **settings)
    sum_repeated_rows(optimizer)
    summed = [np.array([2.0, 0.0, 3.0]), np.array([0.5, 0.0, 1.0])]
    expected = -sum(g / max(1.0, np.linalg.norm(g)) for g in summed)
    np.testing.assert_allclose(trained(optimizer), expected, rtol=1e-5)


def test_tasks_clip_the_norm_that_pytorch_has():
    """The same tokens several times in a batch, three updates."""
    torch = pytest.importorskip("torch", reason="PyTorch is of the extra `test`")
    ids = np.array([[1, 2, 2, 2], [3, 2, 1, 1]])
    embedding = TokenEmbedding(5, 3, mask_zero=False)
    embedding.build()
    start = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    table = embedding.trainable_variables[0]
    table.assign(start)
    optimizer = make_adam(0.1, keras.DTypePolicy("float32"), clip_norm=0.01)
    theirs = torch.nn.Parameter(torch.tensor(start))
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(embedding(ids) ** 2)
        optimizer.apply(tape.gradient(loss, [table.value]), [table])
    norms = []
    adam = torch.optim.Adam([theirs], lr=0.1)
    for step in range(1, 4):
        adam.zero_grad()
        (theirs[torch.tensor(ids)] ** 2).sum().backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_([theirs], 0.01)))
        adam.param_groups[0]["eps"] = 1e-7 / (1 - 0.999**step) ** 0.5
        adam.step()
    assert min(norms) > 1
    np.testing.assert_allclose(np.array(table), theirs.detach().numpy(), atol=1e-5)
