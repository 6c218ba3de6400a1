"""Positions that enter the attention, not the embeddings: rotary ones and ALiBi."""

import math
from typing import Any

import numpy as np
from keras import ops

from keras_attn.ops.masks import static_shape
from keras_attn.ops.positions import position_angles, token_positions

Tensor = Any


def apply_rotary(x: Tensor, positions: Tensor | None = None, base: float = 10000.0) -> Tensor:
    """Rotates queries or keys by their positions (Su et al., 2021, section 3.4).

        a[i]           = position * base ** (-2i / H)                  i < H / 2
        y[i]           = x[i] cos(a[i]) - x[i + H/2] sin(a[i])
        y[i + H/2]     = x[i + H/2] cos(a[i]) + x[i] sin(a[i])

    The product of a rotated query and a rotated key depends on the distance of their positions
    alone. Channel i is paired with channel i + H / 2, as in GPT-NeoX and Llama; the paper pairs
    neighbours 2i and 2i + 1, which is the same up to a fixed order of the channels, that of the
    columns of the projections. Computed in float32.

    Args:
        x: Queries or keys `(B, T, N, H)`, H even.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`; `0 ... T-1` if None.
        base: 10000 in the paper; greater for longer contexts.

    Returns:
        `(B, T, N, H)` in the dtype of `x`.

    Raises:
        ValueError: For another rank, or an odd H.

    Example:

    >>> x = ops.array([[[[1.0, 0.0]], [[1.0, 0.0]]]])
    >>> [round(float(v), 4) for v in apply_rotary(x)[0, 1, 0]]  # turned by one radian
    [0.5403, 0.8415]
    """
    shape = static_shape(x)
    if len(shape) != 4 or shape[-1] is None or shape[-1] % 2:
        raise ValueError(
            "`x` must have shape (B, T, N, H) with an even width H of heads: rotary positions "
            f"rotate pairs of channels. Received: shape {shape}."
        )
    if positions is None:
        positions = token_positions(x[:1, :, 0])  # one row broadcasts over the batch
    rates = np.exp(-math.log(base) * np.arange(0, shape[-1], 2) / shape[-1])
    angles = ops.expand_dims(position_angles(positions, rates), -2)  # (1|B, T, 1, H / 2)
    dtype = x.dtype
    exact = "float64" if ops.dtype(x) == "float64" else "float32"
    cos, sin = ops.cast(ops.cos(angles), exact), ops.cast(ops.sin(angles), exact)
    first, second = ops.split(ops.cast(x, exact), 2, axis=-1)
    rotated = ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return ops.cast(rotated, dtype)


def alibi_slopes(num_heads: int) -> np.ndarray:
    """The slope of each head of ALiBi (Press et al., 2022, section 3).

        m[n] = 2 ** (-8 (n + 1) / N)        N a power of two

    For another N, with P the greatest power of two below it: the slopes of P heads, then every
    other one of the slopes of 2 P heads, from the first, until there are N.

    Args:
        num_heads: Number of heads N.

    Returns:
        float64 array `(N,)`.

    Raises:
        ValueError: For a number below 1.

    Example:

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    if num_heads < 1:
        raise ValueError(f"`num_heads` must be a positive integer. Received: {num_heads!r}.")
    power = 1 << (num_heads.bit_length() - 1)
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-8 * np.arange(1, 2 * power + 1, 2) / (2 * power))
    return np.concatenate([slopes, between[: num_heads - power]])


def alibi_bias(num_heads: int, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
    """What ALiBi adds to the scaled scores (Press et al., 2022): less, the farther a key is.

        bias[n, t, s] = -m[n] |positions[t] - key_positions[s]|

    With a causal mask that is the paper's; without one it falls alike to both sides.

    Args:
        num_heads: Number of query heads N.
        positions: Positions of the queries, integers `(1, T)` or `(B, T)`.
        key_positions: Positions of the keys `(1, S)` or `(B, S)`; those of the queries if None.

    Returns:
        float32 tensor `(1, N, T, S)`, or `(B, N, T, S)` where rows have positions of their own.

    Example:

    >>> bias = alibi_bias(8, ops.array([[0, 1, 2]]))
    >>> tuple(bias.shape), bias[0, 0, 2, :2].numpy().tolist()
    ((1, 8, 3, 3), [-1.0, -0.5])
    """
    positions = ops.cast(positions, "float32")
    key_positions = positions if key_positions is None else ops.cast(key_positions, "float32")
    distance = ops.abs(ops.expand_dims(positions, 2) - ops.expand_dims(key_positions, 1))
    slopes = ops.convert_to_tensor(alibi_slopes(num_heads)[:, None, None], "float32")
    return ops.expand_dims(distance, 1) * -slopes
