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


def checked_layers(weights: Any, target_length: int, source_length: int) -> list[np.ndarray]:
    """The weights of each layer as float32 `(N, T, S)`, or a ValueError."""
    layers = [_checked_heads(layer, f"`weights[{i}]`") for i, layer in enumerate(weights)]
    if not layers:
        raise ValueError("`weights` must be of at least one layer. Received: none.")
    for i, layer in enumerate(layers):
        if layer.shape[1:] != (target_length, source_length):
            raise ValueError(
                f"`weights[{i}]` must have one row for each of the {target_length} queries and one "
                f"column for each of the {source_length} keys, shape (heads, {target_length}, "
                f"{source_length}). Received: shape {layer.shape}."
            )
        if not layer.shape[0]:
            raise ValueError(f"`weights[{i}]` must have at least one head. Received: none.")
        if not np.isfinite(layer).all() or (layer < 0).any():
            raise ValueError(f"`weights[{i}]` must be finite and not below 0. Received: others.")
    return layers


def _checked_heads(layer: Any, name: str) -> np.ndarray:
    """`(T, S)`, `(N, T, S)` or `(1, N, T, S)` as `(N, T, S)`."""
    layer = np.asarray(layer, "float32")
    if layer.ndim == 2:
        return layer[None]
    if layer.ndim == 4 and layer.shape[0] == 1:
        return layer[0]
    if layer.ndim != 3:
        raise ValueError(
            f"{name} must be (heads, T, S), (T, S) of one head, or (1, heads, T, S) of a batch of "
            f"one; of a larger batch take one row, `[m[0] for m in maps]`. Received: shape "
            f"{layer.shape}."
        )
    return layer
