"""Attention functions: worked numbers, independent references, edges."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import torch
import torch.nn.functional as F
from keras import ops

from keras_attn.ops import additive_attention, dot_product_attention, masked_softmax


def heads(x):
    """`(T, H)` to `(1, T, 1, H)`: a batch of one, one head."""
    return np.asarray(x, "float64")[None, :, None, :]


# A well-known illustration of self-attention: three inputs and small integer projections.
INPUTS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
QUERY = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
KEY = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
VALUE = np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])


def test_the_illustration():
    """Exact: queries, keys, values, scores. The printed weights 0, .5, .5 are rounded."""
    q, k, v = INPUTS @ QUERY, INPUTS @ KEY, INPUTS @ VALUE
    assert q.tolist() == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert k.tolist() == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert v.tolist() == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert (q @ k.T).tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]
    # With the rounded weights the illustration's 2.0 7.0 1.5 is exact.
    assert (np.array([0.0, 0.5, 0.5]) @ v).tolist() == [2.0, 7.0, 1.5]
    # The exact softmax of 2 4 4 is 1 : e^2 : e^2.
    e2 = np.exp(2.0)
    exact = np.array([1, e2, e2]) / (1 + 2 * e2)
    np.testing.assert_allclose(exact, [0.0634, 0.4683, 0.4683], atol=5e-5)
    context, weights = dot_product_attention(
        *(ops.cast(heads(t), "float32") for t in (q, k, v)), scale=1.0, return_attention_scores=True
    )
    np.testing.assert_allclose(weights[0, 0, 0], exact, atol=1e-6)
    np.testing.assert_allclose(context[0, 0, 0], exact @ v, atol=1e-5)
    np.testing.assert_allclose(context[0, 0, 0], [1.9366, 6.6831, 1.5951], atol=5e-5)
    # All three rows, by plain NumPy.
    weights = np.exp(q @ k.T - 16.0)
    weights /= weights.sum(1, keepdims=True)
    np.testing.assert_allclose(context[0, :, 0], weights @ v, atol=1e-5)


def test_the_lecture():
    """Scores 112 96 16 8 with H = 64: exactly 14 12 2 1 after the division by 8.

    softmax(14 12 2 1): e^-2 = .1353 beside the first, so .8808 .1192 and two of order 1e-5. The
    lecture prints .87 .12 .01 .00: its weights add up to 1 only so; .88 .12 .00 .00 is right.
    """
    query = np.zeros((1, 64))
    query[0, 0] = 8.0
    key = np.zeros((4, 64))
    key[:, 0] = [14, 12, 2, 1]
    assert (query @ key.T).tolist() == [[112, 96, 16, 8]]
    _, weights = dot_product_attention(
        *(ops.cast(heads(t), "float32") for t in (query, key, key)), return_attention_scores=True
    )
    exact = np.exp([0.0, -2.0, -12.0, -13.0])
    exact /= exact.sum()
    np.testing.assert_allclose(weights[0, 0, 0], exact, rtol=1e-5)
    np.testing.assert_allclose(exact, [0.8808, 0.1192, 5.4e-6, 2.0e-6], atol=5e-5)
    np.testing.assert_allclose(exact, [0.87, 0.12, 0.01, 0.0], atol=0.011)


def test_two_by_two_causal():
    """By hand: the first query sees the first key alone; the second has scores 0 and ln 3."""
    q = heads([[1.0], [np.log(3.0)]])
    k = heads([[0.0], [1.0]])
    v = heads([[4.0], [8.0]])
    context, weights = dot_product_attention(
        *(ops.cast(t, "float32") for t in (q, k, v)),
        scale=1.0,
        use_causal_mask=True,
        return_attention_scores=True,
    )
    np.testing.assert_allclose(weights[0, 0], [[1.0, 0.0], [0.25, 0.75]], atol=1e-6)
    np.testing.assert_allclose(context[0, :, 0, 0], [4.0, 7.0], atol=1e-5)


def test_additive_by_numpy():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 5, 6))
    scale = rng.normal(size=4)
    mask = rng.random((2, 3, 5)) > 0.4
    mask[..., 0] = True
    mask[1, 2] = False
    expected, expected_weights = np.zeros((2, 3, 6)), np.zeros((2, 3, 5))
    for b in range(2):
        for t in range(3):
            scores = {s: scale @ np.tanh(q[b, t] + k[b, s]) for s in range(5) if mask[b, t, s]}
            total = sum(np.exp(x) for x in scores.values())
            for s, x in scores.items():
                expected_weights[b, t, s] = np.exp(x) / total
                expected[b, t] += np.exp(x) / total * v[b, s]
    for dtype, atol in [("float32", 1e-6), ("float64", 1e-12)]:
        arrays = [ops.convert_to_tensor(x, dtype) for x in (q, k, v, scale)]
        context, weights = additive_attention(*arrays, mask=mask, return_attention_scores=True)
        np.testing.assert_allclose(context, expected, atol=atol)
        np.testing.assert_allclose(weights, expected_weights, atol=atol)
        assert keras.backend.standardize_dtype(context.dtype) == dtype


@pytest.mark.parametrize("kind", ["none", "bool", "heads", "causal", "float"])
@pytest.mark.parametrize("N, K", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_torch_scaled_dot_product_attention(kind, N, K, scale):
    """Values and gradients of all three inputs."""
    rng = np.random.default_rng(0)
    T, S = (5, 5) if kind == "causal" else (3, 5)
    q, k = rng.normal(size=(2, T, N, 6)), rng.normal(size=(2, S, K, 6))
    v, upstream = rng.normal(size=(2, S, K, 7)), rng.normal(size=(2, T, N, 7))
    arrays = [x.astype("float32") for x in (q, k, v)]
    mask = rng.random((2, N if kind == "heads" else 1, T, S)) > 0.3
    mask[..., 0] = True
    bias = rng.normal(size=(2, N, T, S)).astype("float32")
    bias[0, 0, 0, 1:] = -np.inf
    ours = {
        "none": {},
        "bool": {"mask": mask},
        "heads": {"mask": mask},
        "causal": {"use_causal_mask": True},
        "float": {"bias": bias},
    }[kind]
    theirs = {
        "none": {},
        "bool": {"attn_mask": torch.tensor(mask)},
        "heads": {"attn_mask": torch.tensor(mask)},
        "causal": {"is_causal": True},
        "float": {"attn_mask": torch.tensor(bias)},
    }[kind]
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    expected = F.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in tensors), scale=scale, enable_gqa=N != K, **theirs
    ).transpose(1, 2)
    expected.backward(torch.tensor(upstream, dtype=torch.float32))
    inputs = [tf.constant(x) for x in arrays]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = dot_product_attention(*inputs, scale=scale, **ours)
        loss = tf.reduce_sum(output * upstream.astype("float32"))
    np.testing.assert_allclose(output, expected.detach(), atol=1e-5)
    for gradient, tensor in zip(tape.gradient(loss, inputs), tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad, atol=1e-5)


@pytest.mark.quick(
    slow=[
        "mask-True-float32",
        "mask-True-float16",
        "mask-True-bfloat16",
        "bias-True-float32",
        "bias-True-float16",
        "bias-True-bfloat16",
        "causal-True-float32",
        "causal-True-float16",
        "causal-True-bfloat16",
        "both-True-bfloat16",
    ]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("jit", [None, False, True])
@pytest.mark.parametrize("how", ["mask", "bias", "causal", "both"])
def test_nothing_visible(dtype, jit, how):
    """Zero weights and context, and gradients that are exactly zero, whatever is masked by."""
    rng = np.random.default_rng(0)
    x = tf.cast(rng.normal(size=(1, 4, 2, 3)) * 30, dtype)
    memory = tf.cast(rng.normal(size=(1, 2 if how == "causal" else 4, 2, 3)) * 30, dtype)
    mask, bias = np.ones((1, 1, 4, 4), bool), np.zeros((1, 1, 4, 4), "float32")
    mask[:, :, 1] = False
    bias[:, :, 1] = -np.inf
    kwargs = {
        "mask": {"mask": mask},
        "bias": {"bias": bias},
        "causal": {"use_causal_mask": True},  # T = 4, S = 2: the first two queries see nothing
        "both": {"mask": np.eye(4, k=1, dtype=bool)[None, None], "use_causal_mask": True},
    }[how]

    def run(x, memory):
        with tf.GradientTape() as tape:
            tape.watch([x, memory])
            context, weights = dot_product_attention(
                x, memory, memory, return_attention_scores=True, **kwargs
            )
            loss = tf.reduce_sum(tf.cast(context, "float32") * [1.0, 2.0, -1.0])
        return context, weights, *tape.gradient(loss, [x, memory])

    run = run if jit is None else tf.function(run, jit_compile=jit, autograph=False)
    context, weights, of_x, of_memory = (tf.cast(t, "float32").numpy() for t in run(x, memory))
    assert (context[0, 1] == 0).all()
    assert (weights[0, :, 1] == 0).all()
    assert (of_x[0, 1] == 0).all()
    assert np.isfinite(of_x).all()
    assert np.isfinite(of_memory).all()
    if how == "both":
        assert (context == 0).all()
    else:
        assert (weights[0, :, 3].sum(-1) > 0.99).all()


def test_huge_float16_scores():
    """A product beyond float16 saturates instead of giving NaN."""
    x = ops.full((1, 3, 1, 4), 2.0e4, dtype="float16")
    context, weights = dot_product_attention(x, x, x, scale=1.0, return_attention_scores=True)
    np.testing.assert_allclose(weights, np.full((1, 1, 3, 3), 1 / 3), atol=1e-3)
    np.testing.assert_allclose(context, np.full((1, 3, 1, 4), 2.0e4), rtol=1e-3)


def test_softmax_is_computed_in_float32():
    """In bfloat16 256 equal weights and one more would not add up to 1."""
    scores = ops.concatenate([ops.zeros((1, 256)), ops.full((1, 1), 0.01)], axis=-1)
    weights = masked_softmax(ops.cast(scores, "bfloat16"))
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    np.testing.assert_allclose(np.sum(weights), 1.0, atol=1e-6)


@pytest.mark.parametrize("T, S", [(1, 1), (3, 1), (1, 4), (0, 3), (2, 0)])
def test_short_and_empty(T, S):
    """One key, no key, no query."""
    q, kv = ops.ones((2, T, 2, 3)), ops.ones((2, S, 2, 3))
    context, weights = dot_product_attention(q, kv, kv, return_attention_scores=True)
    assert tuple(weights.shape) == (2, 2, T, S)
    np.testing.assert_allclose(context, np.full((2, T, 2, 3), float(S > 0)))
    hidden = ops.zeros((2, 1, 1, S), dtype="bool")
    assert (np.asarray(dot_product_attention(q, kv, kv, mask=hidden)) == 0).all()


def test_dropout():
    """Weights fall out with the given rate and the others grow; the returned ones are whole."""
    q = ops.zeros((1, 1, 1, 2))
    kv = ops.ones((1, 4000, 1, 2))
    context, weights = dot_product_attention(
        q, kv, kv, dropout=0.25, seed=3, return_attention_scores=True
    )
    np.testing.assert_allclose(weights, np.full((1, 1, 1, 4000), 1 / 4000), rtol=1e-4)
    assert abs(float(context[0, 0, 0, 0]) - 1.0) < 0.05
    assert float(context[0, 0, 0, 0]) != 1.0


def test_float64_stays():
    rng = np.random.default_rng(0)
    q = rng.normal(size=(1, 3, 1, 4))
    bias = rng.normal(size=(1, 1, 3, 3))
    output = dot_product_attention(*[ops.convert_to_tensor(q)] * 3, bias=bias)
    scores = q[0, :, 0] @ q[0, :, 0].T / 2 + bias[0, 0]
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(output[0, :, 0], weights @ q[0, :, 0], atol=1e-13)


@pytest.mark.parametrize(
    "q, k, v, words",
    [
        ((1, 2, 4), (1, 2, 1, 4), (1, 2, 1, 4), "B, T, N, H"),
        ((1, 2, 1, 4), (1, 2, 1, 5), (1, 2, 1, 4), "the same head width"),
        ((1, 2, 3, 4), (1, 2, 2, 4), (1, 2, 2, 4), "must divide"),
        ((1, 2, 2, 4), (1, 2, 2, 4), (1, 2, 1, 4), "number of heads"),
        ((1, 2, 2, 4), (1, 2, 2, 4), (1, 3, 2, 4), "same length"),
    ],
)
def test_errors(q, k, v, words):
    with pytest.raises(ValueError, match=words) as error:
        dot_product_attention(ops.ones(q), ops.ones(k), ops.ones(v))
    assert str(q) in str(error.value)
    assert str(v) in str(error.value)


def test_float_masks_are_refused():
    x = ops.ones((1, 2, 1, 4))
    with pytest.raises(ValueError, match="float32"):
        dot_product_attention(x, x, x, mask=ops.ones((1, 1, 2, 2)))
    with pytest.raises(ValueError, match="float32"):
        masked_softmax(ops.zeros((2, 2)), ops.ones((2, 2)))
    with pytest.raises(ValueError, match="float32"):
        y = ops.ones((1, 2, 4))
        additive_attention(y, y, y, ops.ones((4,)), mask=ops.ones((1, 2, 2)))
    integers = ops.convert_to_tensor([[1, 0], [0, 0]])
    np.testing.assert_array_equal(masked_softmax(ops.zeros((2, 2)), integers), [[1, 0], [0, 0]])
