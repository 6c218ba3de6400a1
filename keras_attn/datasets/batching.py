"""Batches of about equally many tokens, in few shapes, for `fit` on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np

Ids = Sequence[Sequence[int]]
Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


class _Bucket(NamedTuple):
    """Pairs of like lengths, padded to one shape."""

    sources: np.ndarray  # (N, S)
    targets: np.ndarray  # (N, T + 1): start, ids, end, padding
    rows: int  # rows of each batch
    count: int  # batches


class TokenBatches(keras.utils.PyDataset):
    """Batches of tokenised pairs for teacher forcing, bucketed by length.

    Each batch is `({"source_ids", "target_ids"}, labels, sample_weight)`, NumPy arrays

        source_ids     (B, S) int32     the source ids as given, then padding
        target_ids     (B, T) int32     start, y_1, ..., y_n,           then padding
        labels         (B, T) int32     y_1, ..., y_n, end,             then padding
        sample_weight  (B, T) float32   1 on the labels that count, 0 on padding

    Pairs of like lengths (rounded up to multiples of `multiple`) form a bucket, and all batches
    of a bucket have *one* shape; buckets are merged, those first that cost the fewest padding
    tokens, until there are at most `max_shapes`. So a backend that compiles for each shape (JAX,
    XLA) compiles at most `max_shapes` times, and all shapes occur in the first epoch (`shapes`).
    A batch has as many rows as fit into `tokens_per_batch` positions of the longer side,
    `rows * max(S, T) <= tokens_per_batch`, made even over the batches of the bucket. Where a last
    batch is not full, rows of it are repeated with weight 0 and padding for labels: they count in
    no loss or metric that respects the weights (all of `keras_attn.training`).

    An epoch holds every pair exactly once. Its order, of pairs within the buckets and of batches,
    is made from `seed` and the number of the epoch alone. `fit` goes on to the next epoch by
    itself, after all batches of one were taken; `set_epoch(n)` takes up a run where it was left;
    the callback `EpochOrder(batches)` binds the order to the epoch that `fit` counts, so that
    `initial_epoch` alone resumes a run. **Give `shuffle=False` to `fit`**: its default shuffles
    the order of batches once more, with Python's global random numbers, so that the order no
    longer depends on `seed` alone. Do not give it `steps_per_epoch`. For loops of your own:
    `for n in range(epochs): batches.set_epoch(n); for batch in batches: ...`.

    The mean of the batches' losses that `fit` shows weighs batches by rows. A mean over tokens
    comes from metrics that add up: `keras_attn.training.Perplexity`, `MaskedAccuracy`.

    Args:
        sources: Token ids of the source sentences, with whatever special tokens they need.
        targets: Token ids of the target sentences, *without* start and end.
        start_id: Id put before the decoder's input.
        end_id: Id put after the labels.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_batch: Most positions of a batch, padding included, on its longer side. A pair
            longer than that makes a batch of `rows_multiple_of` rows.
        max_length: Longest side that is kept (the target with its end token). Longer pairs are
            left out and counted in `dropped`. None: everything is kept.
        multiple: Lengths are padded to multiples of this.
        max_shapes: Most shapes of batches.
        rows_multiple_of: Rows of each batch are a multiple of this: the number of devices, with
            `keras.distribution` or `tf.distribute`.
        shuffle: False: always the same order, for validation.
        seed: Any integer >= 0.
        workers: Threads that make batches ahead, if more than 1. Making one takes some ten
            microseconds, so one is enough; processes would only be in the way.
        max_queue_size: Batches made ahead by several workers.

    Raises:
        ValueError: Lists of different or no length, ids that are not integers >= 0, an empty
            source, `pad_id` in the data, no pair that is short enough, invalid settings.

    Example:

    >>> batches = TokenBatches([[5, 6, 7]], [[8, 9]], start_id=1, end_id=2, multiple=4)
    >>> inputs, labels, weight = batches[0]
    >>> inputs["target_ids"].tolist(), labels.tolist(), weight.tolist()
    ([[1, 8, 9, 0]], [[8, 9, 2, 0]], [[1.0, 1.0, 1.0, 0.0]])
    """

    def __init__(
        self,
        sources: Ids,
        targets: Ids,
        *,
        start_id: int,
        end_id: int,
        pad_id: int = 0,
        tokens_per_batch: int = 4096,
        max_length: int | None = None,
        multiple: int = 8,
        max_shapes: int = 12,
        rows_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        workers: int = 1,
        max_queue_size: int = 10,
    ):
        super().__init__(workers=workers, max_queue_size=max_queue_size)
        settings = {
            "tokens_per_batch": tokens_per_batch,
            "multiple": multiple,
            "max_shapes": max_shapes,
            "rows_multiple_of": rows_multiple_of,
        }
        if max_length is not None:
            settings["max_length"] = max_length
        for name, value in settings.items():
            if value < 1:
                raise ValueError(f"`{name}` must be >= 1. Received: {value!r}")
        if seed < 0:
            raise ValueError(f"`seed` must be >= 0. Received: {seed!r}")
        if pad_id in (start_id, end_id):
            raise ValueError(
                "`pad_id` must differ from `start_id` and `end_id`. "
                f"Received: pad_id={pad_id}, start_id={start_id}, end_id={end_id}"
            )
        if len(sources) != len(targets) or not len(sources):
            raise ValueError(
                "Expected as many sources as targets, and at least one. "
                f"Received: {len(sources)} sources and {len(targets)} targets."
            )
        self.pad_id = pad_id
        self.seed = seed
        self.shuffle = shuffle
        source_ids, source_lengths = _flatten(sources, "sources", pad_id)
        target_ids, target_lengths = _flatten(targets, "targets", pad_id)
        if not source_lengths.all():
            raise ValueError(
                f"Expected sources of one id or more. Received: source "
                f"{int(np.argmin(source_lengths))} is empty. Leave such pairs out."
            )
        longer = np.maximum(source_lengths, target_lengths + 1)
        kept = np.ones(len(longer), "bool") if max_length is None else longer <= max_length
        self._dropped = int(np.sum(~kept))
        if not kept.any():
            raise ValueError(
                f"No pair is left: all {len(longer)} are longer than `max_length`={max_length} "
                f"(the shortest has {int(longer.min())} ids). Raise `max_length`."
            )
        self._num_examples = int(np.sum(kept))
        self._real_tokens = int(np.sum(source_lengths[kept] + target_lengths[kept] + 1))

        widths = np.stack([source_lengths, target_lengths + 1], axis=1)
        widths = -(-widths // multiple) * multiple
        self._buckets: list[_Bucket] = []
        for (s, t), members in _merge_buckets(widths, kept, max_shapes):
            sources_padded = np.full((len(members), s), pad_id, "int32")
            _fill(sources_padded, source_ids, source_lengths, members, 0)
            targets_padded = np.full((len(members), t + 1), pad_id, "int32")
            targets_padded[:, 0] = start_id
            _fill(targets_padded, target_ids, target_lengths, members, 1)
            ends = target_lengths[members] + 1
            targets_padded[np.arange(len(members)), ends] = end_id
            k = rows_multiple_of
            most = max(k, tokens_per_batch // max(s, t) // k * k)
            count = _ceil(len(members), most)
            rows = _ceil(_ceil(len(members), count), k) * k
            self._buckets.append(_Bucket(sources_padded, targets_padded, rows, count))
        self._batches = [
            (b, i) for b, bucket in enumerate(self._buckets) for i in range(bucket.count)
        ]
        self.set_epoch(0)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Batch {index} of {len(self)}")
        orders, batches, taken = self._plan
        taken[index] = True
        number, part = self._batches[batches[index]]
        bucket = self._buckets[number]
        picked = orders[number][part * bucket.rows : (part + 1) * bucket.rows]
        real = len(picked)
        rows = np.resize(picked, bucket.rows)  # repeats rows where the batch is not full
        targets = bucket.targets[rows]
        labels = targets[:, 1:].copy()
        inputs = {
            "source_ids": bucket.sources[rows],
            # Without the end token, which stands inside the shorter rows.
            "target_ids": np.where(labels != self.pad_id, targets[:, :-1], self.pad_id),
        }
        labels[real:] = self.pad_id
        return inputs, labels, (labels != self.pad_id).astype("float32")

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

    @property
    def dropped(self) -> int:
        """Number of pairs left out because a side is longer than `max_length`."""
        return self._dropped

    @property
    def num_examples(self) -> int:
        """Number of examples of an epoch: pairs."""
        return self._num_examples

    @property
    def shapes(self) -> list[tuple[int, int, int]]:
        """The shapes of all batches: (rows, S, T), from short to long."""
        return [
            (bucket.rows, bucket.sources.shape[1], bucket.targets.shape[1] - 1)
            for bucket in self._buckets
        ]

    @property
    def padded_share(self) -> float:
        """Share of padding in all positions of an epoch, both sides, repeated rows included."""
        positions = sum(
            bucket.count * rows * (s + t)
            for bucket, (rows, s, t) in zip(self._buckets, self.shapes, strict=True)
        )
        return 1.0 - self._real_tokens / positions

    def _make_plan(self) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """The order of each bucket, the order of all batches, and which of them were taken."""
        sizes = [len(bucket.sources) for bucket in self._buckets]
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


class EpochOrder(keras.callbacks.Callback):
    """Binds the order of `TokenBatches` or `TextWindows` to the epoch that `fit` counts.

    With it `fit(..., initial_epoch=n)` sees the batches in the order that an uninterrupted run
    has in its epoch n, whatever was done with the batches before.

    Args:
        batches: What is given to `fit`.

    Example:

    >>> batches = TokenBatches([[5, 6, 7]], [[8, 9]], start_id=1, end_id=2)
    >>> callback = EpochOrder(batches)
    >>> callback.on_epoch_begin(3)
    >>> batches.state()
    {'epoch': 3, 'seed': 0}
    """

    def __init__(self, batches: TokenBatches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        self.batches.set_epoch(epoch)


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _flatten(ids: Ids, name: str, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
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


def _fill(
    padded: np.ndarray, flat: np.ndarray, lengths: np.ndarray, members: np.ndarray, offset: int
) -> None:
    """Write the sequences `members` of `flat` into the rows of `padded`, from `offset` on."""
    starts = np.cumsum(lengths) - lengths
    sizes = lengths[members]
    columns = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.repeat(np.arange(len(members)), sizes)
    padded[rows, columns + offset] = flat[np.repeat(starts[members], sizes) + columns]


def _merge_buckets(
    widths: np.ndarray, kept: np.ndarray, max_shapes: int, most_cells: int = 256
) -> list[tuple[tuple[int, int], np.ndarray]]:
    """Group the `kept` pairs by their padded widths (N, 2), in `max_shapes` groups at most.

    Returns (S, T) and the indices of the pairs of each group. Two groups are merged to the larger
    of both widths; those first for which that adds the fewest padding tokens.
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
    return [((int(cells[cell][0]), int(cells[cell][1])), indices[final == cell]) for cell in order]
