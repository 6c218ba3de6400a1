"""Dropout with cheap random numbers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops, random

from keras_attn.hints import Seed, Tensor

if TYPE_CHECKING:
    import jax
    import tensorflow as tf

LEVELS = 1 << 16  # number of random values: a word of 32 bits has two


def dropout(x: Tensor, rate: float, seed: Seed = None) -> Tensor:
    """Sets random units to zero, and scales up all other units (Srivastava et al., 2014).

        output = keep * x / (1 - rate),    keep = 1 with probability 1 - rate

    With a `seed`, random numbers are cheaper than in `keras.random.dropout` on TensorFlow and JAX:
    the backend draws two random words for a call, and unit i uses 16 bits of a hash of these words
    and i. The hash is Wellons' "lowbias32"; Salmon et al., 2011, "Parallel random numbers: as easy
    as 1, 2, 3", describe generators of this kind. The hash takes a few integer operations for each
    unit, which XLA fuses with the surrounding operations. `rate` is rounded to a multiple of 2^-16,
    and the scale is computed from the rounded rate. On PyTorch, and without a `seed`,
    `keras.random.dropout` is used.

    Args:
        x: Floats of any shape.
        rate: Fraction of the units set to zero, in [0, 1).
        seed: An integer to drop the same units each time, or a `keras.random.SeedGenerator` to drop
            different units each time. None uses `keras.random.dropout` with the global generator.

    Returns:
        A tensor with the shape and dtype of `x`.

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
    bits: Callable[..., Tensor] = (
        _tensorflow_bits if keras.backend.backend() == "tensorflow" else _jax_bits
    )
    keep = bits(x, _drawn(seed)) >= np.uint16(threshold)
    return ops.where(keep, x * ops.convert_to_tensor(scale, x.dtype), ops.zeros((), x.dtype))


def _drawn(seed: "int | random.SeedGenerator") -> Tensor:
    """Draws two integers from a seed or a seed generator."""
    if isinstance(seed, random.SeedGenerator):
        return seed.next()
    return ops.convert_to_tensor(np.array([seed & 0x7FFFFFFF, 0]), "int32")


def _mixed(word: Tensor, right_shift: Callable, xor: Callable, constant: Callable) -> Any:
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = xor(word, right_shift(word, constant(shift))) * constant(factor)
    return xor(word, right_shift(word, constant(16)))


def _tensorflow_bits(x: "tf.Tensor", seed: "tf.Tensor") -> "tf.Tensor":
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


def _jax_bits(x: "jax.Array", seed: "jax.Array") -> "jax.Array":
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
