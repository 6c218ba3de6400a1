"""Batches of labelled pairs of texts, for classifiers on any backend."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, flatten, padded
from keras_attn.batches.classification_batches import TextBatches, check_labels, check_weights
from keras_attn.batches.epochs import check_least

SIDES = ("premise_ids", "hypothesis_ids")


class PairBatches(TextBatches):
    """Batches of tokenized pairs of texts with labels, bucketed by both lengths.

    Each batch is `({"premise_ids", "hypothesis_ids"}, labels, sample_weight)`, or
    `({"premise_ids", "hypothesis_ids"},)` without labels:

        premise_ids     (B, S) int32      the ids of the first text, then padding
        hypothesis_ids  (B, T) int32      the ids of the second text, then padding
        labels          (B,) int32        class of the pair; or (B, C) float32, 0 or 1 for each
                                          class
        sample_weight   (B,) float32      weight of the pair; 0 in repeated rows

    In all other respects, these batches work like `TextBatches`. Use `restore` to put predictions
    in the order of the pairs.

    Args:
        premises: Token ids of the first texts.
        hypotheses: Token ids of the second texts.
        labels: The class of each pair, integers from 0; or zeros and ones of shape (pairs,
            classes), for pairs with several labels. None for predictions.
        weights: Weight of each pair, at least 0; 1 if None.
        batch_size: Maximum number of pairs of a batch.
        max_length: Maximum number of ids of a text; longer texts are truncated, and counted in
            `truncated` and `lost_share`. No limit if None.
        pad_id: Id of padding; it must not occur in the data.
        **layout: `multiple` (default 8), `max_shapes` (8), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no pairs, the numbers of texts, labels and weights differ, labels
            have neither of these forms, weights are negative or not finite, there are weights
            without labels, ids are not non-negative integers, `pad_id` is in the data, or a setting
            is out of range.

    Example:

    >>> batches = PairBatches([[5, 6], [7]], [[8], [9]], [1, 0], multiple=2, shuffle=False)
    >>> inputs, labels, weight = batches[0]
    >>> inputs["premise_ids"].tolist(), inputs["hypothesis_ids"].tolist(), labels.tolist()
    ([[5, 6], [7, 0]], [[8, 0], [9, 0]], [1, 0])
    """

    MULTIPLE, MAX_SHAPES = 8, 8

    def __init__(
        self,
        premises: Ids,
        hypotheses: Ids,
        labels: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        batch_size: int = 32,
        max_length: int | None = None,
        pad_id: int = 0,
        **layout: Unpack[Layout],
    ):
        BucketedBatches.__init__(self, **layout)
        check_least(batch_size=(batch_size, 1), max_length=(max_length, 1))
        count = len(premises)
        if not count or len(hypotheses) != count:
            raise ValueError(
                "Expected as many premises as hypotheses, and at least one. Received: "
                f"{count} premises and {len(hypotheses)} hypotheses."
            )
        self.pad_id = pad_id
        self._labels = None if labels is None else check_labels(labels, count)
        self._weights = check_weights(weights, count, labels is not None)
        sides, given, cut = [], 0, np.zeros(count, "bool")
        for name, rows in zip(SIDES, (premises, hypotheses), strict=True):
            given += sum(map(len, rows))
            if max_length is not None:
                cut |= np.fromiter((len(row) > max_length for row in rows), "bool", count)
                rows = [row[:max_length] for row in rows]
            sides.append(flatten(rows, name, pad_id))
        self._real_tokens = int(sum(lengths.sum() for _, lengths in sides))
        self._truncated = int(cut.sum())
        self._lost_share = float(1.0 - self._real_tokens / max(1, given))
        lengths = np.stack([lengths for _, lengths in sides], axis=1)

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            return {
                name: padded(*side, members, width, pad_id)
                for name, side, width in zip(SIDES, sides, shape, strict=True)
            }

        self._fill(self._rounded(lengths), arrays, batch_size=batch_size, limit=max_length)

    def _batch(self, rows: Rows) -> Batch:
        return rows.arrays, *self._targets(rows)
