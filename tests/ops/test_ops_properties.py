"""Any shapes, masks and dtypes, against a naive attention in float64."""

import keras
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_attn.ops import additive_attention, dot_product_attention, masked_softmax

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}
few = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def rounded(x, dtype):
    """What a tensor of `dtype` holds, in float64, and the tensor."""
    tensor = ops.cast(ops.convert_to_tensor(x), dtype)
    return np.asarray(ops.convert_to_numpy(ops.cast(tensor, "float64"))), tensor


def naive(scores, value, visible):
    """Weights and context of `(T, S)` scores, one row after the other."""
    weights = np.zeros(scores.shape)
    for t in range(scores.shape[0]):
        seen = np.flatnonzero(visible[t])
        if len(seen):
            exp = np.exp(scores[t, seen] - scores[t, seen].max())
            weights[t, seen] = exp / exp.sum()
    return weights, weights @ value


dimensions = st.integers(1, 5)


@few
@given(
    B=st.integers(1, 3),
    T=dimensions,
    S=dimensions,
    K=st.integers(1, 3),
    group=st.integers(1, 3),
    H=dimensions,
    Hv=dimensions,
    dtype=st.sampled_from(sorted(TOLERANCE)),
    density=st.sampled_from([0.0, 0.2, 0.6, 1.0]),
    axes=st.tuples(*[st.booleans()] * 3),
    causal=st.booleans(),
    masked=st.booleans(),
    biased=st.booleans(),
    scale=st.sampled_from([None, 0.3, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_dot_product_attention(
    B, T, S, K, group, H, Hv, dtype, density, axes, causal, masked, biased, scale, seed
):
    rng = np.random.default_rng(seed)
    N = K * group
    (q, query), (k, key), (v, value) = (
        rounded(rng.normal(size=shape), dtype)
        for shape in [(B, T, N, H), (B, S, K, H), (B, S, K, Hv)]
    )
    shape = [1 if one else n for one, n in zip(axes, (B, N, T), strict=True)]
    mask = rng.random((*shape, S)) < density if masked else None
    bias = rng.normal(size=(1, N, T, S)) if biased else None
    if biased:
        bias[rng.random(bias.shape) < 0.2] = -np.inf
        bias = bias.astype("float32")
    context, weights = dot_product_attention(
        query, key, value, mask, bias, scale, causal, return_attention_scores=True
    )
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    assert tuple(context.shape) == (B, T, N, Hv)
    assert tuple(weights.shape) == (B, N, T, S)
    visible = np.ones((B, N, T, S), bool) if mask is None else np.broadcast_to(mask, (B, N, T, S))
    if causal:
        visible = visible & np.tril(np.ones((T, S), bool), S - T)
    bias = np.zeros((1, N, T, S)) if bias is None else bias
    visible = visible & np.isfinite(bias)
    context, weights = (
        np.asarray(ops.convert_to_numpy(ops.cast(x, "float64"))) for x in (context, weights)
    )
    for b, n in np.ndindex(B, N):
        scores = q[b, :, n] @ k[b, :, n // group].T * (H**-0.5 if scale is None else scale)
        expected = naive(scores + bias[0, n], v[b, :, n // group], visible[b, n])
        np.testing.assert_allclose(weights[b, n], expected[0], atol=TOLERANCE[dtype])
        np.testing.assert_allclose(context[b, :, n], expected[1], atol=4 * TOLERANCE[dtype])
        assert (weights[b, n][~visible[b, n]] == 0).all()
        assert (context[b, ~visible[b, n].any(-1), n] == 0).all()


@few
@given(
    B=st.integers(1, 3),
    T=dimensions,
    S=dimensions,
    U=dimensions,
    D=dimensions,
    dtype=st.sampled_from(sorted(TOLERANCE)),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_additive_attention(B, T, S, U, D, dtype, density, seed):
    rng = np.random.default_rng(seed)
    (q, query), (k, key), (v, value), (u, scale) = (
        rounded(rng.normal(size=shape), dtype) for shape in [(B, T, U), (B, S, U), (B, S, D), (U,)]
    )
    mask = rng.random((B, T, S)) < density
    context, weights = additive_attention(
        query, key, value, scale, mask, return_attention_scores=True
    )
    assert keras.backend.standardize_dtype(context.dtype) == dtype
    for b in range(B):
        scores = np.tanh(q[b][:, None] + k[b][None]) @ u
        expected = naive(scores, v[b], mask[b])
        for actual, wanted in zip((weights, context), expected, strict=True):
            actual = np.asarray(ops.convert_to_numpy(ops.cast(actual[b], "float64")))
            np.testing.assert_allclose(actual, wanted, atol=6 * TOLERANCE[dtype])


@few
@given(
    shape=st.lists(dimensions, min_size=1, max_size=4),
    size=st.sampled_from([1e-3, 1.0, 1e4]),
    offset=st.sampled_from([-3e4, 0.0, 3e4]),
    dtype=st.sampled_from(sorted(TOLERANCE)),
    seed=st.integers(0, 2**16),
)
def test_masked_softmax(shape, size, offset, dtype, seed):
    """Sums to one or to nothing, is zero where masked, and does not mind great scores."""
    rng = np.random.default_rng(seed)
    _, scores = rounded(rng.normal(size=shape) * size + offset, dtype)
    mask = rng.random(shape) < 0.6
    weights = np.asarray(masked_softmax(scores, mask))
    assert weights.dtype == ("float64" if dtype == "float64" else "float32")
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), mask.any(-1).astype("float32"), atol=1e-5)
