"""The types of hints: tensors of every backend pass, and what is none is refused."""

import importlib.util
import subprocess
import sys

import pytest

PASSES = """
import jax.numpy as jnp
import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf
import torch

from keras_attn.hints import Seed, Shape, Size, Tensor, TensorLike
from keras_attn.ops import dot_product_attention, masked_softmax
from keras_attn.training import MaskedCrossEntropy

floats: npt.NDArray[np.float32] = np.zeros((2, 3, 4, 8), "float32")
ids: npt.NDArray[np.int32] = np.zeros((2, 3), "int32")
seen: npt.NDArray[np.bool_] = np.ones((2, 1, 1, 3), "bool")


def computed(x: Tensor) -> Tensor:
    return 1 - 2 * x[..., 0] + x * x / 3


for x in (floats, ids, seen):
    computed(x)
computed(torch.zeros(3))
computed(jnp.zeros(3))
computed(tf.zeros(3))
computed(keras.ops.zeros(3))
computed(keras.Input((3,)))
context = dot_product_attention(floats, floats, floats, seen, seed=keras.random.SeedGenerator(1))
context.shape
dot_product_attention(torch.zeros(1, 2, 2, 4), torch.zeros(1, 2, 2, 4), torch.zeros(1, 2, 2, 4))
masked_softmax(jnp.zeros((2, 3)), jnp.ones((2, 3), "bool"))
MaskedCrossEntropy()(ids, floats[:, :, 0])
"""
REFUSED = """
from keras_attn.ops import masked_softmax

masked_softmax("text")
masked_softmax(3.0)
masked_softmax([1.0, 2.0])
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is in the extra dev")
@pytest.mark.parametrize(("text", "errors"), [(PASSES, 0), (REFUSED, 3)])
def test_what_a_type_checker_says_of_arrays(tmp_path, text, errors):
    path = tmp_path / "user.py"
    path.write_text(text)
    command = [sys.executable, "-m", "mypy", "--ignore-missing-imports", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.count(": error: ") == errors, done.stdout + done.stderr
