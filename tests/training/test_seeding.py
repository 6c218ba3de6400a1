"""Seeds of all random generators."""

import random

import keras
import numpy as np
import pytest

from keras_attn.training import seed_everything
from keras_attn.training.seeding import generator_states, set_generator_states


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


def test_global_generators_continue_where_they_were():
    """A call of `keras.random` without a seed depends on a variable of no model."""
    keras.random.normal((1,))
    states = generator_states()
    drawn = [keras.ops.convert_to_numpy(keras.random.normal((2,))).tolist() for _ in range(2)]
    set_generator_states(states)
    again = [keras.ops.convert_to_numpy(keras.random.normal((2,))).tolist() for _ in range(2)]
    assert again == drawn and drawn[0] != drawn[1]
