"""Batches of pairs of texts that an encoder reads each alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.batches.bucketing import (
    Bucket,
    BucketedBatches,
    ceil,
    flatten,
    join_small,
    merge_buckets,
    pack,
    padded,
)
from keras_attn.batches.epochs import check_least


class ScoredPairBatches(BucketedBatches):
    """Batches of pairs of texts with a target, for an encoder that reads each text alone.

    Each batch is `(inputs, labels, sample_weight)`:

        inputs         {"token_ids", "segment_ids", "padding_mask"}, each (B, 2, T): both texts
        labels         {name: (B,)} float32, or (B, R)
        sample_weight  {name: (B,)}; 0 in rows that only fill a batch

    Pairs of like lengths, of the longer text, form a bucket, and all batches of a bucket have one
    shape, as in `EncoderBatches`; orders and epochs are those too. **Give `shuffle=False` to
    `fit`.**

    Args:
        firsts: The ids of the first texts, with their special tokens.
        seconds: The ids of the second texts.
        targets: A number for each pair, or R of them.
        name: Name of the output that the targets are for.
        batch_size: Largest number of pairs of a batch.
        segments: Whether there are `segment_ids`, all 0.
        pad_id: Id of padding.
        multiple: Lengths are padded to multiples of this, the longest to `max_length` at most.
        max_length: Largest number of ids that a text may have; None if any.
        max_shapes: Largest number of shapes of batches.
        least: Buckets of fewer pairs are joined with others. If the rows of a batch are compared
            with each other, give it `batch_size`, so that no batch has less than half of it.
        rows_multiple_of: The rows of each batch are a multiple of this.
        shuffle: Whether each epoch has another order.
        seed: Seed of the orders.

    Raises:
        ValueError: If there are no pairs, the sides and targets are not equally many, or a text is
            longer than `max_length`.

    Example:

    >>> batches = ScoredPairBatches([[2, 7, 3]], [[2, 3]], [0.5], multiple=4)
    >>> inputs, labels, weights = batches[0]
    >>> inputs["token_ids"].tolist(), labels["similarity"].tolist()
    ([[[2, 7, 3, 0], [2, 3, 0, 0]]], [0.5])
    """

    def __init__(
        self,
        firsts: Sequence[Sequence[int]],
        seconds: Sequence[Sequence[int]],
        targets: Any,
        *,
        name: str = "similarity",
        batch_size: int = 32,
        segments: bool = True,
        pad_id: int = 0,
        multiple: int = 16,
        max_length: int | None = None,
        max_shapes: int = 12,
        least: int = 1,
        rows_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
    ):
        super().__init__(shuffle, seed)
        check_least(
            batch_size=(batch_size, 1),
            multiple=(multiple, 1),
            max_length=(max_length, 1),
            max_shapes=(max_shapes, 1),
            least=(least, 1),
            rows_multiple_of=(rows_multiple_of, 1),
        )
        count = len(firsts)
        self._targets = np.asarray(targets, "float32")
        if not count or len(seconds) != count or self._targets.shape[:1] != (count,):
            raise ValueError(
                "Expected as many second texts and targets as first texts, and at least one. "
                f"Received: {count}, {len(seconds)} and targets of shape {self._targets.shape}."
            )
        self.name, self.segments, self.pad_id = name, segments, pad_id
        sides = [flatten(rows, "rows", pad_id) for rows in (firsts, seconds)]
        longest = np.maximum(*(lengths for _, lengths in sides))
        if max_length is not None and longest.max() > max_length:
            raise ValueError(
                f"Expected texts of at most max_length={max_length} ids. Received: one of "
                f"{int(longest.max())} in pair {int(longest.argmax())}."
            )
        self._num_examples = count
        self._real_tokens = int(sum(lengths.sum() for _, lengths in sides))
        widths = np.maximum(1, ceil(longest, multiple)) * multiple
        self._buckets = []
        everything = np.ones(count, "bool")
        groups = merge_buckets(widths[:, None], everything, max_shapes)
        for (width,), members in join_small(groups, least):
            if max_length is not None:  # which need not be a multiple
                width = min(width, max_length)
            both = [padded(flat, lengths, members, width, pad_id) for flat, lengths in sides]
            arrays = {"ids": np.stack(both, axis=1), "members": members}
            packing = pack(len(members), batch_size, rows_multiple_of)
            self._buckets.append(Bucket(arrays, (width, width), packing))
        self._ready()

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], ...]:
        bucket, picked = self._take(index)
        arrays = bucket.batch(picked)
        inputs = {
            "token_ids": arrays["ids"],
            "segment_ids": np.zeros_like(arrays["ids"]),
            "padding_mask": arrays["ids"] != self.pad_id,
        }
        if not self.segments:
            del inputs["segment_ids"]
        share = bucket.packing.rows / bucket.packing.examples
        weights = np.full(bucket.packing.rows, share, "float32")
        weights[len(picked) :] = 0.0
        return inputs, {self.name: self._targets[arrays["members"]]}, {self.name: weights}
