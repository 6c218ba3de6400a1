"""What `test_dropout.py` measures of masks, in its own process and in one of JAX.

Each number is how many standard deviations a count is from what independent draws have.
"""

import json

import keras
from keras import ops

from keras_attn.ops import dropout

SHAPE = (64, 40, 100)


def kept(rate, seed, shape=SHAPE):
    return ops.convert_to_numpy(dropout(ops.ones(shape), rate, seed)) > 0


def deviation(count, n, p):
    return (count - n * p) / (n * p * (1 - p)) ** 0.5


def agreement(a, b, rate):
    """Of two masks that have nothing to do with each other."""
    p = (1 - rate) ** 2 + rate**2
    return deviation((a == b).sum(), a.size, p)


def deviations():
    found = {}
    generator = keras.random.SeedGenerator(7)
    for rate in (0.01, 0.1, 0.5, 0.9):
        masks = [kept(rate, generator) for _ in range(4)]
        for i, mask in enumerate(masks):
            found[f"{rate} kept {i}"] = deviation(mask.sum(), mask.size, 1 - rate)
            # Rows and columns; sums of squares of n normal numbers have mean n, variance 2 n.
            for axis in range(3):
                counts = mask.sum(axis=axis).ravel()
                each = deviation(counts, mask.shape[axis], 1 - rate)
                found[f"{rate} axis {axis} {i}"] = (each**2 - 1).sum() / (2 * each.size) ** 0.5
            flat = mask.ravel()
            for step in (1, 2, 3, 64, 100, 4000, 65536):
                found[f"{rate} step {step} {i}"] = agreement(flat[step:], flat[:-step], rate)
            others = [*masks[:i], kept(rate, 8), kept(rate, 9), kept(rate, 7 + (1 << 16))]
            for j, other in enumerate(others):
                found[f"{rate} masks {i} {j}"] = agreement(mask, other, rate)
                found[f"{rate} shifted {i} {j}"] = agreement(flat[:-1], other.ravel()[1:], rate)
    return {name: float(value) for name, value in found.items()}


def repeats():
    """Whether seeds repeat: of integers always, of generators from the same state on."""
    a, b = (keras.random.SeedGenerator(3) for _ in range(2))
    return {
        "integer": bool((kept(0.5, 4) == kept(0.5, 4)).all()),
        "generator": all((kept(0.5, a) == kept(0.5, b)).all() for _ in range(3)),
        "odd": [kept(0.2, 1, shape).mean() for shape in ((1001,), (3, 5, 667), (1, 1))],
    }


if __name__ == "__main__":
    print(json.dumps({"deviations": deviations(), "repeats": repeats()}))
