"""What the pictures check."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def checked_weights(
    weights: Any, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> np.ndarray:
    """The weights as float32 `(T, S)`, or a ValueError."""
    weights = np.asarray(weights, "float32")
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            "`weights` must have one row for each target token and one column for each source "
            f"token, shape {(len(target_tokens), len(source_tokens))} here. "
            f"Received: shape {weights.shape}."
        )
    return weights
