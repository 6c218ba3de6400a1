"""Figures of batches as means over their tokens, whatever the batches are."""

from __future__ import annotations

import keras


def token_means(model: keras.Model, batches: keras.utils.PyDataset) -> dict[str, float]:
    """Measures a compiled model, and averages its loss and metrics over the tokens.

    `model.evaluate` weighs the loss of each batch by its rows, with those that fill it up, so its
    loss depends on the size of the batches and on the number of devices. Here each batch counts by
    the sum of its weights.
    """
    total = 0.0
    sums: dict[str, float] = {}
    for index in range(len(batches)):
        inputs, labels, weights = batches[index]
        count = float(weights.sum())
        figures = model.test_on_batch(inputs, labels, weights, return_dict=True)
        for name, value in figures.items():
            sums[name] = sums.get(name, 0.0) + count * float(value)
        total += count
    return {name: value / total for name, value in sums.items()}
