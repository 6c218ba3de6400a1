"""Tables of numbers that are as wide as the longest row of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import numpy as np

from keras_attn.arrays import Array


class PaddedNumbers:
    """Output field of padded numbers, without the columns that are padding in every row.

    Args:
        of: Name of the padded numbers of B rows, `(B, ...)`.
        *sizes: For each axis after the first: the name of an int32 tensor `(B,)` with the size of
            each row on this axis, or a number if all rows have the same size.
        least: Minimum size of the output on the axes with a name in `sizes`. The output is never
            larger than the input.

    Example:

    >>> tensors = {"weights": np.array([[1, 2, 0], [3, 0, 0]]), "sizes": np.array([2, 1])}
    >>> PaddedNumbers("weights", "sizes").decode(tensors).tolist()
    [[1, 2], [3, 0]]
    """

    def __init__(self, of: str, *sizes: str | int, least: int = 0):
        self.of, self.sizes, self.least = of, sizes, least

    def decode(self, tensors: Mapping[str, Array]) -> np.ndarray:
        """Returns the numbers as one array `(B, ...)`, cut on each axis to the size of the largest
        row.

        Args:
            tensors: A dict of arrays that has the numbers under the name in `of`, and the sizes
                under the names in `sizes`.
        """
        axes = [x if isinstance(x, int) else max([self.least, *tensors[x]]) for x in self.sizes]
        return tensors[self.of][(slice(None), *map(slice, axes))]

    def graph(self, tf: ModuleType, tensors: Mapping[str, Array]) -> Array:
        """Returns the result of `decode` as a tensor, computed with TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            tensors: A dict of tensors that has the numbers under the name in `of`, and the sizes
                under the names in `sizes`.
        """
        axes = [
            x if isinstance(x, int) else tf.maximum(self.least, tf.reduce_max(tensors[x]))
            for x in self.sizes
        ]
        return tensors[self.of][(slice(None), *map(slice, axes))]
