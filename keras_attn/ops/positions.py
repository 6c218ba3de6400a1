"""Positions of tokens and their sinusoidal encodings."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.compilers import on_cpu
from keras_attn.ops.padding import known_value


def token_positions(x: Tensor) -> Tensor:
    """Returns the positions `0 ... T-1` of each row, even if T is unknown when a graph is traced.

    Args:
        x: Tensor `(B, T)` or `(B, T, D)`, of which only the shape is used.

    Returns:
        The positions, int32 `(B, T)`.

    Example:

    >>> ops.convert_to_numpy(token_positions(ops.ones((1, 3, 8)))).tolist()
    [[0, 1, 2]]
    """
    if len(x.shape) == 3:
        x = x[:, :, 0]
    return ops.cumsum(ops.ones_like(x, dtype="int32"), axis=1) - 1


def mask_positions(mask: Tensor, first: int = 0) -> Tensor:
    """Numbers the visible tokens of a mask, wherever the padding is (Liu et al., 2019).

    positions[b, t] = first - 1 + mask[b, t] sum_{u <= t} mask[b, u]
    """
    real = ops.cast(mask, "int32")
    return ops.cumsum(real, axis=1) * real + first - 1


def no_negative(index: Tensor, size: int) -> Tensor:
    """Moves negative indices of a table beyond its end, where they cause errors.

    `ops.take` would count negative indices from the end. For indices out of range, TensorFlow and
    PyTorch raise errors on CPUs. JAX gives NaN instead, so on JAX, this function checks indices
    that are known.
    """
    if "8" in ops.dtype(index) or "16" in ops.dtype(index):
        index = ops.cast(index, "int32")  # which holds `size`
    if keras.backend.backend() == "jax" and on_cpu():
        _check_known(index, size)
    return ops.where(index < 0, ops.cast(size, index.dtype), index)


def _check_known(index: Tensor, size: int) -> None:
    """Raises a ValueError if the value of `index` is known and outside a table of `size` rows."""
    known = known_value(index)
    if known is None or not known.size or (known.min() >= 0 and known.max() < size):
        return
    wrong = known[(known < 0) | (known >= size)]
    raise ValueError(
        f"Expected ids or positions from 0 to {size - 1}, the rows of the table. Received: "
        f"{int(wrong[0])}, in a tensor of shape {tuple(known.shape)}. Check that the "
        "tokenizer and the model have the same vocabulary size, and that the sequence is not "
        "too long. In compiled calls, JAX returns NaN instead of raising this error."
    )


def sinusoids(
    positions: Tensor,
    dim: int,
    max_wavelength: float = 10000.0,
    halves: bool = False,
    dtype: str = "float32",
) -> Tensor:
    """Returns sinusoidal encodings of positions (Vaswani et al., 2017, section 3.5).

        PE[p, 2i]   = sin(p / max_wavelength ** (2i / dim))
        PE[p, 2i+1] = cos(p / max_wavelength ** (2i / dim))

    If `halves` is True, all sines come before all cosines. An odd `dim` has one more sine than
    cosines. The result is computed without a table, and in float32, it is exact to 1e-4 for all
    positions below 2 ** 24. A plain float32 product would be wrong by 0.005 at position 100000, so
    positions are split into digits of base 256, and the angle of each digit is reduced to one turn
    beforehand.

    Args:
        positions: Integer or float tensor `(...)`.
        dim: Width D of the encoding.
        max_wavelength: Base of the wavelengths; the longest wavelength is at most `2 pi` times this
            base.
        halves: Whether all sines come before all cosines instead of alternating.
        dtype: Dtype of the computation and the result, `"float32"` or `"float64"`.

    Returns:
        The encodings `(..., D)`.

    Example:

    >>> [round(float(v), 4) for v in sinusoids(ops.array([1]), 4)[0]]
    [0.8415, 0.5403, 0.01, 0.9999]
    """
    index = np.arange(dim)
    if halves:
        index = np.concatenate([index[::2], index[1::2]])
    rates = np.exp(-math.log(max_wavelength) * 2 * (index // 2) / dim)
    angles = position_angles(positions, rates, dtype)
    return ops.where(ops.convert_to_tensor(index % 2 == 0), ops.sin(angles), ops.cos(angles))


def position_angles(positions: Tensor, rates: np.ndarray, dtype: str) -> Tensor:
    """Computes `positions * rates` modulo whole turns, in float32 or float64.

    In float32, the angles are exact to 1e-4 for positions below 2 ** 24.
    """
    rest = ops.expand_dims(ops.cast(positions, dtype), -1)
    angles: Any = 0.0
    for power in range(3):
        higher = ops.floor(rest / 256.0) if power < 2 else 0.0
        turn = np.remainder(rates * 256.0**power + math.pi, 2 * math.pi) - math.pi
        angles = angles + (rest - 256.0 * higher) * ops.convert_to_tensor(turn, dtype)
        rest = higher
    return angles
