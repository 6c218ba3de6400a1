"""Random numbers as a function of seed and step, the same on every backend."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attn.generation.decoders import integer
from keras_attn.hints import Size, Tensor, TensorLike

# Constants of the mixing function, as the int32 of the same bits.
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32
_GOLDEN = 0x9E3779B9 - 2**32


def mixed_bits(x: Tensor) -> Tensor:
    """Mixes the bits of integers (a bijection in which each bit changes half of the output bits).

        x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16

    This is Wellons' "lowbias32" (https://nullprogram.com/blog/2018/07/31/), a finalizer like that
    of MurmurHash3. It uses int32, which every backend supports: products wrap around, and the sign
    bits of arithmetic shifts are cleared.
    """
    x = ops.bitwise_xor(x, _shifted(x, 16)) * _FIRST
    x = ops.bitwise_xor(x, _shifted(x, 15)) * _SECOND
    return ops.bitwise_xor(x, _shifted(x, 16))


def _shifted(x: Tensor, bits: int) -> Tensor:
    return ops.bitwise_and(ops.right_shift(x, bits), 2 ** (32 - bits) - 1)


def prompt_seeds(ids: Tensor, seed: TensorLike) -> Tensor:
    """Computes a seed for each row from its ids, independent of its position in the batch.

    Args:
        ids: Ids of each row, int32 `(B, S)`; zeros are padding. Padding on the right does not
            change the seed.
        seed: Integer, or integers `(B,)`, which are combined with the ids.

    Returns:
        Seeds, int32 `(B,)`.

    Example:

    >>> seeds = prompt_seeds(ops.array([[5, 6, 0], [6, 5, 0], [5, 6, 0]], "int32"), 1)
    >>> int(seeds[0]) == int(seeds[2]), int(seeds[0]) == int(seeds[1])
    (True, False)
    """
    places = ops.cumsum(ops.ones_like(ids), axis=1)
    real = ops.cast(ops.not_equal(ids, 0), "int32")
    bits = mixed_bits(mixed_bits(ids) + places) * real
    return mixed_bits(ops.cast(ops.sum(bits, axis=1), "int32") + seed)


def row_seeds(seed: TensorLike, rows: Tensor) -> Tensor:
    """Derives a seed for each row from one seed, or checks and returns given seeds.

    Args:
        seed: Integer from 0 to 2^31 - 1, from which the seed of each row is derived; or integers
            `(B,)` from -2^31 to 2^31 - 1, the seeds of the rows, which are returned.
        rows: Indices of the rows, int32 `(B,)`; only their number counts if seeds are given.

    Returns:
        Seeds, int32 `(B,)`.

    Raises:
        ValueError: If `seed` is neither an integer from 0 to 2^31 - 1 nor an array of B integers in
            the range of int32.

    Example:

    >>> first = row_seeds(7, ops.arange(3))
    >>> second = row_seeds(7, ops.arange(1, 3))
    >>> bool(ops.all(first[1:] == second))
    True
    """
    if (hasattr(seed, "shape") and len(seed.shape) > 0) or isinstance(seed, list | tuple):
        known = [] if ops.is_tensor(seed) else np.asarray(seed).ravel().tolist()
        if any(isinstance(x, int) and not -(2**31) <= x < 2**31 for x in known):
            raise ValueError(
                f"`seed` must contain integers from -2^31 to 2^31 - 1. Received: {known!r:.80}."
            )
        seeds = ops.convert_to_tensor(seed)
        if len(seeds.shape) != 1 or "int" not in ops.dtype(seeds):
            raise ValueError(
                "`seed` must be an integer, or one integer for each row, shape (B,). Received: "
                f"shape {tuple(seeds.shape)}, dtype {ops.dtype(seeds)}."
            )
        if isinstance(seeds.shape[0], int) and rows.shape[0] not in (None, seeds.shape[0]):
            raise ValueError(
                f"`seed` must have one integer for each of the {rows.shape[0]} rows. "
                f"Received: {seeds.shape[0]} integers."
            )
        return ops.cast(seeds, "int32")
    seed = integer("seed", seed, 0)
    if seed >= 2**31:
        raise ValueError(f"`seed` must be at most 2^31 - 1. Received: {seed}.")
    start = mixed_bits(ops.cast(rows, "int32") * 0 + seed)
    return mixed_bits(start + ops.cast(rows, "int32") * _GOLDEN)


def seeds_of(seed: int | Sequence[int] | np.ndarray, count: int) -> np.ndarray:
    """Returns seeds of prompts, int32 `(count,)`, from one integer or an integer per prompt."""
    given = np.asarray(seed)
    if given.ndim and len(given) != count:
        raise ValueError(
            f"`seed` must be an integer, or one integer for each of the {count} prompts. "
            f"Received: {len(given)} integers."
        )
    if not count:
        return np.zeros(0, "int32")
    seeds = row_seeds(given if given.ndim else seed, ops.arange(count, dtype="int32"))
    return ops.convert_to_numpy(seeds)


def uniform_noise(seeds: Tensor, step: Size) -> Tensor:
    """Returns a random number above 0 and below 1 for each seed at a step.

    Each number depends only on its seed and the step, not on the batch, the backend or earlier
    numbers. It has 23 random bits.

    Args:
        seeds: Seeds, int32 `(B,)`.
        step: Number of the step, an integer or a scalar int32 tensor.

    Returns:
        Random numbers, float32 `(B,)`.

    Example:

    >>> seeds = row_seeds(7, ops.arange(2))
    >>> [round(float(u), 4) for u in uniform_noise(seeds, 0)]
    [0.7731, 0.7822]
    """
    x = mixed_bits(mixed_bits(ops.bitwise_xor(seeds, _GOLDEN)) + ops.cast(step, "int32") * _GOLDEN)
    # Add the seed again: two seeds that collide at a step must differ again at the next.
    x = mixed_bits(x + seeds)
    return (ops.cast(_shifted(x, 9), "float32") + 0.5) * 2.0**-23
