"""Batches of packed rows, which have little padding."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from keras_attn.batches.bucketed_batches import Batch, Bucket, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, check_pairs, pack
from keras_attn.batches.epochs import check_least


class PackedBatches(BucketedBatches):
    """Batches of tokenized pairs for teacher forcing, with several pairs in each row.

    Each batch is a tuple `(inputs, labels, sample_weight)` of NumPy arrays, with the inputs

        source_ids       (B, S) int32    the concatenated source ids of the row's pairs
        source_segments  (B, S) int32    1, 1, 1, 2, 2, ...: the pair of each id; 0 is padding
        target_ids       (B, T) int32    start, y_1, ..., y_n of each pair
        target_segments  (B, T) int32    the pair of each target id, in the same way

    y_1, ..., y_n are the ids of a target. Labels (y_1, ..., y_n, end) and weights have the same
    form as in `TokenBatches`. `keras_attn.models.packed_transformer` builds a model for these
    batches; your own models can compute masks and positions with `keras_attn.ops.segment_mask` and
    `segment_positions`. For language models, leave out the sources: the inputs are then
    `target_ids` and `target_segments`.

    Pairs are packed once by first-fit decreasing (Krell et al., 2021,
    https://arxiv.org/abs/2107.02027): longest first, each into the first row that has room for
    source and target. All batches have the same shape, so that a backend that compiles for each
    shape compiles once. If a batch is not full, rows are repeated with weight 0 and only padding as
    labels.

    Packing helps if lengths differ so much that buckets have much padding, or if compilation is
    expensive. Attention still computes the products of each token with all tokens of its row, so
    rows should not be much longer than the longest sentence.

    As in `BucketedBatches`, each epoch has its own order of the rows. **Pass `shuffle=False` to
    `fit`.**

    Args:
        sources: Token ids of the sources, including the special tokens that the model needs; None
            for language models.
        targets: Token ids of the targets, *without* the start and end tokens.
        start_id: Id of the start token, the first input of the decoder for each pair.
        end_id: Id of the end token, the last label of each pair.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_row: Maximum number of source tokens, and of target tokens including end tokens,
            of a row. Longer pairs are left out and counted in `dropped`.
        tokens_per_batch: Maximum number of source positions and of target positions of a batch,
            which has at most `tokens_per_batch // tokens_per_row` rows, without the rows that
            `rows_multiple_of` adds.
        **layout: `rows_multiple_of`, `shuffle`, `seed`, `workers` and `max_queue_size`, as in
            `BucketedBatches`; lengths are not padded to a `multiple`.

    Raises:
        ValueError: If `sources` and `targets` differ in length or are empty, a source is empty, ids
            are not non-negative integers, `pad_id` is in the data or equals `end_id`, no pair is
            short enough, or a setting is out of range.

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
    """Puts sequences into their rows (-1: none), and returns ids and segments `(N, width)`.

    The id `before` precedes each sequence, or the id `after` follows it.
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
    """The sequence of each token, and its position in the sequence, given the lengths."""
    at = np.repeat(np.arange(len(lengths)), lengths)
    return at, np.arange(len(at)) - (np.cumsum(lengths) - lengths)[at]


def first_fit(lengths: np.ndarray, room: int, most_open: int = 1024) -> np.ndarray:
    """Packs examples with lengths `(N, n)`, longest first, each into the first row with room.

    Returns the row of each example. If more than `most_open` rows are open, the fullest row is
    closed.
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
