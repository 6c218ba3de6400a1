"""Regularizers and constraints of the weights of attention layers and blocks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import (
    AdditiveAttention,
    DecoderBlock,
    FeedForward,
    LuongAttention,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    SelfAttention,
    TransformerEncoder,
)

D = 4
ONE, TWO = [np.ones((2, 3, D), "float32")], [np.ones((2, 3, D), "float32")] * 2
SETTINGS = {
    "kernel_regularizer": keras.regularizers.L2(0.5),
    "bias_regularizer": keras.regularizers.L1(0.25),
    "kernel_constraint": keras.constraints.MaxNorm(0.1),
    "bias_constraint": keras.constraints.NonNeg(),
}
CASES = [  # and the number of kernels and biases
    (MultiHeadSelfAttention, {"num_heads": 2, "value_rank": 1}, ONE, 3, 3),
    (MultiHeadAttention, {"num_heads": 2}, TWO, 4, 4),
    (SelfAttention, {"projection": "separate", "use_bias": True}, ONE, 3, 3),
    (AdditiveAttention, {"units": 3, "use_bias": True}, TWO, 3, 1),
    (LuongAttention, {"score": "general", "window": "predictive"}, TWO, 3, 0),
    (FeedForward, {"intermediate_dim": 6, "gated": True}, ONE, 2, 2),
    (DecoderBlock, {"num_heads": 2, "intermediate_dim": 6}, TWO, 8, 8),
    (TransformerEncoder, {"num_layers": 2, "num_heads": 2, "intermediate_dim": 6}, ONE, 8, 8),
]


@pytest.mark.parametrize(
    ("cls", "settings", "inputs", "kernels", "biases"),
    CASES,
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_regularizers_and_constraints_reach_every_weight(cls, settings, inputs, kernels, biases):
    layer = cls(**settings, **SETTINGS)
    layer(*inputs)
    matrices = [w for w in layer.weights if len(w.shape) == 2]
    vectors = [w for w in layer.weights if w.name == "bias"]
    assert (len(matrices), len(vectors)) == (kernels, biases)
    for weight in matrices + vectors:
        weight.assign(np.full(weight.shape, -2.0))
    expected = [0.5 * 4 * np.prod(w.shape) for w in matrices]
    expected += [0.25 * 2 * np.prod(w.shape) for w in vectors]
    np.testing.assert_allclose(sum(layer.losses), sum(expected), rtol=1e-6)
    optimizer = keras.optimizers.SGD(0.0)
    optimizer.build(layer.trainable_variables)
    optimizer.apply([tf.zeros(w.shape) for w in layer.trainable_variables])
    for weight in matrices:
        np.testing.assert_allclose(np.linalg.norm(weight, axis=0), 0.1, rtol=1e-5)
    for weight in vectors:
        assert not np.asarray(weight).any()


def test_additive_attention_without_projections_by_hand():
    layer = AdditiveAttention(None)
    query, value = (
        np.array([[[0.0, 1.0]]], "float32"),
        np.array([[[1.0, 0.0], [2.0, 1.0]]], "float32"),
    )
    layer.build(query.shape, value.shape)
    (scale,) = layer.weights
    scale.assign([[1.0], [2.0]])
    _, weights = layer(query, value, return_attention_scores=True)
    scores = np.array([np.tanh(1) + 2 * np.tanh(1), np.tanh(2) + 2 * np.tanh(2)])
    np.testing.assert_allclose(weights[0, 0], np.exp(scores) / np.exp(scores).sum(), rtol=1e-6)
    with pytest.raises(ValueError, match="needs queries and keys of the same width"):
        AdditiveAttention(None)(np.ones((1, 2, 3)), np.ones((1, 2, 4)))
    with pytest.raises(ValueError, match="`use_bias` of AdditiveAttention requires"):
        AdditiveAttention(None, use_bias=True)
