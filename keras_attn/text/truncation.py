"""Truncation of long texts."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeVar, overload

import numpy as np

T = TypeVar("T")

TRUNCATIONS = ("head", "tail", "head_tail")


@overload
def truncate(ids: np.ndarray, max_length: int, strategy: str = "head") -> np.ndarray: ...


@overload
def truncate(ids: Sequence[T], max_length: int, strategy: str = "head") -> Sequence[T]: ...


def truncate(
    ids: Sequence[T] | np.ndarray, max_length: int, strategy: str = "head"
) -> Sequence[T] | np.ndarray:
    """Truncates the ids of a text to at most `max_length` ids.

    References:
        - [Sun et al., 2019](https://arxiv.org/abs/1905.05583): on IMDB, BERT performs best with a
          quarter of the tokens from the start of a text and three quarters from the end.

    Args:
        ids: The ids of a text: a list, or a vector.
        max_length: Maximum number of ids that are kept.
        strategy: `"head"` keeps the first ids, and `"tail"` the last ids. `"head_tail"` keeps a
            quarter of `max_length` (rounded down) from the start, and the remaining number from the
            end.

    Returns:
        A list or a vector of at most `max_length` ids, in their order.

    Raises:
        ValueError: If the strategy is unknown, or `max_length` is below 1.

    Example:

    >>> ids = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> truncate(ids, 4), truncate(ids, 4, "tail"), truncate(ids, 4, "head_tail")
    ([1, 2, 3, 4], [6, 7, 8, 9], [1, 7, 8, 9])
    """
    if strategy not in TRUNCATIONS:
        raise ValueError(
            f"Expected `truncation` to be one of {', '.join(map(repr, TRUNCATIONS))}. "
            f"Received: {strategy!r}."
        )
    if isinstance(max_length, bool) or max_length < 1:
        raise ValueError(f"`max_length` must be >= 1. Received: {max_length!r}")
    if len(ids) <= max_length:
        return ids
    head = _head(max_length, strategy)
    tail = len(ids) - (max_length - head)
    if isinstance(ids, np.ndarray):
        return np.concatenate([ids[:head], ids[tail:]])
    return [*ids[:head], *ids[tail:]]


def truncate_graph(tf: ModuleType, ids: Any, max_length: int, strategy: str = "head") -> Any:
    """Truncates ragged ids of texts like `truncate`, with TensorFlow ops."""
    if strategy == "head":
        return ids[:, :max_length]
    head = _head(max_length, strategy)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    place = tf.ragged.range(lengths)
    behind = tf.maximum(lengths - (max_length - head), head)[:, None]
    return tf.ragged.boolean_mask(ids, tf.logical_or(place < head, place >= behind))


def _head(max_length: int, strategy: str) -> int:
    """Number of ids that are kept from the start of a longer text."""
    return {"head": max_length, "tail": 0, "head_tail": max_length // 4}[strategy]


def checked_truncation(truncation: str | None, pairs: bool) -> str:
    """Checks a truncation strategy; None becomes `"head"` for pairs, `"head_tail"` otherwise."""
    if truncation is None:
        return "head" if pairs else "head_tail"
    if truncation not in TRUNCATIONS:
        raise ValueError(
            f"`truncation` must be one of {list(TRUNCATIONS)}. Received: {truncation!r}."
        )
    if pairs and truncation != "head":
        raise ValueError(
            "`truncation` is only used for single texts: a pair that is too long loses the "
            f"end of its longer text. Received: {truncation!r}. Leave it out."
        )
    return truncation
