"""Batches of token ids with labels, for classifiers on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, flatten, padded
from keras_attn.batches.epochs import check_least
from keras_attn.text.truncation import truncate


def class_weights(labels: Sequence[int] | np.ndarray, num_classes: int) -> np.ndarray:
    """Computes class weights that balance the classes: `n / (num_classes * texts of the class)`.

    If each class has at least one of the n texts, the mean weight over all texts is 1.

    Args:
        labels: The class of each text, integers from 0, `(n,)`.
        num_classes: Number of classes.

    Returns:
        The weight of each class, float32 `(num_classes,)`; 0 for classes without texts. The weights
        of the texts are `class_weights(...)[labels]`.

    Raises:
        ValueError: If there are no labels, or they are not integers from 0 to `num_classes - 1`.

    Example:

    >>> class_weights([0, 1, 2, 2, 2, 2], 3).tolist()
    [2.0, 2.0, 0.5]
    """
    labels = np.asarray(labels)
    valid = labels.ndim == 1 and labels.size and labels.dtype.kind in "iu"
    if not valid or labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f"Expected a vector of integer labels from 0 to {num_classes - 1}. Received: "
            f"{labels.dtype} values of shape {labels.shape}"
            + (f", from {labels.min()} to {labels.max()}." if valid else ".")
        )
    counts = np.bincount(labels, minlength=num_classes)
    weights = len(labels) / (num_classes * np.maximum(counts, 1))
    return np.where(counts > 0, weights, 0.0).astype("float32")


class TextBatches(BucketedBatches):
    """Batches of tokenized texts with their labels, bucketed by length.

    Each batch is `(ids, labels, sample_weight)`, or `(ids,)` without labels:

        ids            (B, S) int32        start, the ids of a text, end, then padding
        labels         (B,) int32          class of the text; or (B, C) float32, 0 or 1 for each
                                           class; or (B,) or (B, n) float32, numbers of the text
        sample_weight  (B,) float32        weight of the text; 0 in repeated rows

    `BucketedBatches` describes buckets and epochs. If rows are repeated, the weights of all other
    rows are scaled up, so that Keras' losses, which are means over all rows, do not change. A text
    without tokens becomes a row of padding after its start and end tokens, because each text needs
    a prediction. **Pass `shuffle=False` to `fit`.**

    For predictions, leave `labels` out and set `shuffle=False`.
    `batches.restore(model.predict(batches))` restores the order of the texts, which the buckets
    change.

    Args:
        ids: Token ids of the texts, *without* the start and end tokens.
        labels: The class of each text, integers from 0; or zeros and ones of shape (texts,
            classes), for texts with several labels; or floats of shape (texts,) or (texts, n), for
            models that predict numbers. None for predictions.
        weights: Weight of each text, at least 0, such as `class_weights(labels, n)[labels]`. 1 if
            None.
        batch_size: Maximum number of texts of a batch; limited only by `tokens_per_batch` if None.
        tokens_per_batch: Maximum number of positions of a batch, `texts * S`. No limit if None.
        max_length: Maximum number of ids of a row, including the start and end tokens. Longer texts
            are truncated, and counted in `truncated` and `lost_share`. No limit if None.
        truncation: Which part of a longer text is kept: `"head"`, `"tail"` or `"head_tail"`, as in
            `truncate`.
        given_lengths: If texts were truncated before, the original number of ids of each text, for
            `truncated` and `lost_share`; otherwise None.
        start_id: Id of the start token, such as BERT's `[CLS]`; no start token if None.
        end_id: Id of the end token; no end token if None.
        pad_id: Id of padding; it must not occur in the data.
        **layout: `multiple` (default 16), `max_shapes` (12), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no texts, the numbers of texts, labels and weights differ, labels
            have none of these forms, weights are negative or not finite, there are weights without
            labels, ids are not non-negative integers, `pad_id` is in the data or equals `start_id`
            or `end_id`, `batch_size` and `tokens_per_batch` are both None, `truncation` is unknown,
            or a setting is out of range.

    Example:

    >>> batches = TextBatches([[5, 6, 7], [8]], [1, 0], max_length=4, start_id=2, multiple=4)
    >>> ids, labels, weight = batches[0]
    >>> sorted(zip(labels.tolist(), ids.tolist()))
    [(0, [2, 8, 0, 0]), (1, [2, 5, 6, 7])]
    """

    MULTIPLE = 16

    def __init__(
        self,
        ids: Ids,
        labels: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        batch_size: int | None = 32,
        tokens_per_batch: int | None = None,
        max_length: int | None = None,
        truncation: str = "head",
        given_lengths: ArrayLike | None = None,
        start_id: int | None = None,
        end_id: int | None = None,
        pad_id: int = 0,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        around = sum(special is not None for special in (start_id, end_id))
        check_least(
            batch_size=(batch_size, 1),
            tokens_per_batch=(tokens_per_batch, 1),
            max_length=(max_length, 1 + around),
        )
        if batch_size is None and tokens_per_batch is None:
            raise ValueError(
                "Expected a `batch_size` or `tokens_per_batch`. Received: None for both."
            )
        check_ids(pad_id, start_id, end_id)
        if not len(ids):
            raise ValueError("Expected at least one text. Received: no ids.")
        self.pad_id = pad_id
        self._labels = None if labels is None else check_labels(labels, len(ids), numbers=True)
        self._weights = check_weights(weights, len(ids), labels is not None)

        room = None if max_length is None else max_length - around
        given = np.fromiter((len(row) for row in ids), "int64", len(ids))
        given = given if given_lengths is None else np.asarray(given_lengths, "int64")
        truncate([], room or 1, truncation)  # checks the strategy
        if room is not None:
            ids = [truncate(row, room, truncation) for row in ids]
        flat, lengths = flatten(ids, "ids", pad_id)
        self._truncated = int(np.sum(lengths < given))
        self._lost_share = float(1.0 - lengths.sum() / max(1, given.sum()))

        longest = lengths + around
        self._real_tokens = int(longest.sum())

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            return {"ids": padded(flat, lengths, members, shape[0], pad_id, start_id, end_id)}

        self._fill(
            self._rounded(longest),
            arrays,
            batch_size=batch_size,
            tokens_per_batch=tokens_per_batch,
            limit=max_length,
        )

    def _batch(self, rows: Rows) -> Batch:
        return rows.arrays["ids"], *self._targets(rows)

    def _targets(self, rows: Rows) -> tuple[np.ndarray, ...]:
        """Labels and weights of the rows of a batch; empty if there are no labels."""
        if self._labels is None:
            return ()
        return self._labels[rows.members], rows.weights(self._weights)

    def restore(self, outputs: ArrayLike) -> np.ndarray:
        """Puts the outputs of `model.predict(batches)` in the order of the texts.

        Args:
            outputs: An array with a row for each row of all batches, including repeated rows.

        Returns:
            An array with a row for each text, in the dtype of `outputs`.

        Raises:
            ValueError: If `outputs` has another number of rows, or the batches are shuffled.

        Example:

        >>> batches = TextBatches([[5] * 40, [6], [7] * 30], shuffle=False)
        >>> rows = np.concatenate([batch[:, 0] for (batch,) in batches])
        >>> rows.tolist(), batches.restore(rows).tolist()
        ([6, 7, 5], [5, 6, 7])
        """
        if self.shuffle:
            raise ValueError("The order can be restored with `shuffle=False` only. Received: True.")
        outputs = np.asarray(outputs)
        total = sum(b.packing.rows * b.packing.batches for b in self._buckets)
        if outputs.shape[:1] != (total,):
            raise ValueError(
                f"Expected outputs for the {total} rows of all batches. Received: an array of "
                f"shape {outputs.shape}."
            )
        restored = np.empty((self.num_examples, *outputs.shape[1:]), outputs.dtype)
        at = 0
        for index in range(len(self)):
            bucket, picked = self._part(self._plan, index)
            restored[bucket.members[picked]] = outputs[at : at + len(picked)]
            at += bucket.packing.rows
        return restored

    @property
    def truncated(self) -> int:
        """Number of texts that were truncated to `max_length`."""
        return self._truncated

    @property
    def lost_share(self) -> float:
        """Fraction of the ids of all texts (without special tokens) that truncation removed."""
        return self._lost_share


def check_labels(labels: ArrayLike, count: int, numbers: bool = False) -> np.ndarray:
    """Checks labels: classes become int32 (N,), zeros and ones float32 (N, C), numbers float32."""
    labels = np.asarray(labels)
    if labels.shape[:1] == (count,) and labels.dtype.kind in "iufb":
        if labels.ndim == 1 and labels.dtype.kind in "iu" and labels.min() >= 0:
            return labels.astype("int32")
        if labels.ndim == 2 and np.isin(labels, (0, 1)).all():
            return labels.astype("float32")
        floats = numbers and labels.dtype.kind == "f" and labels.ndim in (1, 2)
        if floats and np.isfinite(labels).all():
            return labels.astype("float32")
    more = f", or finite floats of shape ({count},) or ({count}, n)" if numbers else ""
    raise ValueError(
        f"Expected `labels` to be {count} integers >= 0, or 0 and 1 of shape ({count}, classes)"
        f"{more}. Received: {labels.dtype} values of shape {labels.shape}."
    )


def check_weights(weights: ArrayLike | None, count: int, labelled: bool) -> np.ndarray:
    """Checks weights, and returns them as float32 (N,); all 1 if None."""
    if weights is None:
        return np.ones(count, "float32")
    if not labelled:
        raise ValueError("`weights` require `labels`. Received: weights without labels.")
    weights = np.asarray(weights, "float32")
    if weights.shape != (count,) or not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError(
            f"Expected `weights` to be {count} finite numbers >= 0. Received: values of shape "
            f"{weights.shape}" + (f", the smallest {weights.min()}." if weights.size else ".")
        )
    return weights
