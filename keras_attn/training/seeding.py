"""Seeds and states of random number generators."""

import random

import keras
import numpy as np
from keras.src.backend.common.global_state import get_global_attribute, set_global_attribute
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, global_seed_generator

_KERAS = "keras"


def seed_everything(seed: int, deterministic: bool = True) -> None:
    """Seeds the random generators of Python, NumPy, Keras, TensorFlow and PyTorch.

    TensorFlow and PyTorch are only seeded if they are the backend, whereas
    `keras.utils.set_random_seed` imports TensorFlow on every backend. Keras takes the seeds of new
    layers and initializers, and of the generator of `keras.random`, from Python's generator.

    Args:
        seed: Integer from 0 to 2^32 - 1.
        deterministic: Whether to call `tf.config.experimental.enable_op_determinism` on TensorFlow.
            JAX is always deterministic on CPUs.

    Raises:
        ValueError: If `seed` is not an integer from 0 to 2^32 - 1.

    Example:

    >>> seed_everything(7, deterministic=False)
    >>> first = random.random()
    >>> seed_everything(7, deterministic=False)
    >>> random.random() == first
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"`seed` must be an integer from 0 to 2^32 - 1. Received: {seed!r}.")
    if keras.backend.backend() == "tensorflow":
        keras.utils.set_random_seed(seed)
        if deterministic:
            import tensorflow as tf

            tf.config.experimental.enable_op_determinism()
        return
    set_global_attribute(GLOBAL_SEED_GENERATOR, None)  # Keras creates another from the new seed
    random.seed(seed)
    np.random.seed(seed)
    if keras.backend.backend() == "torch":
        import torch

        torch.manual_seed(seed)


def generator_states() -> dict[str, np.ndarray]:
    """Returns the states of random generators that are not variables of a model.

    These are Keras' global generator, which `keras.random` uses for calls without a seed, if it has
    been used; and on PyTorch, its own generators, which Keras uses for dropout.
    """
    arrays = {}
    generator = get_global_attribute(GLOBAL_SEED_GENERATOR)
    if generator is not None:
        arrays[_KERAS] = np.array(keras.ops.convert_to_numpy(generator.state))
    if keras.backend.backend() != "torch":
        return arrays
    import torch

    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    return arrays | {name: state.numpy().copy() for name, state in states.items()}


def set_generator_states(states: dict[str, np.ndarray]) -> None:
    """Restores the result of `generator_states` on the available devices."""
    if _KERAS in states:
        global_seed_generator().state.assign(states[_KERAS])
    if keras.backend.backend() != "torch":
        return
    import torch

    for name, state in states.items():
        if name == _KERAS:
            continue
        number = name.removeprefix("cuda")
        if name == "cpu":
            torch.set_rng_state(torch.from_numpy(state))
        elif int(number) < torch.cuda.device_count():
            torch.cuda.set_rng_state(torch.from_numpy(state), int(number))
