"""Losses and metrics as means over tokens, independent of batches."""

from __future__ import annotations

import keras
import numpy as np


def token_means(model: keras.Model, batches: keras.utils.PyDataset) -> dict[str, float]:
    """Evaluates a compiled model, and returns its loss and metrics, averaged over tokens.

    `model.evaluate` weights the loss of each batch by its number of rows, including padding rows,
    so that the loss depends on the batch size and the number of devices. This function weights each
    batch by the sum of its sample weights.
    """
    total = 0.0
    sums: dict[str, float] = {}
    for index in range(len(batches)):
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(batches[index])
        of_batch = inputs if weights is None else weights
        first = keras.tree.flatten(of_batch)[0]
        count = float(len(first) if weights is None else np.sum(first))
        figures = model.test_on_batch(inputs, labels, weights, return_dict=True)
        for name, value in figures.items():
            sums[name] = sums.get(name, 0.0) + count * float(value)
        total += count
    return {name: value / total for name, value in sums.items()}
