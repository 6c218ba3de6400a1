"""Batches of prompts and answers in one row, for decoders that learn the answers alone."""

from __future__ import annotations

import numpy as np

from keras_attn.batches.bucketing import (
    Bucket,
    BucketedBatches,
    Ids,
    ceil,
    check_ids,
    flatten,
    merge_buckets,
    pack,
    padded,
)
from keras_attn.batches.epochs import check_least

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


class AnswerBatches(BucketedBatches):
    """Batches of rows of a prompt and its answer, in which the answer alone is learnt.

    Each batch is `(ids, labels, sample_weight)`, NumPy arrays of one shape

        ids            (B, T) int32     p_1, ..., p_m, y_1, ..., y_n,  then padding
        labels         (B, T) int32     0, ..., 0, y_1, ..., y_n, end, then padding
        sample_weight  (B, T) float32   1 on the n + 1 labels of the answer, 0 elsewhere

    so that the last token of the prompt, p_m, is where y_1 is predicted. Rows of like lengths form
    buckets, and epochs and their orders are those of `TokenBatches`. **Give `shuffle=False` to
    `fit`.**

    Args:
        prompts: Ids of the prompts, at least one each.
        answers: Ids of the answers, without end.
        end_id: Id put after the answers.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_batch: Largest number of positions of a batch.
        max_length: Largest number of ids of a prompt and its answer, to which the longest rows are
            padded at most; longer ones are left out and counted in `dropped`. None: any.
        multiple: Lengths are padded to multiples of this.
        max_shapes: Largest number of shapes of batches.
        rows_multiple_of: The rows of each batch are a multiple of this.
        shuffle: Whether each epoch has another order.
        seed: Seed of the orders.

    Raises:
        ValueError: If there are no rows, not as many answers as prompts, an empty prompt, or no row
            is short enough.

    Example:

    >>> batches = AnswerBatches([[5, 6, 4]], [[8, 9]], end_id=2, multiple=6)
    >>> ids, labels, weights = batches[0]
    >>> ids.tolist(), labels.tolist()
    ([[5, 6, 4, 8, 9, 0]], [[0, 0, 8, 9, 2, 0]])
    """

    def __init__(
        self,
        prompts: Ids,
        answers: Ids,
        *,
        end_id: int,
        pad_id: int = 0,
        tokens_per_batch: int = 4096,
        max_length: int | None = None,
        multiple: int = 8,
        max_shapes: int = 12,
        rows_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
    ):
        super().__init__(shuffle, seed)
        check_least(
            tokens_per_batch=(tokens_per_batch, 1),
            max_length=(max_length, 1),
            multiple=(multiple, 1),
            max_shapes=(max_shapes, 1),
            rows_multiple_of=(rows_multiple_of, 1),
        )
        check_ids(pad_id, None, end_id)
        before = np.array([len(prompt) for prompt in prompts])
        if len(before) != len(answers) or not len(before) or not before.all():
            raise ValueError(
                "Expected one prompt or more, as many answers as prompts, and prompts of at least "
                f"one id. Received: {len(before)} prompts, {(before == 0).sum()} of them empty, "
                f"and {len(answers)} answers."
            )
        self.pad_id = pad_id
        both = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
        flat, lengths = flatten(both, "prompts and answers", pad_id)
        kept = self._keep(lengths, "max_length", max_length, "row")
        self._real_tokens = int(lengths[kept].sum())
        most = int(lengths.max()) + multiple if max_length is None else max_length
        widths = np.minimum(ceil(lengths, multiple) * multiple, most)[:, None]
        self._buckets = []
        for (width,), members in merge_buckets(widths, kept, max_shapes):
            width = min(width, most)  # which need not be a multiple
            arrays = {
                "rows": padded(flat, lengths, members, width + 1, pad_id, end_id=end_id),
                "before": before[members],
            }
            packing = pack(len(members), tokens_per_batch // width, rows_multiple_of)
            self._buckets.append(Bucket(arrays, (width,), packing))
        self._ready()

    def __getitem__(self, index: int) -> Batch:
        bucket, picked = self._take(index)
        arrays = bucket.batch(picked)
        rows, labels = arrays["rows"], arrays["rows"][:, 1:].copy()
        ids = np.where(labels != self.pad_id, rows[:, :-1], self.pad_id)  # without the end
        labels[np.arange(labels.shape[1]) < arrays["before"][:, None] - 1] = self.pad_id
        labels[len(picked) :] = self.pad_id
        return ids, labels, (labels != self.pad_id).astype("float32")
