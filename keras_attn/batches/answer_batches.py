"""Batches of rows with a prompt and an answer, for decoder-only models."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, flatten, padded
from keras_attn.batches.epochs import check_least


class AnswerBatches(BucketedBatches):
    """Batches of prompts followed by answers, in which the loss counts only the answers.

    Each batch is a tuple `(ids, labels, sample_weight)` of NumPy arrays with the same shape:

        ids            (B, T) int32     p_1, ..., p_m, y_1, ..., y_n,      then padding
        labels         (B, T) int32     pad, ..., pad, y_1, ..., y_n, end, then padding
        sample_weight  (B, T) float32   1 on the n + 1 labels of the answer, 0 elsewhere

    p_1, ..., p_m are the ids of a prompt, y_1, ..., y_n the ids of its answer, and pad is `pad_id`.
    The last token of the prompt, p_m, predicts y_1. Repeated rows have weight 0 and only padding as
    labels. `BucketedBatches` describes buckets and epochs. **Pass `shuffle=False` to `fit`.**

    Args:
        prompts: Ids of each prompt, at least one.
        answers: Ids of each answer, without the end token.
        end_id: Id of the end token, which is appended to the answers.
        pad_id: Id of padding; it must not occur in the data.
        tokens_per_batch: Maximum number of positions of a batch, including padding but not the rows
            that `rows_multiple_of` adds. A longer row forms a batch by itself.
        max_length: Maximum number of ids of a prompt and its answer, and maximum length of padded
            rows. Longer rows are left out and counted in `dropped`. No limit if None.
        **layout: `multiple`, `max_shapes`, `rows_multiple_of`, `shuffle`, `seed`, `workers` and
            `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no rows, the numbers of prompts and answers differ, a prompt is
            empty, ids are not non-negative integers, `pad_id` is in the data or equals `end_id`, no
            row is short enough, or a setting is out of range.

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
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(tokens_per_batch=(tokens_per_batch, 1), max_length=(max_length, 1))
        check_ids(pad_id, None, end_id)
        before = np.array([len(prompt) for prompt in prompts])
        if len(before) != len(answers) or not len(before) or not before.all():
            raise ValueError(
                "Expected at least one prompt, no empty prompts, and one answer for each "
                f"prompt. Received: {len(before)} prompts, {(before == 0).sum()} of them "
                f"empty, and {len(answers)} answers."
            )
        self.pad_id = pad_id
        both = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
        flat, lengths = flatten(both, "prompts and answers", pad_id)
        kept = self._keep(lengths, "max_length", max_length, "row")
        self._real_tokens = int(lengths[kept].sum())
        most = int(lengths.max()) + self._multiple if max_length is None else max_length

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            rows = padded(flat, lengths, members, shape[0] + 1, pad_id, end_id=end_id)
            return {"rows": rows, "before": before[members]}

        widths = np.minimum(self._rounded(lengths), most)
        self._fill(widths, arrays, kept=kept, tokens_per_batch=tokens_per_batch, limit=most)

    def _batch(self, rows: Rows) -> Batch:
        tokens, before = rows.arrays["rows"], rows.arrays["before"]
        labels = tokens[:, 1:].copy()
        ids = np.where(labels != self.pad_id, tokens[:, :-1], self.pad_id)  # without the end
        labels[np.arange(labels.shape[1]) < before[:, None] - 1] = self.pad_id
        labels[rows.real :] = self.pad_id
        return ids, labels, (labels != self.pad_id).astype("float32")
