"""Masking of words for masked language modelling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MASKED, REPLACED = 0.8, 0.1
"""Fractions of the masked words that become `[MASK]`, and a random word."""


class Masks(NamedTuple):
    """Rows of ids with masked words, and the positions and labels of the masked words."""

    ids: np.ndarray
    """`(B, T)`: the input ids."""
    positions: np.ndarray
    """`(B, M)`: positions of the masked words, padded with 0."""
    labels: np.ndarray
    """`(B, M)`: the original ids of these words, padded with 0."""
    weights: np.ndarray
    """`(B, M)` float32: 1 for masked words, 0 for padding."""


def most_masked(width: int, share: float) -> int:
    """The number M of masked positions that rows of a width have room for."""
    return int(np.ceil(share * width))


def draw_masks(
    ids: np.ndarray,
    maskable: np.ndarray,
    draws: np.ndarray,
    replacements: np.ndarray,
    mask_id: int,
    share: float = 0.15,
    continues: np.ndarray | None = None,
) -> Masks:
    """Draws the words to mask (Devlin et al., 2019).

    From the n maskable tokens of a row, `max(1, round(share * n))` tokens are drawn: 80 % of them
    are replaced by `[MASK]`, 10 % by a random token, and 10 % are kept. `draws (2, B, T + 1)` are
    uniform random numbers: `draws[0]` chooses the tokens, and `draws[1]` their replacements. If
    `continues` is given, which marks the ids that continue a word, whole words are drawn: as many
    as fit into that number of tokens, or one word that fits into `M = ceil(share * T)` tokens.
    """
    width = ids.shape[1]
    most = most_masked(width, share)
    counts = maskable.sum(axis=1)
    wanted = np.clip(np.round(share * counts), 1, most).astype("int64")
    wanted = np.minimum(wanted, counts)[:, None]
    keys = draws[0]
    if continues is None:
        order = np.argsort(np.where(maskable, keys[:, :width], 2.0), axis=1, kind="stable")
        picked = np.arange(width) < wanted
    else:
        before = np.pad(maskable[:, :-1], ((0, 0), (1, 0)))
        begins = maskable & ~(continues[ids] & before)
        words = np.cumsum(begins, axis=1)  # (B, T), from 1; pieces of a word have one number
        of_word = np.where(maskable, np.take_along_axis(keys, words, axis=1), 2.0)
        order = np.argsort(of_word, axis=1, kind="stable")
        words = np.take_along_axis(np.where(maskable, words, 0), order, axis=1)
        ends = np.where(words != np.pad(words[:, 1:], ((0, 0), (0, 1))), np.arange(width), width)
        ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]  # last piece of each word
        allowed = np.clip(np.maximum(wanted, ends[:, :1] + 1), 0, most)
        picked = (ends < allowed) & (words > 0)
    order, picked = order[:, :most], picked[:, :most]
    positions = np.where(picked, order, 0).astype("int32")
    labels = np.where(picked, np.take_along_axis(ids, positions, axis=1), 0).astype("int32")
    kind = np.take_along_axis(draws[1], positions, axis=1)
    random = np.take_along_axis(replacements, positions, axis=1)
    read = np.where(kind < MASKED, mask_id, np.where(kind < MASKED + REPLACED, random, labels))
    masked = ids.copy()
    row, column = np.nonzero(picked)
    masked[row, positions[row, column]] = read[row, column]
    return Masks(masked, positions, labels, picked.astype("float32"))
