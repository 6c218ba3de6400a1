"""The loss of spans: by hand, by PyTorch, and without padding."""

import keras
import numpy as np
import pytest
import torch
from keras import ops

from keras_attn.training import SpanCrossEntropy


def test_by_hand():
    logits = np.zeros((1, 3, 2), "float32")
    logits[0, 1, 0] = np.log(2)  # 2 / (1 + 2 + 1) for the first token
    loss = SpanCrossEntropy()(np.array([[1, 2, 3]]), logits)
    assert float(loss) == pytest.approx(-(np.log(2 / 4) + np.log(1 / 3)) / 2, rel=1e-5)


def test_the_same_as_pytorch_without_the_padding():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4, 7, 2)).astype("float32")
    labels = np.array([[0, 0, 7], [1, 3, 5], [2, 2, 4], [4, 5, 6]])
    weights = np.array([1.0, 2.0, 0.0, 0.5], "float32")
    expected = []
    for row, (first, last, length) in zip(logits, labels, strict=True):
        z = torch.tensor(row[:length].T)
        expected.append(float(torch.nn.functional.cross_entropy(z, torch.tensor([first, last]))))
    found = SpanCrossEntropy(reduction=None)(labels, logits)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    mean = SpanCrossEntropy()(labels, logits, sample_weight=weights)
    assert float(mean) == pytest.approx(np.sum(weights * expected) / 4, rel=1e-5)
    logits[1, 5:] = 1e4  # padding
    np.testing.assert_allclose(
        SpanCrossEntropy(reduction=None)(labels, logits), expected, rtol=1e-5
    )


def test_the_implicit_mask_of_tokens_is_none_of_rows():
    logits = ops.zeros((2, 3, 2))
    logits._keras_mask = ops.ones((2, 3), "bool")
    assert float(SpanCrossEntropy()(ops.ones((2, 3), "int32") * 2, logits)) > 0


def test_shapes_are_checked_and_it_is_saved():
    with pytest.raises(ValueError, match=r"labels \(B, 3\)"):
        SpanCrossEntropy()(np.ones((1, 2), int), np.zeros((1, 3, 2)))
    again = keras.losses.deserialize(keras.losses.serialize(SpanCrossEntropy(name="spans")))
    assert isinstance(again, SpanCrossEntropy) and again.name == "spans"
