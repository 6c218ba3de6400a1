"""Windows over sequences that are longer than a row of an encoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class WindowTensors(NamedTuple):
    """The windows of several sequences, int32 `(R,)` each.

    Example:

    >>> import tensorflow as tf
    >>> Windows(room=8, margin=1).graph(tf, tf.constant([20, 5])).owner.numpy().tolist()
    [0, 0, 0, 1]
    """

    owner: Any
    """The sequence that a window is of."""
    start: Any
    """Its first place."""
    size: Any
    """Number of its places."""
    first: Any
    """The first place that is read off in it."""
    behind: Any
    """The place behind the last one."""
    rows: Any
    """The first window of each sequence, `(B,)`."""


class Windows(NamedTuple):
    """How sequences are cut into windows that overlap. One that fits is a window by itself.

    A longer one has a window at every `step` places, the last one at its end. What a model says of
    a place is read off in one window, in which at least `margin` places of context are on each side
    of it, as far as there are any.

    Example:

    >>> windows = Windows(room=8, margin=1)
    >>> windows.step, windows.starts(20), [windows.number(place, 20) for place in (6, 7, 19)]
    (6, [0, 6, 12], [0, 1, 2])
    """

    room: Any
    """Largest number of places of a window."""
    margin: Any
    """Places of context on each side."""

    @property
    def step(self) -> Any:
        """Places from one window to the next."""
        return self.room - 2 * self.margin

    def count(self, length: int) -> int:
        """Returns the number of windows of a sequence.

        Args:
            length: Number of its places.
        """
        return max(1, -(-(length - 2 * self.margin) // self.step))

    def starts(self, length: int) -> list[int]:
        """Returns the first place of each window of a sequence.

        Args:
            length: Number of its places.
        """
        last = max(length - self.room, 0)
        return [min(k * self.step, last) for k in range(self.count(length))]

    def number(self, place: Any, length: int) -> Any:
        """Returns in which window of a sequence a place is read off.

        Args:
            place: The place, or an array of places.
            length: Number of places of the sequence.
        """
        number = (place - self.margin) // self.step
        if isinstance(number, np.ndarray):
            return np.clip(number, 0, self.count(length) - 1)
        return min(max(number, 0), self.count(length) - 1)

    def graph(self, tf: Any, lengths: Any) -> WindowTensors:
        """Does the same as TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            lengths: Numbers of places, int32 `(B,)`. `room` and `margin` may be int32 `(B,)` too.

        Returns:
            The windows of all sequences, one after the other.
        """
        room, margin = (tf.zeros_like(lengths) + x for x in (self.room, self.margin))
        step = room - 2 * margin
        counts = tf.maximum(1, -(-(lengths - 2 * margin) // step))
        # Not `tf.repeat`, which makes as many for each as for the one that has most.
        owner = tf.searchsorted(tf.cumsum(counts), tf.range(tf.reduce_sum(counts)), side="right")
        rows = tf.cumsum(counts, exclusive=True)
        number = tf.range(tf.size(owner)) - tf.gather(rows, owner)
        step, margin = tf.gather(step, owner), tf.gather(margin, owner)
        start = tf.minimum(number * step, tf.gather(tf.maximum(lengths - room, 0), owner))
        last = number == tf.gather(counts, owner) - 1
        behind = tf.where(last, tf.gather(lengths, owner), (number + 1) * step + margin)
        first = tf.where(number == 0, 0, number * step + margin)
        size = tf.gather(tf.minimum(lengths, room), owner)
        return WindowTensors(owner, start, size, first, behind, rows)

    def number_graph(self, tf: Any, places: Any, lengths: Any) -> Any:
        """Does the same as `number`, as TensorFlow ops.

        Args:
            tf: The module `tensorflow`.
            places: The places, int32 `(N,)`.
            lengths: For each the number of places of its sequence, int32 `(N,)`.
        """
        counts = tf.maximum(1, -(-(lengths - 2 * self.margin) // self.step))
        return tf.minimum(tf.maximum((places - self.margin) // self.step, 0), counts - 1)
