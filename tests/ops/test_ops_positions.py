"""Sinusoids by their formula, in float64."""

import math

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_attn.ops import sinusoids, token_positions


def by_formula(position, dim, wavelength=10000.0):
    """Section 3.5 of the paper, element by element."""
    row = []
    for i in range(dim):
        angle = position / wavelength ** (2 * (i // 2) / dim)
        row.append(math.cos(angle) if i % 2 else math.sin(angle))
    return row


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 33, 512])
@pytest.mark.parametrize("wavelength", [10000.0, 100.0])
def test_formula(dim, wavelength):
    positions = [0, 1, 2, 3, 100, 255, 256, 257, 511, 512, 5000, 65535, 65536, 100000, 1000003]
    expected = [by_formula(p, dim, wavelength) for p in positions]
    actual = sinusoids(ops.array(positions), dim, wavelength)
    assert actual.dtype == "float32"
    np.testing.assert_allclose(actual, expected, atol=1e-4)
    np.testing.assert_allclose(actual[:7], expected[:7], atol=3e-5)


def test_other_positions():
    """Negative ones and fractions too, in any shape, compiled too."""
    positions = np.array([[[-1.0, -300.0], [0.5, 1234.25]]])
    expected = [[[by_formula(p, 5) for p in row] for row in rows] for rows in positions]
    np.testing.assert_allclose(sinusoids(ops.array(positions), 5), expected, atol=1e-4)
    compiled = tf.function(lambda p: sinusoids(p, 5), jit_compile=True)
    np.testing.assert_allclose(compiled(tf.constant(positions)), expected, atol=1e-4)


def test_a_shift_is_a_rotation():
    """What the paper chose them for: PE[p + k] is PE[p] turned, by the same angle for all p."""
    table = np.asarray(sinusoids(ops.arange(50), 6), "float64")
    sines, cosines = table[:, 0::2], table[:, 1::2]
    rates = 10000.0 ** (-np.arange(3) * 2 / 6)
    turned = sines[:-7] * np.cos(7 * rates) + cosines[:-7] * np.sin(7 * rates)
    np.testing.assert_allclose(sines[7:], turned, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (1, 1), (2, 0)])
def test_token_positions(shape):
    positions = ops.convert_to_numpy(token_positions(ops.ones(shape)))
    assert positions.dtype == np.int32
    assert positions.tolist() == [list(range(shape[1]))] * shape[0]
