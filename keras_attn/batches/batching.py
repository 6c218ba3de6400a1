"""Batches of about equally many tokens, in few shapes, for `fit` on any backend."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from keras_attn.batches.bucketing import (
    Bucket,
    BucketedBatches,
    Ids,
    ceil,
    check_ids,
    check_pairs,
    merge_buckets,
    pack,
    padded,
    teacher_forcing,
)
from keras_attn.batches.epochs import EpochBatches, check_least

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


class TokenBatches(BucketedBatches):
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
    A batch has as many pairs as fit into `tokens_per_batch` positions of the longer side,
    `pairs * max(S, T) <= tokens_per_batch`, made even over the batches of the bucket. Where a last
    batch is not full, or its rows are no multiple of `rows_multiple_of`, rows of it are repeated
    with weight 0 and padding for labels: they count in no loss or metric that respects the weights
    (all of `keras_attn.training`). So each batch has the same pairs for any `rows_multiple_of`, and
    a run may go on with another number of devices.

    An epoch holds every pair exactly once. Its order, of pairs within the buckets and of batches,
    is made from `seed` and the number of the epoch alone. `fit` goes on to the next epoch by
    itself, after all batches of one were taken; `set_epoch(n)` takes up a run where it was left;
    the callback `EpochOrder(batches)` binds the order to the epoch that `fit` counts, so that
    `initial_epoch` alone resumes a run. **Give `shuffle=False` to `fit`**: its default shuffles
    the order of batches once more, with Python's global random numbers, so that the order no
    longer depends on `seed` alone. Do not give it `steps_per_epoch`. For loops of your own:
    `for n in range(epochs): batches.set_epoch(n); for batch in batches: ...`.

    The mean of the batches' losses that `fit` shows weighs batches by rows. A mean over tokens
    comes from metrics that add up: `keras_attn.metrics.Perplexity`, `MaskedAccuracy`.

    Args:
        sources: Token ids of the source sentences, with whatever special tokens they need.
        targets: Token ids of the target sentences, *without* start and end.
        start_id: Id put before the decoder's input.
        end_id: Id put after the labels.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_batch: Most positions of a batch, padding included, on its longer side, without
            the rows that `rows_multiple_of` adds. A pair longer than that makes a batch of its own.
        max_length: Longest side that is kept (the target with its end token). Longer pairs are
            left out and counted in `dropped`. None: everything is kept.
        multiple: Lengths are padded to multiples of this.
        max_shapes: Most shapes of batches.
        rows_multiple_of: Rows of each batch are filled up to a multiple of this: the number of
            devices, with `keras.distribution` or `tf.distribute`.
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
        super().__init__(shuffle, seed, workers, max_queue_size)
        check_least(
            tokens_per_batch=(tokens_per_batch, 1),
            multiple=(multiple, 1),
            max_shapes=(max_shapes, 1),
            rows_multiple_of=(rows_multiple_of, 1),
            max_length=(max_length, 1),
        )
        check_ids(pad_id, start_id, end_id)
        self.pad_id = pad_id
        source, target = check_pairs(sources, targets, pad_id)
        widths = np.stack([source[1], target[1] + 1], axis=1)
        kept = self._keep(widths.max(axis=1), "max_length", max_length, "pair")
        self._real_tokens = int(widths[kept].sum())
        self._buckets = []
        for (s, t), members in merge_buckets(ceil(widths, multiple) * multiple, kept, max_shapes):
            arrays = {
                "sources": padded(*source, members, s, pad_id),
                "targets": padded(*target, members, t + 1, pad_id, start_id, end_id),
            }
            packing = pack(len(members), tokens_per_batch // max(s, t), rows_multiple_of)
            self._buckets.append(Bucket(arrays, (s, t), packing))
        self._ready()

    def __getitem__(self, index: int) -> Batch:
        bucket, picked = self._take(index)
        rows = bucket.batch(picked)
        target_ids, labels, weights = teacher_forcing(rows["targets"], len(picked), self.pad_id)
        return {"source_ids": rows["sources"], "target_ids": target_ids}, labels, weights


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

    def __init__(self, batches: EpochBatches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Called by Keras."""
        self.batches.set_epoch(epoch)
