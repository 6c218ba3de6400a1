"""Rotary positions and ALiBi: by complex numbers, by the papers' numbers, and their promises."""

import numpy as np
import pytest
import tensorflow as tf
import torch
from keras import ops

from keras_attn.ops import alibi_bias, alibi_slopes, apply_rotary, dot_product_attention

B, T, N, H = 2, 5, 3, 8


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def by_complex_numbers(x, positions, base=10000.0):
    """Channel i and i + H/2 as one complex number, times exp(i angle); float64."""
    half = x.shape[-1] // 2
    z = x[..., :half] + 1j * x[..., half:]
    angles = positions[..., None] * base ** (-2.0 * np.arange(half) / x.shape[-1])
    z = z * np.exp(1j * angles)[..., None, :]
    return np.concatenate([z.real, z.imag], axis=-1)


def by_torch(x, positions, base=10000.0):
    """`x cos + rotate_half(x) sin` with tables as wide as the heads."""
    x, half = torch.tensor(x), x.shape[-1] // 2
    rates = 1.0 / base ** (torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angles = torch.tensor(positions, dtype=torch.float64)[..., None] * rates
    table = torch.cat([angles, angles], -1)[..., None, :]
    rotated = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * table.cos() + rotated * table.sin()).numpy()


POSITIONS = {
    "none": None,
    "one row": np.array([0, 1, 7, 300, 70000]),
    "a row": np.array([[4, 3, 2, 1, 0]]),
    "each": np.array([[0, 1, 2, 3, 4], [9, 9, 0, 1000, 2]]),
}


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary(positions, base):
    x, positions = normal(B, T, N, H), POSITIONS[positions]
    actual = apply_rotary(ops.array(x, "float32"), positions, base)
    assert actual.dtype == "float32"
    given = np.arange(T)[None] if positions is None else np.atleast_2d(positions)
    for reference in (by_complex_numbers, by_torch):
        np.testing.assert_allclose(actual, reference(x, given, base), atol=5e-4)
        near = given < 1000  # as near as float32 is
        rows = np.broadcast_to(near, (B, T))
        expected = reference(x, given, base)
        np.testing.assert_allclose(actual.numpy()[rows], expected[rows], atol=3e-5)


def test_rotary_keeps_lengths_and_dtypes():
    x = normal(B, T, N, H)
    turned = apply_rotary(ops.array(x, "float32"))
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), 1e-5)
    np.testing.assert_array_equal(turned[:, 0], x[:, 0].astype("float32"))
    expected = by_complex_numbers(x, np.arange(T)[None])
    for dtype, atol in [("float16", 3e-3), ("bfloat16", 3e-2)]:
        half = apply_rotary(ops.cast(ops.array(x, "float32"), dtype))
        assert half.dtype == dtype
        np.testing.assert_allclose(ops.cast(half, "float32"), expected, atol=atol)


@pytest.mark.parametrize("shape", [(2, 4, 8), (2, 4, 2, 7)])
def test_rotary_wants_pairs(shape):
    with pytest.raises(ValueError, match=r"even width H.*Received: shape \(2, 4"):
        apply_rotary(ops.ones(shape))


@pytest.mark.parametrize(
    "scaling", [{"factor": 2.0}, {"type": "yarn", "factor": 2.0}, {"type": "linear"}]
)
def test_an_unknown_scaling_is_refused(scaling):
    with pytest.raises(ValueError, match=r"`scaling` must be None, .* Received: "):
        apply_rotary(ops.ones((1, 2, 1, 4)), ops.arange(2), scaling=scaling)


def test_slopes():
    """The paper's: 1/2 ... 1/256 for 8 heads, 1 / sqrt(2) ... for 16; 12 are 8 and 4 of the 16."""
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    np.testing.assert_allclose(alibi_slopes(16), [2.0 ** (-i / 2) for i in range(1, 17)], 1e-12)
    twelve = [*[2.0**-i for i in range(1, 9)], *[2.0**-i for i in (0.5, 1.5, 2.5, 3.5)]]
    np.testing.assert_allclose(alibi_slopes(12), twelve, 1e-12)
    np.testing.assert_allclose(alibi_slopes(3), [2.0**-4, 2.0**-8, 2.0**-2], 1e-12)
    assert alibi_slopes(1).tolist() == [2.0**-8]
    assert all(len(alibi_slopes(n)) == len(set(alibi_slopes(n))) == n for n in range(1, 40))
    with pytest.raises(ValueError, match=r"positive integer\. Received: 0"):
        alibi_slopes(0)


def test_alibi_bias():
    """One row for all where positions are those of all; exact at positions of millions."""
    p = [0, 1, 2, 5]
    bias = alibi_bias(8, ops.array([p]))
    assert (bias.dtype, bias.shape) == ("float32", (1, 8, 4, 4))
    for n, (t, s) in [(0, (3, 0)), (2, (1, 3)), (7, (2, 2))]:
        assert float(bias[0, n, t, s]) == -(2.0 ** -(n + 1)) * abs(p[t] - p[s])
    far = alibi_bias(8, ops.array([p]) + 5_000_000)
    np.testing.assert_array_equal(far, bias)
    each = alibi_bias(2, ops.array([[3], [7]]), ops.array([[0, 1, 2, 3], [7, 5, 0, 8]]))
    assert each.shape == (2, 2, 1, 4)
    np.testing.assert_array_equal(each[1, 0, 0], -np.array([0, 2, 7, 1]) / 16)
    unsigned = alibi_bias(8, ops.array([p], "uint8"))
    np.testing.assert_array_equal(unsigned, bias)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_only_distances_count(jit_compile):
    """All positions moved by 1000: the attention is the same; not moved alike: another."""
    q, k, v = (ops.array(normal(B, T, N, H, seed=i), "float32") for i in range(3))

    def attend(positions, shift):
        rotated = apply_rotary(q, positions), apply_rotary(k, positions + shift)
        bias = alibi_bias(N, positions, positions + shift)
        plain = dot_product_attention(q, k, v, bias=bias)
        return dot_product_attention(*rotated, v, use_causal_mask=True), plain

    attend = tf.function(attend, jit_compile=jit_compile, autograph=False)
    positions = tf.constant([[0, 1, 2, 3, 4], [0, 2, 3, 3, 9]])
    for here, moved, apart in zip(
        attend(positions, tf.constant(0)),
        attend(positions + 1000, tf.constant(0)),
        attend(positions, tf.constant(2)),
        strict=True,
    ):
        np.testing.assert_allclose(moved, here, atol=2e-5)
        assert np.abs(apart - here).max() > 1e-2
