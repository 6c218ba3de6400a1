"""Positions inside attention: rotary, relative and ALiBi."""

import math
import numbers
from typing import Any

import numpy as np
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.masks import static_shape
from keras_attn.ops.positions import position_angles, token_positions
from keras_attn.ops.precision import wide_dtype

ROTARY_SCALINGS: dict[str, dict[str, float | None]] = {
    "linear": {"factor": None},
    "llama3": {
        "factor": None,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_length": 8192,
    },
}


def check_rotary_scaling(scaling: object, name: str = "rotary_scaling") -> None:
    """Raises a ValueError if `rotary_rates` does not accept `scaling`."""
    if scaling is None:
        return
    given = scaling if isinstance(scaling, dict) else {}
    known = ROTARY_SCALINGS.get(given.get("type", ""))
    if known is None or not set(given) - {"type"} <= set(known) or "factor" not in given:
        raise ValueError(
            f"`{name}` must be None, {{'type': 'linear', 'factor': f}} or {{'type': 'llama3', "
            "'factor': f}, the latter with 'low_freq_factor', 'high_freq_factor' and "
            f"'original_length' if they differ from 1, 4 and 8192. Received: {scaling!r}."
        )
    values = {**known, **given}
    numbers_ = [v for key, v in values.items() if key != "type"]
    if any(isinstance(v, bool) or not isinstance(v, numbers.Real) or v <= 0 for v in numbers_):
        raise ValueError(f"Numbers of `{name}` must be above 0. Received: {scaling!r}.")


def rotary_rates(dim: int, base: float, scaling: dict[str, Any] | None = None) -> np.ndarray:
    """Returns the rates of rotary positions, the radians per position of each pair of channels.

        rate[i] = base ** (-2i / H)                                    without scaling
        linear: rate[i] / factor                                       (Chen et al., 2023)
        llama3: rate[i] if its wavelength w = 2 pi / rate[i] is below L / high, rate[i] / factor if
                w is above L / low, and interpolated in L / w between them
                                                              (Llama 3.1: Grattafiori et al., 2024)

    Args:
        dim: Width H of a head; even.
        base: Base of the wavelengths.
        scaling: None, `{"type": "linear", "factor": f}`, or `{"type": "llama3", "factor": f}`. With
            "llama3", the optional keys `low_freq_factor`, `high_freq_factor` and `original_length`
            set the numbers low (1 by default), high (4) and L (8192) of the formula.

    Returns:
        The rates, float64 `(H / 2,)`.

    Raises:
        ValueError: If `scaling` has an unknown type or key, no factor, or a number that is not
            above 0.

    Example:

    >>> rotary_rates(4, 100.0, {"type": "linear", "factor": 2.0}).round(3).tolist()
    [0.5, 0.05]
    """
    check_rotary_scaling(scaling, "scaling")
    rates = np.exp(-math.log(base) * np.arange(0, dim, 2) / dim)
    if scaling is None:
        return rates
    settings = {**ROTARY_SCALINGS[scaling["type"]], **scaling}
    scaled = rates / settings["factor"]
    if scaling["type"] == "linear":
        return scaled
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    turns = settings["original_length"] * rates / (2 * math.pi)  # L / w
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - share) * scaled + share * rates


def relative_position_buckets(
    distance: Tensor, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Tensor:
    """Maps distances to buckets: one for each near distance, and wider buckets for far distances.

        distance = position of the key - position of the query
        bucket   = |distance|                                                     if |distance| < e
        bucket   = min(e + floor(log(|distance| / e) / log(max_distance / e) (n - e)), n - 1)  else

    where n is the number of buckets of one direction, and e = n // 2 (T5: Raffel et al., 2020). If
    `bidirectional` is True, n is half of `num_buckets`, and n is added to the buckets of keys after
    the query. Otherwise, n is `num_buckets`, and all keys after the query are in bucket 0, together
    with the query's own position.

    Args:
        distance: Integers of any shape.
        num_buckets: Number of buckets of both directions together; even if `bidirectional`.
        max_distance: Distance from which keys are certainly in the last bucket of their direction,
            which starts somewhat nearer. It must be greater than e.
        bidirectional: Whether later keys have their own buckets.

    Returns:
        The buckets, an int32 tensor of the same shape, from 0 to `num_buckets - 1`.

    Example:

    >>> ops.convert_to_numpy(relative_position_buckets(ops.array([0, -1, -20, 5]))).tolist()
    [0, 1, 10, 21]
    """
    ahead = ops.cast(distance, "int32")
    first = ops.zeros_like(ahead)
    if bidirectional:
        num_buckets //= 2
        first = ops.where(ahead > 0, num_buckets, 0)
        distance = ops.abs(ahead)
    else:
        distance = ops.maximum(-ahead, 0)
    exact = num_buckets // 2
    ratio = ops.log(ops.maximum(ops.cast(distance, "float32"), 1.0) / exact)
    ratio = ratio / math.log(max_distance / exact)
    far = exact + ops.cast(ratio * (num_buckets - exact), "int32")
    far = ops.minimum(far, num_buckets - 1)
    return ops.cast(first, "int32") + ops.where(distance < exact, distance, far)


def apply_rotary(
    x: Tensor,
    positions: Tensor | None = None,
    base: float = 10000.0,
    scaling: dict[str, Any] | None = None,
) -> Tensor:
    """Rotates queries or keys by their positions (Su et al., 2021, section 3.4).

        a[i]           = position * base ** (-2i / H)                  i < H / 2
        y[i]           = x[i] cos(a[i]) - x[i + H/2] sin(a[i])
        y[i + H/2]     = x[i + H/2] cos(a[i]) + x[i] sin(a[i])

    The product of a rotated query and a rotated key depends only on the distance of their
    positions. Channel i is paired with channel i + H / 2, as in GPT-NeoX and Llama. The paper pairs
    channels 2i and 2i + 1, which is the same up to the order of the columns of the projections. The
    rotation is computed in float32 or better.

    Args:
        x: Queries or keys `(B, T, N, H)`, H even.
        positions: Integers `(T,)`, `(1, T)` or `(B, T)`; `0 ... T-1` if None.
        base: Base of the wavelengths; 10000 in the paper, greater for longer contexts.
        scaling: Scaling for contexts longer than in training. The rates that `rotary_rates` returns
            for this scaling replace `base ** (-2i / H)`. No scaling if None.

    Returns:
        The rotated tensor `(B, T, N, H)` in the dtype of `x`.

    Raises:
        ValueError: If `x` has the wrong rank, H is odd or unknown, or `scaling` is wrong, as in
            `rotary_rates`.

    Example:

    >>> x = ops.array([[[[1.0, 0.0]], [[1.0, 0.0]]]])
    >>> [round(float(v), 4) for v in apply_rotary(x)[0, 1, 0]]  # turned by one radian
    [0.5403, 0.8415]
    """
    shape = static_shape(x)
    if len(shape) != 4 or shape[-1] is None or shape[-1] % 2:
        raise ValueError(
            "`x` must have shape (B, T, N, H) with an even width H, because rotary "
            f"positions rotate pairs of channels. Received: shape {shape}."
        )
    if positions is None:
        positions = token_positions(x[:1, :, 0])  # one row broadcasts over the batch
    rates = rotary_rates(shape[-1], base, scaling)
    dtype = x.dtype
    exact = wide_dtype(x)
    angles = ops.expand_dims(position_angles(positions, rates, exact), -2)  # (1|B, T, 1, H / 2)
    cos, sin = ops.cos(angles), ops.sin(angles)
    first, second = ops.split(ops.cast(x, exact), 2, axis=-1)
    rotated = ops.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return ops.cast(rotated, dtype)


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Returns the slopes of the heads of ALiBi (Press et al., 2022, section 3).

        m[n] = 2 ** (-8 (n + 1) / N)        if N is a power of two

    for head n, from 0. For any other N, let P be the greatest power of two below N. The result has
    the slopes of P heads, followed by every other slope of 2 P heads, starting with the first
    slope, until there are N slopes.

    Args:
        num_heads: Number of heads N.

    Returns:
        The slopes, float64 `(N,)`.

    Raises:
        ValueError: If the number is below 1.

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


def alibi_bias(
    num_heads: int,
    positions: Tensor,
    key_positions: Tensor | None = None,
    dtype: str = "float32",
) -> Tensor:
    """Returns ALiBi's bias of the scaled scores, lower for farther keys (Press et al., 2022).

        bias[n, t, s] = -m[n] |positions[t] - key_positions[s]|

    where `m = alibi_slopes(num_heads)`. With a causal mask, the bias is the bias of the paper.
    Without a causal mask, the bias decreases in both directions.

    Args:
        num_heads: Number of query heads N.
        positions: Positions of the queries, integers `(1, T)` or `(B, T)`.
        key_positions: Positions of the keys `(1, S)` or `(B, S)`; the positions of the queries if
            None.
        dtype: Dtype of the bias, `"float32"` or `"float64"`.

    Returns:
        The bias `(1, N, T, S)`, or `(B, N, T, S)` if rows have their own positions.

    Raises:
        ValueError: If the number of heads is below 1.

    Example:

    >>> bias = alibi_bias(8, ops.array([[0, 1, 2]]))
    >>> tuple(bias.shape), bias[0, 0, 2, :2].numpy().tolist()
    ((1, 8, 3, 3), [-1.0, -0.5])
    """
    positions = ops.cast(positions, dtype)
    key_positions = positions if key_positions is None else ops.cast(key_positions, dtype)
    distance = ops.abs(ops.expand_dims(positions, 2) - ops.expand_dims(key_positions, 1))
    slopes = ops.convert_to_tensor(alibi_slopes(num_heads)[:, None, None], dtype)
    return ops.expand_dims(distance, 1) * -slopes
