"""Rows of different lengths, as a flat array of values and an array of lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_attn.arrays.modules import Array, ArrayModule


def starts_of(xp: ArrayModule, lengths: Array) -> Array:
    """Computes the index of each row's first value in the flat array of all rows.

    Args:
        xp: `numpy` or `keras.ops`.
        lengths: Number of values of each row, int32 `(B,)`.

    Returns:
        The indices, int32 `(B,)`.

    Example:

    >>> starts_of(np, np.array([2, 0, 3], "int32")).tolist()
    [0, 2, 2]
    """
    return xp.cumsum(lengths, axis=0, dtype="int32") - lengths


def owners(xp: ArrayModule, lengths: Array) -> Array:
    """Returns the index of the row to which each value of a flat array belongs.

    Args:
        xp: `numpy` or `keras.ops`.
        lengths: Number of values of each row, int32 `(B,)`.

    Returns:
        The row indices of all N values, int32 `(N,)`.

    Example:

    >>> owners(np, np.array([2, 0, 3], "int32")).tolist()
    [0, 0, 2, 2, 2]
    """
    ends = xp.cumsum(lengths, axis=0, dtype="int32")
    places = xp.arange(xp.max(ends, initial=0), dtype="int32")
    # Not `repeat`: in a graph it makes as many copies of each as of the one that has most.
    return xp.array(xp.searchsorted(ends, places, side="right"), dtype="int32")


def places_in_rows(xp: ArrayModule, lengths: Array) -> tuple[Array, Array]:
    """Returns the row of each value of a flat array, and the position of the value in the row.

    Args:
        xp: `numpy` or `keras.ops`.
        lengths: Number of values of each row, int32 `(B,)`.

    Returns:
        A tuple of the row indices and the positions of all N values, int32 `(N,)` each.

    Example:

    >>> places_in_rows(np, np.array([2, 0, 3], "int32"))[1].tolist()
    [0, 1, 0, 1, 2]
    """
    rows = owners(xp, lengths)
    places = xp.arange(xp.shape(rows)[0], dtype="int32")
    return rows, places - xp.take(starts_of(xp, lengths), rows, axis=0)


def row_sums(xp: ArrayModule, values: Array, lengths: Array) -> Array:
    """Computes the sum of the values of each row of a flat array.

    Args:
        xp: `numpy` or `keras.ops`.
        values: The values of all rows, int32 `(N,)`.
        lengths: Number of values of each row, int32 `(B,)`.

    Returns:
        The sums, int32 `(B,)`.

    Example:

    >>> row_sums(np, np.array([5, 6, 7], "int32"), np.array([2, 0, 1], "int32")).tolist()
    [11, 0, 7]
    """
    sums = xp.pad(xp.cumsum(values, axis=0, dtype="int32"), [[1, 0]])
    begins = starts_of(xp, lengths)
    return xp.take(sums, begins + lengths, axis=0) - xp.take(sums, begins, axis=0)


def kept(xp: ArrayModule, mask: Array, lengths: Array) -> tuple[Array, Array]:
    """Finds the values of a flat array that a mask keeps, and counts them in each row.

    Args:
        xp: `numpy` or `keras.ops`.
        mask: Booleans `(N,)`, true for the values to keep.
        lengths: Number of values of each row, int32 `(B,)`.

    Returns:
        A tuple of the indices of the M kept values, int32 `(M,)`, and the number of kept values in
        each row, int32 `(B,)`.

    Example:

    >>> places, lengths = kept(np, np.array([True, False, True]), np.array([2, 1], "int32"))
    >>> places.tolist(), lengths.tolist()
    ([0, 2], [1, 1])
    """
    places = xp.array(xp.nonzero(mask)[0], dtype="int32")
    return places, row_sums(xp, xp.array(mask, dtype="int32"), lengths)


def padded(
    xp: ArrayModule, values: Array, lengths: Array, blank: float = 0, least: int = 0
) -> Array:
    """Arranges the rows of a flat array in a table, padded on the right.

    Args:
        xp: `numpy` or `keras.ops`.
        values: The values of all rows, `(N,)`.
        lengths: Number of values of each row, int32 `(B,)`.
        blank: Padding value.
        least: Minimum width W of the table.

    Returns:
        The table `(B, W)`, in the dtype of `values`. W is the greatest length, but at least
        `least`.

    Example:

    >>> padded(np, np.array([5, 6, 7]), np.array([2, 0, 1], "int32")).tolist()
    [[5, 6], [0, 0], [7, 0]]
    """
    width = xp.max(lengths, initial=least)
    columns = xp.expand_dims(xp.arange(width, dtype="int32"), 0)  # (1, W)
    places = xp.expand_dims(starts_of(xp, lengths), 1) + columns
    behind = xp.shape(values)[0]
    places = xp.where(columns < xp.expand_dims(lengths, 1), places, behind)
    return xp.take(xp.pad(values, [[0, 1]], constant_values=blank), places, axis=0)


def places_of(xp: ArrayModule, table: Array, value: int) -> Array:
    """Finds the columns in which each row of a table contains a given value.

    Args:
        xp: `numpy` or `keras.ops`.
        table: Integers, int32 `(B, T)`.
        value: The value to find.

    Returns:
        The columns in ascending order, padded with zeros, int32 `(B, M)`; M is the greatest number
        of columns with the value in a row, at least 1.

    Example:

    >>> places_of(np, np.array([[7, 5, 7], [5, 5, 5], [5, 5, 7]], "int32"), 7).tolist()
    [[0, 2], [0, 0], [2, 0]]
    """
    rows, width = xp.shape(table)[0], xp.shape(table)[1]
    lengths = xp.zeros_like(table[:, 0]) + width
    places, counts = kept(xp, xp.reshape(table == value, (-1,)), lengths)
    begins = xp.expand_dims(xp.arange(rows, dtype="int32") * width, 1)
    return xp.maximum(padded(xp, places, counts, least=1) - begins, 0)


def joined(
    xp: ArrayModule, parts: Sequence[tuple[Array, Array, Array]], blank: int
) -> tuple[Array, Array]:
    """Concatenates parts of flat arrays to R rows, and arranges the rows in a padded table.

    Args:
        xp: `numpy` or `keras.ops`.
        parts: For each part of a row, a tuple of a flat array, int32 `(N,)`, and the start and the
            size of each row's part in this array, int32 `(R,)` each.
        blank: Padding value.

    Returns:
        A tuple of the rows, int32 `(R, T)`, padded on the right, and their sizes, int32 `(R,)`. T
        is the greatest size.

    Example:

    >>> ids, none, two = np.array([5, 6, 7], "int32"), np.zeros(2, "int32"), np.full(2, 2, "int32")
    >>> rows, sizes = joined(np, [(ids, none, two), (ids, two, np.array([1, 0], "int32"))], 0)
    >>> rows.tolist(), sizes.tolist()
    ([[5, 6, 7], [5, 6, 0]], [3, 2])
    """
    ends = xp.zeros_like(parts[0][2])
    bounds = []
    for _, _, sizes in parts:
        bounds.append(ends)
        ends = ends + sizes
    columns = xp.expand_dims(xp.arange(xp.max(ends, initial=0), dtype="int32"), 0)  # (1, T)
    rows = xp.zeros_like(xp.expand_dims(ends, 1) + columns) + blank
    for (values, starts, sizes), begin in zip(parts, bounds, strict=True):
        behind = xp.shape(values)[0]
        at = columns - xp.expand_dims(begin, 1)  # (R, T), places in the part
        inside = (at >= 0) & (at < xp.expand_dims(sizes, 1))
        at = xp.where(inside, at + xp.expand_dims(starts, 1), behind)
        rows = xp.where(inside, xp.take(xp.pad(values, [[0, 1]]), at, axis=0), rows)
    return rows, ends


def order(xp: ArrayModule, values: Array) -> Array:
    """Returns the indices that sort the values of each row; equal values keep their order.

    Args:
        xp: `numpy` or `keras.ops`.
        values: Numbers `(..., N)`.

    Returns:
        The indices of the values in ascending order, int32 `(..., N)`.

    Example:

    >>> order(np, np.array([3.0, 1.0, 3.0, 1.0])).tolist()
    [1, 3, 0, 2]
    """
    stable = {"kind": "stable"} if xp is np else {}
    return xp.array(xp.argsort(values, axis=-1, **stable), dtype="int32")
