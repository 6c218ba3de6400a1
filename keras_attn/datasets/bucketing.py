"""What batches of sequences share: buckets of like lengths, and orders of epochs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np

Ids = Sequence[Sequence[int]]


class BucketedBatches(keras.utils.PyDataset):
    """Base of the datasets whose batches come from buckets; subclasses fill `_buckets`.

    A bucket has `size` examples, at most `examples` of them in each of its `count` batches of
    `rows` rows, and the `lengths` to which the sides of its examples are padded.
    """

    shuffle: bool
    seed: int
    _buckets: list[Any]

    def _ready(self) -> None:
        """To be called at the end of `__init__`, when the buckets are there."""
        self._batches = [
            (b, i) for b, bucket in enumerate(self._buckets) for i in range(bucket.count)
        ]
        self.set_epoch(0)

    def __len__(self) -> int:
        return len(self._batches)

    def _take(self, index: int) -> tuple[int, np.ndarray]:
        """The number of the bucket of a batch, and its rows there: fewer where it is not full."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"Batch {index} of {len(self)}")
        orders, batches, taken = self._plan
        taken[index] = True
        number, part = self._batches[batches[index]]
        most = self._buckets[number].examples
        return number, orders[number][part * most : (part + 1) * most]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all batches, the number of rows first, from short to long."""
        return [(bucket.rows, *bucket.lengths) for bucket in self._buckets]

    def set_epoch(self, epoch: int) -> None:
        """Take the order of epoch `epoch` (from 0), for the next `fit` or loop.

        Args:
            epoch: Number of the epoch, >= 0.

        Raises:
            ValueError: A negative epoch.
        """
        if epoch < 0:
            raise ValueError(f"`epoch` must be >= 0. Received: {epoch!r}")
        self.epoch = int(epoch)
        self._begun = False
        self._plan = self._make_plan()  # replaced at once: workers read it from other threads

    def state(self) -> dict[str, int]:
        """What names the order of the batches, for a checkpoint: `{"epoch", "seed"}`."""
        return {"epoch": self.epoch, "seed": self.seed}

    def on_epoch_begin(self) -> None:
        """Called by Keras: an epoch has begun."""
        self._begun = True

    def on_epoch_end(self) -> None:
        """Called by Keras: go on to the order of the next epoch, if this one is through.

        `fit` also calls this before its first epoch, after it took a batch or two to see their
        shapes: nothing may change then.
        """
        if self._begun and self._plan[2].all():
            self.set_epoch(self.epoch + 1)

    def _make_plan(self) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """The order of each bucket, the order of all batches, and which of them were taken."""
        sizes = [bucket.size for bucket in self._buckets]
        if self.shuffle:
            rng = np.random.default_rng([self.seed, self.epoch])
            orders = [rng.permutation(size) for size in sizes]
            batches = rng.permutation(len(self._batches))
        else:
            orders = [np.arange(size) for size in sizes]
            batches = np.arange(len(self._batches))
        return orders, self._vary_first_two(batches), np.zeros(len(batches), "bool")

    def _vary_first_two(self, batches: np.ndarray) -> np.ndarray:
        """Let the first two batches differ in each length that varies.

        On TensorFlow Keras takes the shapes of the first two batches for those of all, and only
        lengths that differ there may differ later.
        """
        shapes = np.array(self.shapes)[:, 1:]
        varies = (shapes != shapes[0]).any(axis=0)
        shapes = shapes[[self._batches[batch][0] for batch in batches]]
        for first in range(len(batches)):
            differ = ((shapes != shapes[first]) | ~varies).all(axis=1)
            if differ.any():
                second = int(np.argmax(differ))
                pair = [first, second] if first < second else [second, first]
                if second == first:  # one shape only: nothing varies
                    return batches
                return np.concatenate([batches[pair], np.delete(batches, pair)])
        return batches


class Packing(NamedTuple):
    """How the examples of a bucket are laid out in batches."""

    rows: int  # rows of each batch
    count: int  # batches
    examples: int  # of each batch but the last; the other rows only fill it


def pack(size: int, most: int, multiple_of: int) -> Packing:
    """As few batches as `most` examples allow, of equally many rows, filled up to a multiple."""
    count = ceil(size, max(most, 1))
    examples = ceil(size, count)
    return Packing(ceil(examples, multiple_of) * multiple_of, count, examples)


def ceil(number: int, divisor: int) -> int:
    """The quotient, rounded up."""
    return -(-number // divisor)


def flatten(ids: Ids, name: str, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """All ids in one int32 vector, and the length of each sequence."""
    lengths = np.fromiter((len(row) for row in ids), "int64", len(ids))
    if all(isinstance(row, np.ndarray) for row in ids):
        flat = np.concatenate(ids)
    else:
        flat = np.array(list(chain.from_iterable(ids)))
    if flat.size and (flat.dtype.kind not in "iu" or flat.ndim != 1 or flat.min() < 0):
        raise ValueError(
            f"Expected `{name}` to be lists of integer ids >= 0. Received: {flat.dtype} values"
            + (f", the smallest {flat.min()}." if flat.dtype.kind == "i" else ".")
        )
    if (flat == pad_id).any():
        row = int(np.searchsorted(np.cumsum(lengths), np.argmax(flat == pad_id), side="right"))
        raise ValueError(
            f"`pad_id`={pad_id} must not occur in the data, it would be taken for padding. "
            f"Received it in `{name}`, sequence {row}. Remove it or choose another `pad_id`."
        )
    return flat.astype("int32"), lengths


def fill(
    padded: np.ndarray, flat: np.ndarray, lengths: np.ndarray, members: np.ndarray, offset: int
) -> None:
    """Write the sequences `members` of `flat` into the rows of `padded`, from `offset` on."""
    starts = np.cumsum(lengths) - lengths
    sizes = lengths[members]
    columns = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.repeat(np.arange(len(members)), sizes)
    padded[rows, columns + offset] = flat[np.repeat(starts[members], sizes) + columns]


def teacher_forcing(
    targets: np.ndarray, real: int, pad_id: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels and weights (B, T) of rows (B, T + 1): start, ids, end, padding.

    The labels of rows from `real` on, which only fill the batch, are padding with weight 0.

    >>> [part.tolist() for part in teacher_forcing(np.array([[1, 8, 2, 0], [1, 7, 9, 2]]), 1, 0)]
    [[[1, 8, 0], [1, 7, 9]], [[8, 2, 0], [0, 0, 0]], [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    labels = targets[:, 1:].copy()
    # Without the end token, which stands inside the shorter rows.
    inputs = np.where(labels != pad_id, targets[:, :-1], pad_id)
    labels[real:] = pad_id
    return inputs, labels, (labels != pad_id).astype("float32")


def merge_buckets(
    widths: np.ndarray, kept: np.ndarray, max_shapes: int, most_cells: int = 256
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Group the `kept` examples by their padded widths (N, sides), in `max_shapes` at most.

    Returns the widths and the indices of the examples of each group. Two groups are merged to the
    larger of both widths; those first for which that adds the fewest padding tokens.
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
