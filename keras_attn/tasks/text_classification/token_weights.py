"""What the learned weights of a bag's tokens begin with."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.batches import TextBatches
from keras_attn.training.token_statistics import class_association, inverse_document_frequency

TOKEN_WEIGHTS = ("association", "idf")


def set_token_weights(
    model: keras.Model, ids: Sequence[Sequence[int]], labels: Any, kind: str = "association"
) -> None:
    """Sets the weights of tokens, and of pairs, to what training texts say of them.

    Args:
        model: A bag of `text_classifier` with weighting.
        ids: The ids of each text.
        labels: `(n,)` class numbers, or `(n, C)` zeros and ones.
        kind: `"association"` (`class_association`) or `"idf"` (`inverse_document_frequency`).

    Raises:
        ValueError: For another kind, or a model without such weights.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> model = BagClassifierConfig(4, num_classes=2, pair_buckets=0).build()
    >>> set_token_weights(model, [[1, 2], [1, 3]], [0, 1])
    >>> [round(float(w), 2) for w in model.get_layer("weighting").get_token_weights()[1:]]
    [0.01, 0.69, 0.69]
    """
    if kind not in TOKEN_WEIGHTS:
        raise ValueError(f"`kind` must be one of {list(TOKEN_WEIGHTS)}. Received: {kind!r}.")
    layers = {layer.name: layer for layer in model.layers}
    if "weighting" not in layers:
        raise ValueError(
            "Expected a bag whose tokens have weights. Received: a model without such weights, "
            f"{model.name}."
        )
    of_layers: dict[str, Any] = {"weighting": ids}
    if "pairs" in layers:
        of_layers["pair_weighting"] = _pairs(layers["pairs"], ids)
    for name, rows in of_layers.items():
        size = layers[name].vocabulary_size
        if kind == "idf":
            weights = inverse_document_frequency(rows, size)
        else:
            weights = class_association(rows, labels, size)
        layers[name].set_token_weights(weights)


def _pairs(layer: keras.layers.Layer, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The ids of the pairs of each text."""
    batches = TextBatches(rows, batch_size=256, shuffle=False, multiple=64)
    found: list[np.ndarray] = []
    for (ids,) in batches:
        found.append(ops.convert_to_numpy(layer(ops.convert_to_tensor(ids))))
    widest = max(part.shape[1] for part in found)
    found = [np.pad(part, ((0, 0), (0, widest - part.shape[1]))) for part in found]
    table = batches.restore(np.concatenate(found))
    return [row[: max(len(ids) - 1, 0)] for row, ids in zip(table, rows, strict=True)]
