"""Which source tokens each target token attended to."""

from typing import NamedTuple

import numpy as np


class Alignment(NamedTuple):
    """Which source tokens each target token attended to."""

    source_tokens: list[str]
    target_tokens: list[str]
    weights: np.ndarray
    """float32 `(T, S)`: the mean over the heads of one decoder block's cross-attention."""
