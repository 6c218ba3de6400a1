"""Batches of pairs of texts that an encoder reads separately."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, flatten, padded
from keras_attn.batches.epochs import check_least


class ScoredPairBatches(BucketedBatches):
    """Batches of pairs of texts with targets, for an encoder that reads each text separately.

    Each batch is `(inputs, labels, sample_weight)`:

        inputs         {"token_ids", "segment_ids", "padding_mask"}, each (B, 2, T): both texts
        labels         {name: (B,)} float32, or {name: (B, R)} float32
        sample_weight  {name: (B,)} float32; 0 in repeated rows

    The longer text of a pair determines its bucket. `BucketedBatches` describes buckets and epochs.
    **Pass `shuffle=False` to `fit`.**

    Args:
        firsts: The ids of the first texts, including special tokens.
        seconds: The ids of the second texts, including special tokens.
        targets: One number or R numbers for each pair.
        name: Name of the model output to which the targets belong.
        batch_size: Maximum number of pairs of a batch.
        segments: Whether the inputs have `segment_ids`, which are all 0.
        pad_id: Id of padding; it must not occur in the data.
        max_length: Maximum number of ids that a text may have; no limit if None.
        least: Buckets with fewer pairs than this number are joined with other buckets. If the loss
            compares the rows of a batch with each other, set `least` to `batch_size`. With a
            `least` above 1, the pairs of a bucket are spread evenly over its batches, so that each
            batch has at least `batch_size // 2` pairs if the bucket has at least `batch_size`.
        **layout: `multiple` (default 16), `max_shapes` (12), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no pairs, the numbers of texts and targets differ, ids are not
            non-negative integers, `pad_id` is in the data, a text is longer than `max_length`, or a
            setting is out of range.

    Example:

    >>> batches = ScoredPairBatches([[2, 7, 3]], [[2, 3]], [0.5], multiple=4)
    >>> inputs, labels, weights = batches[0]
    >>> inputs["token_ids"].tolist(), labels["similarity"].tolist()
    ([[[2, 7, 3, 0], [2, 3, 0, 0]]], [0.5])
    """

    MULTIPLE = 16

    def __init__(
        self,
        firsts: Ids,
        seconds: Ids,
        targets: ArrayLike,
        *,
        name: str = "similarity",
        batch_size: int = 32,
        segments: bool = True,
        pad_id: int = 0,
        max_length: int | None = None,
        least: int = 1,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(batch_size=(batch_size, 1), max_length=(max_length, 1), least=(least, 1))
        count = len(firsts)
        self._targets = np.asarray(targets, "float32")
        if not count or len(seconds) != count or self._targets.shape[:1] != (count,):
            raise ValueError(
                "Expected as many second texts and targets as first texts, and at least one. "
                f"Received: {count} first texts, {len(seconds)} second texts and targets of "
                f"shape {self._targets.shape}."
            )
        self.name, self.segments, self.pad_id = name, segments, pad_id
        sides = [flatten(rows, "rows", pad_id) for rows in (firsts, seconds)]
        longest = np.maximum(*(lengths for _, lengths in sides))
        if max_length is not None and longest.max() > max_length:
            raise ValueError(
                f"Expected texts of at most max_length={max_length} ids. Received: "
                f"{int(longest.max())} ids in pair {int(longest.argmax())}."
            )
        self._real_tokens = int(sum(lengths.sum() for _, lengths in sides))

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            both = [padded(*side, members, shape[0], pad_id) for side in sides]
            return {"ids": np.stack(both, axis=1)}

        widths = self._rounded(np.stack([longest, longest], axis=1))
        self._fill(widths, arrays, batch_size=batch_size, limit=max_length, least=least)

    def _batch(self, rows: Rows) -> Batch:
        ids = rows.arrays["ids"]
        segments = {"segment_ids": np.zeros_like(ids)} if self.segments else {}
        inputs = {"token_ids": ids, **segments, "padding_mask": ids != self.pad_id}
        weights = rows.weights(np.ones(len(self._targets), "float32"))
        return inputs, {self.name: self._targets[rows.members]}, {self.name: weights}
