"""Windows over sequences that are longer than a row of an encoder.

A sequence of at most `room` positions is one window. A longer one has a window every `room - 2 *
margin` positions; the last window is at its end. The prediction for a position is read from one
window, in which the position has at least `margin` positions of context on each side, unless the
sequence ends there.
"""

from __future__ import annotations

from typing import NamedTuple

from keras_attn.arrays.modules import Array, ArrayModule
from keras_attn.arrays.rows import places_in_rows, starts_of


class Windows(NamedTuple):
    """The R windows of B sequences, in the order of the sequences, as int32 arrays.

    Example:

    >>> windows(np, np.array([20, 5], "int32"), room=8, margin=1).owner.tolist()
    [0, 0, 0, 1]
    """

    owner: Array
    """Index of the sequence to which each window belongs, `(R,)`."""
    start: Array
    """First position of each window in its sequence, `(R,)`."""
    size: Array
    """Number of positions of each window, `(R,)`."""
    first: Array
    """First position that is read from each window, `(R,)`."""
    behind: Array
    """Position after the last position that is read from each window, `(R,)`."""
    rows: Array
    """Index of the first window of each sequence, `(B,)`."""
    counts: Array
    """Number of windows of each sequence, `(B,)`."""


def _counts(xp: ArrayModule, lengths: Array, room: Array | int, margin: Array | int) -> Array:
    return xp.maximum(1, -(-(lengths - 2 * margin) // (room - 2 * margin)))


def windows(xp: ArrayModule, lengths: Array, room: Array | int, margin: Array | int) -> Windows:
    """Splits sequences into overlapping windows.

    A sequence of at most `room` positions is one window. A longer sequence has a window every
    `room - 2 * margin` positions; its last window ends at its last position. Each position is read
    from one window, in which it has at least `margin` positions on each side, unless the sequence
    ends there.

    Args:
        xp: `numpy` or `keras.ops`.
        lengths: Number of positions of each sequence, int32 `(B,)`.
        room: Maximum number of positions of a window: one number, or int32 `(B,)`, a number for
            each sequence.
        margin: Number of context positions on each side, less than half of `room`: one number, or
            int32 `(B,)`, a number for each sequence.

    Returns:
        A `Windows`. An empty sequence has one window.

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
    """Returns the index of the window (in its sequence) from which each position is read.

    Args:
        xp: `numpy` or `keras.ops`.
        places: Positions in their sequences, int32, of any shape.
        lengths: The length of the sequence of each position, int32, in the shape of `places`.
        room: Maximum number of positions of a window, as in `windows`: one number, or a number for
            each position.
        margin: Number of context positions on each side, as in `windows`: one number, or a number
            for each position.

    Returns:
        The index of the window of each position, int32, in the shape of `places`.

    Example:

    >>> places, lengths = np.array([6, 7, 19], "int32"), np.full(3, 20, "int32")
    >>> window_numbers(np, places, lengths, room=8, margin=1).tolist()
    [0, 1, 2]
    """
    number = xp.maximum((places - margin) // (room - 2 * margin), 0)
    return xp.minimum(number, _counts(xp, lengths, room, margin) - 1)
