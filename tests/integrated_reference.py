"""Integrated gradients of one text, of a function that computes one point."""

import numpy as np


def integrated(asked):
    """The weights `(T,)` by as many points as make their sum right.

    `asked(part)` gives the number at a point, and gradient times way of each token there.
    """
    gained = asked(1.0)[0] - asked(0.0)[0]
    for count in (32, 96, 288):
        weights = np.mean([asked((i + 0.5) / count)[1] for i in range(count)], axis=0)
        if abs(weights.sum() - gained) <= 0.02 * np.abs(weights).sum():
            break
    return weights
