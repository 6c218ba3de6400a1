"""Seeds of all random generators."""

import random

import keras
import numpy as np
import pytest

from keras_attn.training import seed_everything


@pytest.mark.quick("jax")
@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_the_same_seed_gives_the_same_numbers(backend, monkeypatch):
    """The generator of `keras.random` too, where `keras.utils.set_random_seed` is not called."""
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    numbers = []
    for _ in range(2):
        seed_everything(7, deterministic=False)
        drawn = keras.ops.convert_to_numpy(keras.random.normal((3,)))
        numbers.append([*drawn, random.random(), np.random.rand()])
    assert numbers[0] == numbers[1]
    seed_everything(8, deterministic=False)
    assert keras.ops.convert_to_numpy(keras.random.normal((3,)))[0] != numbers[0][0]
