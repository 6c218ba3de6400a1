"""Places in texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Offsets = list[tuple[int, int]]
"""For each token the place of its first character, and of the one after its last."""


def original_offsets(text: str, offsets: Iterable[tuple[int, int]]) -> Offsets:
    r"""Moves places in `well_formed(text)` to the text itself.

    They differ after lone surrogates only, each of which is read as three U+FFFD.

    Args:
        text: The string as it was given.
        offsets: Places `(start, end)` in what was made of it.

    Returns:
        Places in the string; a part of a surrogate is the whole.

    Example:

    >>> original_offsets("a\ud800b", [(0, 1), (1, 3), (4, 5)])
    [(0, 1), (1, 2), (2, 3)]
    """
    offsets = [tuple(place) for place in offsets]
    codes = np.array([*map(ord, text)], "int64")
    lone = (codes >= 0xD800) & (codes < 0xE000)
    if not lone.any():
        return offsets
    # The character to which each place belongs.
    owners = [*np.repeat(np.arange(len(text)), np.where(lone, 3, 1)).tolist(), len(text)]
    return [(owners[s], owners[e - 1] + 1 if e > s else owners[s]) for s, e in offsets]


def byte_offsets(text: str, lengths: Iterable[int]) -> Offsets:
    """The characters of the parts of a text whose lengths in UTF-8 bytes are given.

    Args:
        text: A string that can be encoded.
        lengths: Numbers of bytes, one part after the other, which together are the text.

    Returns:
        For each part the places `(start, end)`; a part of a character is the whole character.

    Example:

    >>> byte_offsets("aü 🙂", [2, 1, 3, 2])
    [(0, 2), (1, 2), (2, 4), (3, 4)]
    """
    ends = np.cumsum(np.fromiter(lengths, "int64"))
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    if text.isascii():
        return list(zip(starts.tolist(), ends.tolist(), strict=True))
    data = np.frombuffer(text.encode("utf-8"), "uint8")
    character = np.cumsum((data & 0xC0) != 0x80) - 1  # of each byte
    first = character[np.minimum(starts, len(data) - 1)]
    last = character[np.maximum(ends, 1) - 1]
    return list(zip(first.tolist(), (last + 1).tolist(), strict=True))
