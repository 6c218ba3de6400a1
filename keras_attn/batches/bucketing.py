"""Checks, padding and bucketing of sequences of ids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

Ids = Sequence[Sequence[int] | np.ndarray]
Flat = tuple[np.ndarray, np.ndarray]
"""All ids in one int32 vector, and the length of each sequence."""


class Packing(NamedTuple):
    """The distribution of a bucket's examples over batches."""

    rows: int  # rows of each batch
    batches: int
    examples: int  # at most, of a batch; repeated ones fill the other rows


def pack(size: int, most: int, multiple_of: int) -> Packing:
    """Distributes `size` examples over the fewest batches of at most `most` examples."""
    count = ceil(size, max(most, 1))
    examples = ceil(size, count)
    return Packing(ceil(examples, multiple_of) * multiple_of, count, examples)


def ceil(number: int, divisor: int) -> int:
    """Returns the quotient of two integers, rounded up."""
    return -(-number // divisor)


def check_ids(pad_id: int, start_id: int | None, end_id: int | None) -> None:
    """Raises a ValueError if the padding id is also the start or end id."""
    if pad_id in (start_id, end_id):
        raise ValueError(
            "`pad_id` must differ from `start_id` and `end_id`. "
            f"Received: pad_id={pad_id}, start_id={start_id}, end_id={end_id}"
        )


def check_pairs(sources: Ids | None, targets: Ids, pad_id: int) -> list[Flat]:
    """Returns the flat ids and lengths of sources and targets, or only of targets."""
    if not len(targets) or (sources is not None and len(sources) != len(targets)):
        raise ValueError(
            "Expected as many sources as targets, and at least one. Received: "
            f"{'no' if sources is None else len(sources)} sources and {len(targets)} targets."
        )
    sides = [] if sources is None else [flatten(sources, "sources", pad_id)]
    for _, lengths in sides:
        if not lengths.all():
            raise ValueError(
                "Expected sources of one id or more. Received: an empty source at position "
                f"{int(np.argmin(lengths))}. Leave such pairs out."
            )
    return [*sides, flatten(targets, "targets", pad_id)]


def flatten(ids: Ids, name: str, pad_id: int) -> Flat:
    """Returns all ids in one int32 vector, and the length of each sequence."""
    lengths = np.fromiter((len(row) for row in ids), "int64", len(ids))
    arrays = [row for row in ids if len(row)]
    if arrays and all(isinstance(row, np.ndarray) for row in arrays):
        flat = np.concatenate(arrays)
    else:
        flat = np.array(list(chain.from_iterable(ids)))
    if flat.size and (flat.dtype.kind not in "iu" or flat.ndim != 1 or flat.min() < 0):
        raise ValueError(
            f"Expected `{name}` to be lists of integer ids >= 0. Received: {flat.dtype} values"
            + (f", the smallest {flat.min()}." if flat.dtype.kind == "i" else ".")
        )
    if flat.size and flat.max() >= 2**31:
        raise ValueError(
            f"Expected `{name}` to be ids below 2^31. Received: ids up to {flat.max()}."
        )
    if (flat == pad_id).any():
        row = int(np.searchsorted(np.cumsum(lengths), np.argmax(flat == pad_id), side="right"))
        raise ValueError(
            f"`pad_id`={pad_id} must not occur in the data, where it would be taken for "
            f"padding. Received: {pad_id} in sequence {row} of `{name}`. Remove it, or "
            "choose another `pad_id`."
        )
    return flat.astype("int32"), lengths


def padded(
    flat: np.ndarray,
    lengths: np.ndarray,
    members: np.ndarray,
    width: int,
    pad_id: int,
    start_id: int | None = None,
    end_id: int | None = None,
) -> np.ndarray:
    """Returns the sequences with indices `members` as int32 rows `(N, width)`.

    A row is start, ids, end, padding; without a start or end token if its id is None.
    """
    table = np.full((len(members), width), pad_id, "int32")
    before = int(start_id is not None)
    starts = np.cumsum(lengths) - lengths
    sizes = lengths[members]
    columns = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.repeat(np.arange(len(members)), sizes)
    table[rows, columns + before] = flat[np.repeat(starts[members], sizes) + columns]
    if start_id is not None:
        table[:, 0] = start_id
    if end_id is not None:
        table[np.arange(len(members)), sizes + before] = end_id
    return table


def teacher_forcing(
    targets: np.ndarray, real: int, pad_id: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns inputs, labels and weights (B, T) of rows (B, T + 1): start, ids, end, padding.

    The rows from index `real` on only fill the batch; their labels are padding with weight 0.
    """
    labels = targets[:, 1:].copy()
    # Without the end token, which is inside the shorter rows.
    inputs = np.where(labels != pad_id, targets[:, :-1], pad_id)
    labels[real:] = pad_id
    return inputs, labels, (labels != pad_id).astype("float32")


def join_small(
    groups: Sequence[tuple[tuple[int, ...], np.ndarray]], least: int
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Joins groups of `merge_buckets` with fewer than `least` examples.

    A group joins the next longer group; the longest group joins the previous group.
    """
    joined: list[tuple[tuple[int, ...], np.ndarray]] = []
    for widths, members in groups:
        if joined and len(joined[-1][1]) < least:
            members = np.sort(np.concatenate([joined.pop()[1], members]))
        joined.append((widths, members))
    if len(joined) > 1 and len(joined[-1][1]) < least:
        (widths, last), (_, before) = joined.pop(), joined.pop()
        joined.append((widths, np.sort(np.concatenate([before, last]))))
    return joined


def merge_buckets(
    widths: np.ndarray, kept: np.ndarray, max_shapes: int, most_cells: int = 256
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Groups the `kept` examples by their padded widths (N, n) into at most `max_shapes` groups.

    Returns the widths and the indices of the examples of each group. Merged groups are padded to
    the larger width; merges that add the fewest padding tokens come first.
    """
    indices = np.flatnonzero(kept)
    step = int(np.gcd.reduce(widths, axis=None))
    while True:
        cells, cell_of = np.unique(-(-widths[indices] // step) * step, axis=0, return_inverse=True)
        cell_of = cell_of.reshape(-1)
        if len(cells) <= most_cells:
            break
        step *= 2
    counts = np.bincount(cell_of)
    owner = np.arange(len(cells))  # of each first cell, the row of `cells` that holds it now
    alive = np.arange(len(cells))
    while len(alive) > max_shapes:
        shapes, numbers = cells[alive], counts[alive]
        merged = np.maximum(shapes[:, None], shapes[None]).sum(-1)
        own = shapes.sum(-1)
        cost = numbers[:, None] * (merged - own[:, None]) + numbers * (merged - own)
        cost[np.tril_indices(len(alive))] = np.iinfo(cost.dtype).max
        a, b = alive[list(np.unravel_index(np.argmin(cost), cost.shape))]
        cells[a] = np.maximum(cells[a], cells[b])
        # Cells that had, or now have, the same shape are one.
        for other in alive[(alive == b) | ((cells[alive] == cells[a]).all(-1) & (alive != a))]:
            owner[owner == other] = a
            counts[a] += counts[other]
            alive = alive[alive != other]
    order = sorted(alive, key=lambda cell: (cells[cell].max(), *cells[cell]))
    final = owner[cell_of]
    return [(tuple(map(int, cells[cell])), indices[final == cell]) for cell in order]
