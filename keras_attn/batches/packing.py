"""Batches with several examples in each row, which have little padding."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from keras_attn.batches.bucketed_batches import Batch, Bucket, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, check_pairs, pack
from keras_attn.batches.epochs import check_least


class PackedBatches(BucketedBatches):
    """Batches of tokenised pairs for teacher forcing, several pairs a row.

    Each batch is `(inputs, labels, sample_weight)`, NumPy arrays, with inputs

        source_ids       (B, S) int32    the source ids of the row's pairs one after the other
        source_segments  (B, S) int32    1, 1, 1, 2, 2, ...: the pair of each id; 0 is padding
        target_ids       (B, T) int32    start, y_1, ..., y_n of each pair
        target_segments  (B, T) int32    the same numbers

    and labels y_1, ..., y_n, end and weights as in `TokenBatches`. `keras_attn.models`'
    `packed_transformer` trains on them; your own models make masks and positions of the segments by
    `keras_attn.ops.segment_mask` and `segment_positions`. Without sources the inputs are
    `target_ids` and `target_segments`, for language models.

    Pairs are packed once, the long ones first, each into the first row that has room for both of
    its sides (first-fit decreasing; Krell et al., 2021, https://arxiv.org/abs/2107.02027). All
    batches have one shape, and a backend that compiles for each shape compiles once. If the last
    batch is not full, rows are repeated with weight 0 and padding for labels.

    Packing pays if lengths differ so much that buckets have much padding, and if compiling is
    expensive. In the attention each token still costs products over its whole row, so rows should
    not be much longer than the longest sentence. docs/speed.md has figures.

    Epochs, as in `BucketedBatches`, have an order of the rows. **Give `shuffle=False` to
    `fit`.**

    Args:
        sources: Token ids of the sources, with the special tokens that they need. None: there are
            no sources.
        targets: Token ids of the targets, *without* start and end.
        start_id: Id put before the decoder's input.
        end_id: Id put after the labels.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_row: Maximum number of tokens of a row, on each side. Longer pairs (the target
            with its end) are left out and counted in `dropped`.
        tokens_per_batch: Maximum number of positions of a batch on one side: it has
            `tokens_per_batch // tokens_per_row` rows.
        **layout: `rows_multiple_of`, `shuffle`, `seed`, `workers` and `max_queue_size`, as in
            `BucketedBatches`; lengths are not padded to a `multiple`.

    Raises:
        ValueError: As `TokenBatches`.

    Example:

    >>> batches = PackedBatches([[5, 6], [7]], [[8], [9]], start_id=1, end_id=2, tokens_per_row=4)
    >>> inputs, labels, weight = batches[0]
    >>> inputs["source_ids"].tolist(), inputs["source_segments"].tolist()
    ([[5, 6, 7]], [[1, 1, 2]])
    >>> inputs["target_ids"].tolist(), labels.tolist()
    ([[1, 8, 1, 9]], [[8, 2, 9, 2]])
    """

    def __init__(
        self,
        sources: Ids | None,
        targets: Ids,
        *,
        start_id: int,
        end_id: int,
        pad_id: int = 0,
        tokens_per_row: int = 128,
        tokens_per_batch: int = 4096,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(tokens_per_row=(tokens_per_row, 1))
        if tokens_per_batch < tokens_per_row:
            raise ValueError(
                f"`tokens_per_batch` must be >= {tokens_per_row} (`tokens_per_row`). "
                f"Received: {tokens_per_batch!r}"
            )
        check_ids(pad_id, None, end_id)  # the start may be padding, as in Marian and T5
        self.pad_id = pad_id
        *source, target = check_pairs(sources, targets, pad_id)
        lengths = np.stack([*(sizes for _, sizes in source), target[1] + 1], axis=1)
        kept = self._keep(lengths.max(axis=1), "tokens_per_row", tokens_per_row, "pair")
        self._real_tokens = int(lengths[kept].sum())
        row_of = np.full(len(lengths), -1)
        row_of[kept] = first_fit(lengths[kept], tokens_per_row)
        rows = {}
        for side in source:
            rows["source_ids"], rows["source_segments"] = _laid(*side, row_of, pad_id)
        rows["target_ids"], rows["target_segments"] = _laid(
            *target, row_of, pad_id, before=start_id
        )
        widths = tuple(ids.shape[1] for name, ids in rows.items() if name.endswith("_ids"))
        rows["labels"], _ = _laid(*target, row_of, pad_id, after=end_id)
        count = len(rows["labels"])
        packing = pack(count, tokens_per_batch // tokens_per_row, self._rows_multiple_of)
        self._buckets = [Bucket(np.arange(count), rows, widths, packing)]
        self._ready()

    def _batch(self, rows: Rows) -> Batch:
        inputs = dict(rows.arrays)
        labels = inputs.pop("labels")
        labels[rows.real :] = self.pad_id
        return inputs, labels, (labels != self.pad_id).astype("float32")


def _laid(
    flat: np.ndarray,
    lengths: np.ndarray,
    row_of: np.ndarray,
    pad_id: int,
    before: int | None = None,
    after: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Lays sequences into their rows (-1: none): ids `(N, width)`, and segments of that shape.

    Each has the id `before` before it, or `after` after it.
    """
    around = int(before is not None) + int(after is not None)
    order = np.flatnonzero(row_of >= 0)
    order = order[np.argsort(row_of[order], kind="stable")]
    rows, sizes = row_of[order], lengths[order]
    firsts = np.searchsorted(rows, rows)  # the first sequence of the same row
    starts = np.cumsum(sizes + around) - sizes - around
    starts -= starts[firsts]
    ids = np.full((rows[-1] + 1, int((starts + sizes).max()) + around), pad_id, "int32")
    segments = np.zeros_like(ids)
    at, within = _spread(sizes + around)
    segments[rows[at], starts[at] + within] = at - firsts[at] + 1
    at, within = _spread(sizes)
    in_flat = (np.cumsum(lengths) - lengths)[order]
    ids[rows[at], starts[at] + within + int(before is not None)] = flat[in_flat[at] + within]
    if before is not None:
        ids[rows, starts] = before
    if after is not None:
        ids[rows, starts + sizes + around - 1] = after
    return ids, segments


def _spread(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each token of sequences of these lengths: its sequence, and its place there."""
    at = np.repeat(np.arange(len(lengths)), lengths)
    return at, np.arange(len(at)) - (np.cumsum(lengths) - lengths)[at]


def first_fit(lengths: np.ndarray, room: int, most_open: int = 1024) -> np.ndarray:
    """Packs sequences `(N, sides)`, longest first, each into the first row with room on all sides.

    Returns the row of each sequence. Of more than `most_open` open rows the fullest one is closed.
    """
    sides = [np.zeros(most_open, "int64") for _ in range(lengths.shape[1])]  # what is free
    number = np.zeros(most_open, "int64")
    row_of = np.empty(len(lengths), "int64")
    rows = 0
    order = np.lexsort((-lengths.sum(axis=1), -lengths.max(axis=1)))
    for i, sizes in zip(order.tolist(), lengths[order].tolist(), strict=True):
        fits = sides[0] >= sizes[0]
        for free, size in zip(sides[1:], sizes[1:], strict=True):
            fits &= free >= size
        slot = int(fits.argmax())
        if not fits[slot]:
            slot = int(np.minimum.reduce(sides).argmin())
            number[slot] = rows
            rows += 1
            for free in sides:
                free[slot] = room
        for free, size in zip(sides, sizes, strict=True):
            free[slot] -= size
        row_of[i] = number[slot]
    return row_of
