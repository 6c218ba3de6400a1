"""Dropout whose random numbers cost little."""

from typing import Any

import keras
import numpy as np
from keras import ops, random

Tensor = Any

LEVELS = 1 << 16  # of the random numbers: two in a word of 32 bits


def dropout(x: Tensor, rate: float, seed: Any = None) -> Tensor:
    """Sets a share of the units to zero, and scales the others (Srivastava et al., 2014).

        output = keep * x / (1 - rate),    keep = 1 with probability 1 - rate

    As `keras.random.dropout`, with cheaper random numbers on TensorFlow and JAX: a generator of
    Keras' backend draws two words a call, and unit i takes 16 bits of a hash of them and i (the
    mixing function is Wellons', "lowbias32"; generators of that kind: Salmon et al., 2011,
    "Parallel random numbers: as easy as 1, 2, 3"). That is some operations on integers a unit,
    which XLA joins with those around it. `rate` is rounded to a multiple of 2^-16, and so is the
    scale. PyTorch has its own generator.

    Args:
        x: Floats of any shape.
        rate: Share of the units set to zero, in [0, 1).
        seed: Integer, the same units each time, or `keras.random.SeedGenerator`, others each time.
            None: `keras.random.dropout` with Keras' global generator.

    Returns:
        A tensor as `x`.

    Raises:
        ValueError: If the rate is out of range.

    Example:

    >>> y = ops.convert_to_numpy(dropout(ops.ones((100, 100)), 0.5, seed=1))
    >>> np.unique(y).tolist(), bool(abs(y.mean() - 1) < 0.05)
    ([0.0, 2.0], True)
    """
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must be at least 0 and below 1. Received: {rate}.")
    if seed is None or keras.backend.backend() not in ("tensorflow", "jax"):
        return random.dropout(x, rate, seed=seed)
    threshold = min(round(rate * LEVELS), LEVELS - 1)
    scale = LEVELS / (LEVELS - threshold)
    if not threshold:
        return x
    bits = _tensorflow_bits if keras.backend.backend() == "tensorflow" else _jax_bits
    keep = bits(x, _drawn(seed)) >= np.uint16(threshold)
    return ops.where(keep, x * ops.convert_to_tensor(scale, x.dtype), ops.zeros((), x.dtype))


def _drawn(seed: Any) -> Tensor:
    """Draws two integers from what Keras takes for a seed."""
    if isinstance(seed, random.SeedGenerator):
        return seed.next()
    return ops.convert_to_tensor(np.array([seed & 0x7FFFFFFF, 0]), "int32")


def _mixed(word: Any, right_shift: Any, xor: Any, constant: Any) -> Any:
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = xor(word, right_shift(word, constant(shift))) * constant(factor)
    return xor(word, right_shift(word, constant(16)))


def _tensorflow_bits(x: Tensor, seed: Tensor) -> Tensor:
    import tensorflow as tf

    key = tf.random.stateless_uniform(
        (2,), tf.cast(seed, "int32"), minval=None, maxval=None, dtype="uint32", alg="philox"
    )
    size = tf.size(x)
    words = tf.cast(tf.range((size + 1) // 2), "uint32") * (key[0] | 1) + key[1]
    words = _mixed(
        words,
        tf.bitwise.right_shift,
        tf.bitwise.bitwise_xor,
        lambda value: tf.constant(value, "uint32"),
    )
    bits = tf.reshape(tf.bitcast(words, "uint16"), (-1,))
    if x.shape.num_elements() is None or x.shape.num_elements() % 2:
        bits = bits[:size]
    return tf.reshape(bits, tf.shape(x))


def _jax_bits(x: Tensor, seed: Tensor) -> Tensor:
    import jax

    key = jax.random.bits(seed.astype("uint32"), (2,), "uint32")
    words = jax.numpy.arange((x.size + 1) // 2, dtype="uint32") * (key[0] | 1) + key[1]
    words = _mixed(
        words,
        jax.lax.shift_right_logical,
        jax.numpy.bitwise_xor,
        np.uint32,
    )
    bits = jax.lax.bitcast_convert_type(words, "uint16").reshape(-1)
    return bits[: x.size].reshape(x.shape)
