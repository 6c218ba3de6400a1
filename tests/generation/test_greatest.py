"""The greatest entries of rows."""

import keras
import numpy as np
import pytest
from processes import answer

from keras_attn.generation.greatest import _block_width, greatest, greatest_k


def rows(size, kind, count=7):
    rng = np.random.default_rng(size)
    if kind == "ties":
        return rng.integers(0, 4, (count, size)).astype("float32")
    x = rng.normal(size=(count, size)).astype("float32")
    if kind == "impossible":
        x[rng.random(x.shape) < 0.9] = -np.inf
        x[0] = -np.inf
        x[1, :-1] = -np.inf
    return x


@pytest.mark.parametrize("kind", ["random", "ties", "impossible"])
@pytest.mark.parametrize("size", [1, 5, 511, 4000, 4001, 8191])
def test_greatest_is_the_first_maximum(size, kind):
    x = rows(size, kind)
    value, index = map(keras.ops.convert_to_numpy, greatest(keras.ops.convert_to_tensor(x)))
    np.testing.assert_array_equal(value, x.max(-1))
    np.testing.assert_array_equal(index, x.argmax(-1))
    assert index.dtype == "int32"


@pytest.mark.parametrize("kind", ["random", "ties", "impossible"])
@pytest.mark.parametrize("k", [1, 4, 5])
@pytest.mark.parametrize("size", [5, 511, 4000, 4001, 8191])
def test_greatest_k_are_those_of_a_stable_sort(size, k, kind):
    """Blocks or not, divisible or not: sorted, and of equal entries the first ones first."""
    x = rows(size, kind)
    order = np.argsort(-x, axis=-1, kind="stable")[:, :k]
    values, index = map(keras.ops.convert_to_numpy, greatest_k(keras.ops.convert_to_tensor(x), k))
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis=-1))
    possible = values > -np.inf
    np.testing.assert_array_equal(index[possible], order[possible])
    assert index.dtype == "int32"
    assert (index < size).all()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", pytest.param("jax", marks=pytest.mark.slow)])
def test_equal_entries_on_other_backends(backend):
    script = """
import json, sys
import numpy as np
from keras import ops
from keras_attn.generation.greatest import greatest_k
x = np.random.default_rng(0).integers(0, 3, (5, 2000)).astype("float32")
found = [ops.convert_to_numpy(greatest_k(ops.convert_to_tensor(x[:, :n]), 4)[1]).tolist()
         for n in (300, 2000)]
print(json.dumps(found))
"""
    x = np.random.default_rng(0).integers(0, 3, (5, 2000)).astype("float32")
    wanted = [np.argsort(-x[:, :n], axis=-1, kind="stable")[:, :4].tolist() for n in (300, 2000)]
    assert answer(backend, script) == wanted


def test_rows_of_rows():
    x = rows(4000, "random", 6)
    values, index = greatest_k(keras.ops.convert_to_tensor(x.reshape(2, 3, -1)), 4)
    assert tuple(values.shape) == tuple(index.shape) == (2, 3, 4)
    of_rows = keras.ops.convert_to_numpy(greatest_k(keras.ops.convert_to_tensor(x), 4)[1])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(index).reshape(6, 4), of_rows)


@pytest.mark.parametrize("size", [512, 4000, 4001, 8191, 30522, 50257, 250000])
@pytest.mark.parametrize("k", [1, 4, 10])
def test_blocks_leave_little_to_look_at(size, k):
    width = _block_width(size, k)
    assert width is not None and k <= -(-size // width)
    assert -(-size // width) + k * width < size / 2


def test_short_rows_and_many_have_no_blocks():
    assert _block_width(500, 1) is None
    assert _block_width(4000, 200) is None
