"""Batches of similar numbers of tokens in few shapes, for `fit` on any backend."""

from __future__ import annotations

from typing import Unpack

import keras
import numpy as np

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, check_pairs, padded, teacher_forcing
from keras_attn.batches.epochs import EpochBatches, check_least


class TokenBatches(BucketedBatches):
    """Batches of tokenized pairs for teacher forcing, bucketed by length.

    Each batch is a tuple `({"source_ids", "target_ids"}, labels, sample_weight)` of NumPy arrays:

        source_ids     (B, S) int32     the source ids as given, then padding
        target_ids     (B, T) int32     start, y_1, ..., y_n,           then padding
        labels         (B, T) int32     y_1, ..., y_n, end,             then padding
        sample_weight  (B, T) float32   1 on the labels that count, 0 on padding

    y_1, ..., y_n are the ids of a target. `BucketedBatches` describes buckets and epochs. A batch
    has at most as many pairs as `pairs * max(S, T) <= tokens_per_batch` allows. Repeated rows have
    weight 0 and only padding as labels, so that weighted losses and metrics (such as those of
    `keras_attn.training` and `keras_attn.metrics`) ignore them. **Pass `shuffle=False` to `fit`**,
    and do not pass `steps_per_epoch`. In your own training loop, call `batches.set_epoch(n)` before
    you iterate over the batches of epoch n.

    The mean loss that `fit` shows is weighted by the number of rows in each batch. For a mean over
    tokens, use `keras_attn.metrics.Perplexity` and `MaskedAccuracy`.

    Args:
        sources: Token ids of the source sentences, including the special tokens that the model
            needs.
        targets: Token ids of the target sentences, *without* the start and end tokens.
        start_id: Id of the start token, the first input of the decoder.
        end_id: Id of the end token, the last label.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_batch: Maximum number of positions in the sources and in the targets of a batch,
            including padding but not the rows that `rows_multiple_of` adds. A longer pair forms a
            batch by itself.
        max_length: Maximum length of a source, and of a target including its end token. Longer
            pairs are left out and counted in `dropped`. No limit if None.
        **layout: `multiple`, `max_shapes`, `rows_multiple_of`, `shuffle`, `seed`, `workers` and
            `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If `sources` and `targets` differ in length or are empty, ids are not
            non-negative integers, a source is empty, `pad_id` is in the data or equals `end_id`, no
            pair is short enough, or a setting is out of range.

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
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(tokens_per_batch=(tokens_per_batch, 1), max_length=(max_length, 1))
        check_ids(pad_id, None, end_id)  # the start may be padding, as in Marian and T5
        self.pad_id = pad_id
        source, target = check_pairs(sources, targets, pad_id)
        widths = np.stack([source[1], target[1] + 1], axis=1)
        kept = self._keep(widths.max(axis=1), "max_length", max_length, "pair")
        self._real_tokens = int(widths[kept].sum())

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            return {
                "sources": padded(*source, members, shape[0], pad_id),
                "targets": padded(*target, members, shape[1] + 1, pad_id, start_id, end_id),
            }

        rounded = self._rounded(widths)
        self._fill(rounded, arrays, kept=kept, tokens_per_batch=tokens_per_batch)

    def _batch(self, rows: Rows) -> Batch:
        ids, labels, weights = teacher_forcing(rows.arrays["targets"], rows.real, self.pad_id)
        return {"source_ids": rows.arrays["sources"], "target_ids": ids}, labels, weights


class EpochOrder(keras.callbacks.Callback):
    """Sets the order of batches such as `TokenBatches` or `TextWindows` by the epoch of `fit`.

    With this callback, `fit(..., initial_epoch=n)` receives the batches in the same order as an
    uninterrupted run in its epoch n, however often the batches were used before.

    Args:
        batches: The batches that are passed to `fit`.

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

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Sets the epoch of the batches; called by Keras."""
        self.batches.set_epoch(epoch)
