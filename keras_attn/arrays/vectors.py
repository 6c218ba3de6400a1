"""Unit vectors, and the greatest scores of rows."""

from __future__ import annotations

import numpy as np
from keras import ops

from keras_attn.arrays.modules import Array, ArrayModule


def unit_length(xp: ArrayModule, vectors: Array) -> Array:
    """Scales vectors to length 1.

    Args:
        xp: `numpy` or `keras.ops`.
        vectors: Vectors, float32 `(..., D)`; zero vectors do not change.

    Returns:
        The scaled vectors, float32 `(..., D)`.

    Example:

    >>> unit_length(np, np.array([[3.0, 4.0]], "float32")).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    squares = xp.sum(vectors * vectors, axis=-1, keepdims=True)
    return vectors / xp.sqrt(xp.maximum(squares, 1e-24))


def greatest(xp: ArrayModule, scores: Array, count: int) -> Array:
    """Finds the indices of the greatest scores of each row.

    Among equal scores, the first ones are found; with `keras.ops` on PyTorch, their order is
    undefined.

    Args:
        xp: `numpy` or `keras.ops`.
        scores: Scores, float32 `(..., N)`.
        count: Number of scores to find, at most N. With NumPy, `count` may be greater than N; the
            indices of all scores are then returned.

    Returns:
        The indices of the scores, the greatest first, int32 `(..., count)`.

    Example:

    >>> greatest(np, np.array([0.1, 0.5, 0.3, 0.5, 0.5]), 2).tolist()
    [1, 3]
    """
    if xp is not np:
        return ops.cast(ops.top_k(scores, count)[1], "int32")
    if scores.ndim > 1:
        count = min(count, scores.shape[-1])
        found = [greatest(np, row, count) for row in scores.reshape(-1, scores.shape[-1])]
        return np.array(found, "int32").reshape(*scores.shape[:-1], count)
    places = np.arange(len(scores))
    if count < len(scores):  # much faster than to order all of many
        least = np.partition(scores, -count)[-count]
        places = np.flatnonzero(scores >= least)
    return places[np.argsort(-scores[places], kind="stable")][:count].astype("int32")
