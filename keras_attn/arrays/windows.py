"""Windows over sequences that are longer than a row of an encoder.

A sequence that fits into `room` places is one window. A longer one has a window at every
`room - 2 * margin` places, the last one at its end. What a model says of a place is read off in one
window, in which at least `margin` places of context are on each side of it, as far as there are
any.
"""

from __future__ import annotations

from typing import NamedTuple

from keras_attn.arrays.modules import Array, ArrayModule
from keras_attn.arrays.rows import places_in_rows, starts_of


class Windows(NamedTuple):
    """The windows of several sequences, one sequence after the other; int32 `(R,)` each.

    Example:

    >>> windows(np, np.array([20, 5], "int32"), room=8, margin=1).owner.tolist()
    [0, 0, 0, 1]
    """

    owner: Array
    """The sequence that a window is of."""
    start: Array
    """Its first place in the sequence."""
    size: Array
    """Number of its places."""
    first: Array
    """The first place that is read off in it."""
    behind: Array
    """The place behind the last one."""
    rows: Array
    """The first window of each sequence, `(B,)`."""
    counts: Array
    """Number of windows of each sequence, `(B,)`."""


def _counts(xp: ArrayModule, lengths: Array, room: Array | int, margin: Array | int) -> Array:
    return xp.maximum(1, -(-(lengths - 2 * margin) // (room - 2 * margin)))


def windows(xp: ArrayModule, lengths: Array, room: Array | int, margin: Array | int) -> Windows:
    """Cuts sequences into windows that overlap.

    Args:
        xp: `numpy` or `keras.ops`.
        lengths: Number of places of each sequence, int32 `(B,)`.
        room: Maximum number of places of a window; int32 `(B,)` if sequences differ in it.
        margin: Places of context on each side, less than half of `room`; `(B,)` likewise.

    Returns:
        The `Windows`. A sequence without places has one window.

    Example:

    >>> found = windows(np, np.array([20], "int32"), room=8, margin=1)
    >>> found.start.tolist(), found.first.tolist(), found.behind.tolist()
    ([0, 6, 12], [0, 7, 13], [7, 13, 20])
    """
    room, margin = xp.zeros_like(lengths) + room, xp.zeros_like(lengths) + margin
    counts = _counts(xp, lengths, room, margin)
    owner, number = places_in_rows(xp, counts)
    step = xp.take(room - 2 * margin, owner, axis=0)
    margin = xp.take(margin, owner, axis=0)
    start = xp.minimum(number * step, xp.take(xp.maximum(lengths - room, 0), owner, axis=0))
    last = number == xp.take(counts, owner, axis=0) - 1
    behind = xp.where(last, xp.take(lengths, owner, axis=0), (number + 1) * step + margin)
    first = xp.where(number == 0, 0, number * step + margin)
    size = xp.take(xp.minimum(lengths, room), owner, axis=0)
    return Windows(owner, start, size, first, behind, starts_of(xp, counts), counts)


def window_numbers(
    xp: ArrayModule, places: Array, lengths: Array, room: Array | int, margin: Array | int
) -> Array:
    """Finds the window of its sequence from which each position is read.

    Args:
        xp: `numpy` or `keras.ops`.
        places: Places in their sequences, int32.
        lengths: For each place the number of places of its sequence, int32.
        room: As in `windows`; for each position, or one for all.
        margin: As in `windows`; for each position, or one for all.

    Returns:
        Numbers from 0, int32.

    Example:

    >>> places, lengths = np.array([6, 7, 19], "int32"), np.full(3, 20, "int32")
    >>> window_numbers(np, places, lengths, room=8, margin=1).tolist()
    [0, 1, 2]
    """
    number = xp.maximum((places - margin) // (room - 2 * margin), 0)
    return xp.minimum(number, _counts(xp, lengths, room, margin) - 1)
