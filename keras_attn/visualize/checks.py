"""Checks of weights before they are drawn."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt


class HasWords(Protocol):
    """An object with the words of a caption and their maps."""

    def words(self) -> Iterable[tuple[str, npt.ArrayLike]]:
        """Returns (word, map `(rows, columns)`) for each word."""


WordMaps: TypeAlias = HasWords | Iterable[tuple[str, npt.ArrayLike]]
"""The words of a caption, each with its map."""


def checked_weights(
    weights: npt.ArrayLike, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> np.ndarray:
    """Checks weights, and returns them as float32 `(T, S)`."""
    weights = np.asarray(weights, "float32")
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            "`weights` must have one row for each target token and one column for each source "
            f"token, shape {(len(target_tokens), len(source_tokens))} here. "
            f"Received: shape {weights.shape}."
        )
    return weights


def checked_layers(
    weights: Iterable[npt.ArrayLike], target_length: int, source_length: int
) -> list[np.ndarray]:
    """Checks the weights of each layer, and returns them as float32 `(N, T, S)`."""
    layers = [_with_heads(layer, f"`weights[{i}]`") for i, layer in enumerate(weights)]
    if not layers:
        raise ValueError("`weights` must have at least one layer. Received: none.")
    for i, layer in enumerate(layers):
        if layer.shape[1:] != (target_length, source_length):
            raise ValueError(
                f"`weights[{i}]` must have one row for each of the {target_length} queries and one "
                f"column for each of the {source_length} keys, shape (heads, {target_length}, "
                f"{source_length}). Received: shape {layer.shape}."
            )
        if not layer.shape[0]:
            raise ValueError(f"`weights[{i}]` must have at least one head. Received: none.")
        _check_range(layer, f"`weights[{i}]`")
    return layers


def checked_words(words: WordMaps) -> list[tuple[str, np.ndarray]]:
    """Checks words and their maps, and returns the maps as float32 `(rows, columns)`."""
    is_object = callable(getattr(words, "words", None))
    pairs: object = cast(HasWords, words).words() if is_object else words
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise ValueError(
            "`words` must be a list of (word, map) or have a method `words()`. "
            f"Received: {type(words).__name__}."
        )
    checked = []
    for i, pair in enumerate(pairs):
        if len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"`words[{i}]` must be (word, map). Received: {pair!r}.")
        weights = np.asarray(pair[1], "float32")
        name = f"The map of word {i}, {pair[0]!r},"
        if weights.ndim != 2 or not weights.size:
            raise ValueError(
                f"{name} must have shape (rows, columns), both at least 1. "
                f"Received: shape {weights.shape}."
            )
        _check_range(weights, name)
        checked.append((pair[0], weights))
    return checked


def _with_heads(layer: npt.ArrayLike, name: str) -> np.ndarray:
    """`(T, S)`, `(N, T, S)` or `(1, N, T, S)` as `(N, T, S)`."""
    layer = np.asarray(layer, "float32")
    if layer.ndim == 2:
        return layer[None]
    if layer.ndim == 4 and layer.shape[0] == 1:
        return layer[0]
    if layer.ndim != 3:
        raise ValueError(
            f"{name} must be (heads, T, S), (T, S) of one head, or (1, heads, T, S) of a "
            "batch of one. For a larger batch, select one row: `[m[0] for m in maps]`. "
            f"Received: shape {layer.shape}."
        )
    return layer


def _check_range(weights: np.ndarray, name: str) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f"{name} must be finite and not below 0. Received: values from {weights.min()} to "
            f"{weights.max()}."
        )
