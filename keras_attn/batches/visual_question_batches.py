"""Batches of images with questions, for `fit` on any backend."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.batches.bucketed_batches import UNLIMITED, Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, ceil, flatten, padded
from keras_attn.batches.classification_batches import check_labels
from keras_attn.batches.epochs import check_least
from keras_attn.batches.picture_sources import Pictures


class VisualQuestionBatches(BucketedBatches):
    """Batches of images with several questions each, so that an image is encoded only once.

    Each batch is a tuple `({name, "question_ids"}, labels, sample_weight)` of NumPy arrays:

        name           regions (B, R, D) float32, or images (B, H, W, 3) uint8: whatever
                       `pictures` returns; the key is the setting `name`, "regions" by default
        question_ids   (B, Q, T) int32     the ids of each question, then padding
        labels         (B, Q) int32        the class of each answer; 0 where there is no question
        sample_weight  (B, Q) float32      1 for a question; 0 where an image has fewer questions,
                                           and in repeated rows

    The questions of an image are in one row, or spread evenly over as few rows as
    `questions_per_row` allows. Rows with similar numbers and lengths of questions form buckets.
    `BucketedBatches` describes buckets and epochs. **Pass `shuffle=False` to `fit`.**

    Args:
        pictures: `CachedRegions`, `PictureFiles`, or any object with `len()`, the `shape` of one
            image and `read(numbers) -> (B, *shape)`.
        numbers: For each question, the index of its image in `pictures`.
        ids: Token ids of the questions.
        labels: The class of the answer of each question, integers from 0.
        name: Name of the model's input for regions or images.
        batch_size: Maximum number of rows of a batch.
        questions_per_row: Maximum number of questions of a row.
        max_length: Maximum number of ids of a question; longer questions are truncated, and counted
            in `truncated`. No limit if None.
        pad_id: Id of padding; it must not occur in the data.
        **layout: `multiple` (default 2), `max_shapes` (4), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no questions, `numbers`, `ids` and `labels` differ in length, an
            image index is out of range, ids or labels are not non-negative integers, `pad_id` is in
            the data, `name` is `"question_ids"`, or a setting is out of range.

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

    MULTIPLE, MAX_SHAPES = 2, 4

    def __init__(
        self,
        pictures: Pictures,
        numbers: ArrayLike,
        ids: Ids,
        labels: ArrayLike,
        *,
        name: str = "regions",
        batch_size: int = 32,
        questions_per_row: int = 16,
        max_length: int | None = None,
        pad_id: int = 0,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(
            batch_size=(batch_size, 1),
            questions_per_row=(questions_per_row, 1),
            max_length=(max_length, 1),
        )
        if name == "question_ids":
            raise ValueError(
                f"Expected different names for images and questions. Received: {name!r} for both."
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
            raise ValueError(
                f"Expected a label for each question. Received: labels of shape {labels.shape}."
            )
        self.pictures, self.name, self.pad_id = pictures, name, pad_id
        self._truncated = 0
        if max_length is not None:
            self._truncated = sum(len(row) > max_length for row in ids)
            ids = [row[:max_length] for row in ids]
        flat, lengths = flatten(ids, "ids", pad_id)
        self._real_tokens = int(lengths.sum())
        rows = question_rows(numbers, questions_per_row)
        widths = self._rounded(np.array([lengths[row].max() for row in rows]))
        sizes = np.stack([[len(row) for row in rows], widths], axis=1)
        # The last row is for places without a question.
        table = padded(flat, lengths, np.arange(count), int(widths.max()), pad_id)
        table = np.concatenate([table, np.full((1, table.shape[1]), pad_id, "int32")])

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            asked = np.full((len(members), shape[0]), -1)
            for places, member in zip(asked, members, strict=True):
                places[: len(rows[member])] = rows[member]
            return {
                "numbers": numbers[asked[:, 0]],
                "ids": table[asked, : shape[1]],
                "labels": np.where(asked < 0, 0, labels[asked]).astype("int32"),
                "weights": (asked >= 0).astype("float32"),
            }

        limits = (UNLIMITED, max_length or UNLIMITED)
        self._fill(sizes, arrays, batch_size=batch_size, limit=limits)
        self._num_examples = count

    def _batch(self, rows: Rows) -> Batch:
        arrays = rows.arrays
        arrays["weights"][rows.real :] = 0.0
        inputs = {self.name: self.pictures.read(arrays["numbers"]), "question_ids": arrays["ids"]}
        return inputs, arrays["labels"], arrays["weights"]

    @staticmethod
    def _positions(lengths: tuple[int, ...]) -> int:
        return math.prod(lengths)

    @property
    def truncated(self) -> int:
        """Number of questions that were truncated to `max_length`."""
        return self._truncated


def question_rows(numbers: np.ndarray, most: int) -> list[np.ndarray]:
    """Distributes the questions of each image evenly over rows of at most `most` questions."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    groups = np.split(order, starts)
    return [part for group in groups for part in np.array_split(group, ceil(len(group), most))]
