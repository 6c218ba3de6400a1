"""The loss of the answers of a batch, beside PyTorch's cross-entropy of what is left."""

import keras
import numpy as np
import pytest
import torch

from keras_attn.training import InBatchCrossEntropy

ops = keras.ops


def test_all_other_answers_are_wrong():
    similarity = np.random.default_rng(0).uniform(-1, 1, (5, 5)).astype("float32")
    labels = np.arange(5)[:, None]
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(20 * similarity), torch.arange(5), reduction="none"
    )
    loss = InBatchCrossEntropy(reduction=None)
    found = ops.convert_to_numpy(loss(labels, similarity))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5)
    weights = np.array([1, 2, 0, 0, 1], "float32")
    found = float(InBatchCrossEntropy()(labels, similarity, weights))
    assert found == pytest.approx(float((expected.numpy() * weights).sum() / 5), rel=1e-5)


def test_answers_that_are_right_too_are_no_wrong_ones():
    """Rows 0 and 2 have the same answer; answer 9 is right for the question of row 1 as well."""
    labels = np.array([[4, -1, -1], [7, 9, 7], [4, -1, -1], [9, -1, -1]])
    similarity = np.random.default_rng(1).uniform(-1, 1, (4, 4)).astype("float32")
    kept = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1]], bool)
    powers = np.exp(3.0 * similarity.astype("float64")) * kept
    expected = -np.log(np.diag(powers) / powers.sum(axis=1))
    loss = InBatchCrossEntropy(scale=3.0, reduction=None)
    found = ops.convert_to_numpy(loss(labels.astype("float32"), similarity))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_config_and_wrong_shapes():
    loss = keras.losses.deserialize(keras.losses.serialize(InBatchCrossEntropy(scale=5)))
    assert loss.scale == 5.0
    with pytest.raises(ValueError, match="`scale` must be above 0"):
        InBatchCrossEntropy(scale=0)
    for labels, similarity in (((3, 1), (3, 4)), ((3,), (3, 3)), ((2, 1), (3, 3))):
        with pytest.raises(ValueError, match="expected similarities"):
            InBatchCrossEntropy()(np.zeros(labels), np.zeros(similarity))
