"""Batches of pictures with the questions about each, for `fit` on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.batches.bucketing import (
    Bucket,
    BucketedBatches,
    Ids,
    ceil,
    flatten,
    merge_buckets,
    pack,
    padded,
)
from keras_attn.batches.caption_batches import Pictures
from keras_attn.batches.classification_batches import check_labels
from keras_attn.batches.epochs import check_least

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


class VisualQuestionBatches(BucketedBatches):
    """Batches of pictures, each with several questions, so that it is encoded once for all.

    Each batch is `({"regions", "question_ids"}, labels, sample_weight)`, NumPy arrays

        regions        (B, R, D) float32   or "images": (B, H, W, 3) uint8, as `pictures` gives them
        question_ids   (B, Q, T) int32     the ids of each question, then padding
        labels         (B, Q) int32        the class of each answer
        sample_weight  (B, Q) float32      1 of a question, 0 where a picture has fewer than Q, and
                                           in rows that only fill a batch

    The questions of a picture stand in one row, or in as few rows as `questions_per_row` allows, of
    numbers as equal as possible. Rows of like numbers and lengths form buckets. An epoch has each
    question once, and its order follows from `seed` and its number, as in `TokenBatches`. **Give
    `shuffle=False` to `fit`.**

    Args:
        pictures: `CachedRegions`, `PictureFiles`, or anything else with `len()`, the `shape` of
            one and `read(numbers) -> (B, *shape)`.
        numbers: Of each question, the number of its picture in `pictures`.
        ids: Token ids of the questions.
        labels: The class of the answer of each question, integers from 0.
        name: What the model calls the input of the pictures.
        batch_size: Largest number of rows of a batch.
        questions_per_row: Largest number of questions of a row.
        max_length: Largest number of ids of a question; the rest is cut off, and counted in
            `truncated`. None: all is kept.
        pad_id: Id of padding; it must not occur in the data.
        multiple: Lengths are padded to multiples of this (the longest one to `max_length` at most).
        max_shapes: Largest number of shapes of batches.
        rows_multiple_of: Rows of each batch are filled up to a multiple of this.
        shuffle: False: always the same order.
        seed: Any integer >= 0.

    Raises:
        ValueError: If there are no questions, numbers, ids and labels differ in length, there is no
            picture of a number, or a setting is out of range.

    Example:

    >>> class Drawn:
    ...     shape = (1, 1)
    ...     def __len__(self):
    ...         return 2
    ...     def read(self, numbers):
    ...         return np.float32([[[n]] for n in numbers])
    >>> batches = VisualQuestionBatches(
    ...     Drawn(), [0, 1, 0], [[5, 6], [7], [8]], [2, 1, 0], shuffle=False
    ... )
    >>> inputs, labels, weight = batches[1]  # of the picture with two questions
    >>> inputs["regions"].ravel().tolist(), inputs["question_ids"].tolist()
    ([0.0], [[[5, 6], [8, 0]]])
    >>> labels.tolist(), weight.tolist()
    ([[2, 0]], [[1.0, 1.0]])
    """

    def __init__(
        self,
        pictures: Pictures,
        numbers: Sequence[int] | np.ndarray,
        ids: Ids,
        labels: Any,
        *,
        name: str = "regions",
        batch_size: int = 32,
        questions_per_row: int = 16,
        max_length: int | None = None,
        pad_id: int = 0,
        multiple: int = 2,
        max_shapes: int = 4,
        rows_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
    ):
        super().__init__(shuffle, seed)
        check_least(
            batch_size=(batch_size, 1),
            questions_per_row=(questions_per_row, 1),
            max_length=(max_length, 1),
            multiple=(multiple, 1),
            max_shapes=(max_shapes, 1),
            rows_multiple_of=(rows_multiple_of, 1),
        )
        count = len(ids)
        numbers = np.asarray(numbers)
        if not count or numbers.shape != (count,) or numbers.dtype.kind not in "iu":
            raise ValueError(
                "Expected the number of a picture for each question, and at least one question. "
                f"Received: {numbers.dtype} values of shape {numbers.shape} and {count} questions."
            )
        if numbers.min() < 0 or numbers.max() >= len(pictures):
            raise ValueError(
                f"Expected numbers of the {len(pictures):,} pictures. Received: numbers from "
                f"{numbers.min()} to {numbers.max()}."
            )
        labels = check_labels(labels, count)
        if labels.ndim != 1:
            raise ValueError(f"Expected a label for each question. Received: {labels.shape}.")
        self.pictures, self.name, self.pad_id = pictures, name, pad_id
        self._num_examples = count
        self._truncated = 0
        if max_length is not None:
            self._truncated = sum(len(row) > max_length for row in ids)
            ids = [row[:max_length] for row in ids]
        flat, lengths = flatten(ids, "ids", pad_id)
        self._real_tokens = int(lengths.sum())
        rows = question_rows(numbers, questions_per_row)
        longest = np.array([lengths[row].max() for row in rows])
        widths = np.maximum(1, ceil(longest, multiple)) * multiple
        sizes = np.stack([[len(row) for row in rows], widths], axis=1)
        # The last row is for places without a question.
        table = padded(flat, lengths, np.arange(count), int(widths.max()), pad_id)
        table = np.concatenate([table, np.full((1, table.shape[1]), pad_id, "int32")])
        self._buckets = []
        everything = np.ones(len(rows), "bool")
        for (most, width), members in merge_buckets(sizes, everything, max_shapes):
            if max_length is not None:
                width = min(width, max_length)
            asked = np.full((len(members), most), -1)
            for places, member in zip(asked, members, strict=True):
                places[: len(rows[member])] = rows[member]
            arrays = {
                "numbers": numbers[asked[:, 0]],
                "ids": table[asked, :width],
                "labels": np.where(asked < 0, 0, labels[asked]).astype("int32"),
                "weights": (asked >= 0).astype("float32"),
            }
            packing = pack(len(members), batch_size, rows_multiple_of)
            self._buckets.append(Bucket(arrays, (most, width), packing))
        self._ready()

    def __getitem__(self, index: int) -> Batch:
        bucket, picked = self._take(index)
        rows = bucket.batch(picked)
        weights = rows["weights"].copy()
        weights[len(picked) :] = 0.0
        inputs = {self.name: self.pictures.read(rows["numbers"]), "question_ids": rows["ids"]}
        return inputs, rows["labels"], weights

    @property
    def padded_share(self) -> float:
        """Share of padding in all places for words of an epoch, repeated rows included."""
        places = sum(
            bucket.packing.count * bucket.packing.rows * int(np.prod(bucket.lengths))
            for bucket in self._buckets
        )
        return 1.0 - self._real_tokens / places

    @property
    def truncated(self) -> int:
        """Number of questions that were shortened to `max_length`."""
        return self._truncated


def question_rows(numbers: np.ndarray, most: int) -> list[np.ndarray]:
    """Puts the questions of each picture into rows of at most so many, as equal as possible.

    Args:
        numbers: Of each question, the number of its picture.
        most: Largest number of questions of a row.

    Returns:
        The places of the questions of each row, pictures in the order of their numbers.

    Example:

    >>> [row.tolist() for row in question_rows(np.array([4, 0, 4, 4]), 2)]
    [[1], [0, 2], [3]]
    """
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    groups = np.split(order, starts)
    return [part for group in groups for part in np.array_split(group, ceil(len(group), most))]
