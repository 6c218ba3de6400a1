"""Batches of captioned images for teacher forcing, for `fit` on any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, flatten, padded, teacher_forcing
from keras_attn.batches.epochs import check_least
from keras_attn.batches.picture_sources import Pictures, checked_numbers


class CaptionBatches(BucketedBatches):
    """Batches of images with their tokenized captions for teacher forcing, bucketed by length.

    Each batch is a tuple `({name, "target_ids"}, labels, sample_weight)` of NumPy arrays:

        name           regions (B, R, D) float32, or images (B, H, W, 3) uint8: whatever
                       `pictures` returns; the key is the setting `name`, "regions" by default
        target_ids     (B, T) int32        start, y_1, ..., y_n,           then padding
        labels         (B, T) int32        y_1, ..., y_n, end,             then padding
        sample_weight  (B, T) float32      1 on the labels that count, 0 on padding

    y_1, ..., y_n are the ids of a caption. An image with five captions gives five examples, and an
    epoch contains each caption once. The images of a batch are read when the batch is created, so
    that the images of all batches need not fit in memory.

    `BucketedBatches` describes buckets and epochs. Repeated rows have weight 0, and padding as
    target ids and labels. **Pass `shuffle=False` to `fit`.**

    Args:
        pictures: `CachedRegions`, `PictureFiles`, or any object with `len()`, the `shape` of one
            image and `read(numbers) -> (B, *shape)`.
        numbers: For each caption, the index of its image in `pictures`.
        ids: Token ids of the captions, *without* the start and end tokens.
        start_id: Id of the start token, the first input of the decoder.
        end_id: Id of the end token, the last label.
        pad_id: Id of padding; it must not occur in the data.
        name: Name of the model's input for regions or images.
        batch_size: Maximum number of captions of a batch.
        max_length: Maximum number of tokens of a caption, including its end token. Longer captions
            are left out and counted in `dropped`. No limit if None.
        **layout: `multiple` (default 4), `max_shapes` (4), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no captions, the lengths of `numbers` and `ids` differ, an image
            index is out of range, ids are not non-negative integers, `pad_id` is in the data or
            equals `start_id` or `end_id`, `name` is `"target_ids"`, no caption is short enough, or
            a setting is out of range.

    Example:

    >>> class Drawn:
    ...     shape = (1, 2)
    ...     def __len__(self):
    ...         return 2
    ...     def read(self, numbers):
    ...         return np.float32([[[n, n]] for n in numbers])
    >>> batches = CaptionBatches(
    ...     Drawn(), [1, 0], [[8, 9], [7]], start_id=1, end_id=2, shuffle=False
    ... )
    >>> inputs, labels, weight = batches[0]
    >>> inputs["regions"].tolist(), inputs["target_ids"].tolist()
    ([[[1.0, 1.0]], [[0.0, 0.0]]], [[1, 8, 9, 0], [1, 7, 0, 0]])
    >>> labels.tolist(), weight.tolist()
    ([[8, 9, 2, 0], [7, 2, 0, 0]], [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    """

    MULTIPLE, MAX_SHAPES = 4, 4

    def __init__(
        self,
        pictures: Pictures,
        numbers: Sequence[int] | np.ndarray,
        ids: Ids,
        *,
        start_id: int,
        end_id: int,
        pad_id: int = 0,
        name: str = "regions",
        batch_size: int = 64,
        max_length: int | None = None,
        **layout: Unpack[Layout],
    ):
        super().__init__(**layout)
        check_least(batch_size=(batch_size, 1), max_length=(max_length, 1))
        check_ids(pad_id, start_id, end_id)
        if name == "target_ids":
            raise ValueError(
                f"Expected different names for images and captions. Received: {name!r} for both."
            )
        if len(numbers) != len(ids) or not len(ids):
            raise ValueError(
                "Expected the number of a picture for each caption, and at least one "
                f"caption. Received: {len(numbers)} numbers and {len(ids)} captions."
            )
        self.pictures, self.name, self.pad_id = pictures, name, pad_id
        try:
            of_captions = checked_numbers(numbers, len(pictures))
        except IndexError as error:
            raise ValueError(str(error)) from None
        flat, lengths = flatten(ids, "ids", pad_id)
        longest = lengths + 1
        kept = self._keep(longest, "max_length", max_length, "caption")
        self._real_tokens = int(longest[kept].sum())

        def arrays(members: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
            rows = padded(flat, lengths, members, shape[0] + 1, pad_id, start_id, end_id)
            return {"numbers": of_captions[members], "targets": rows}

        rounded = self._rounded(longest)
        self._fill(rounded, arrays, kept=kept, batch_size=batch_size, limit=max_length)

    def _batch(self, rows: Rows) -> Batch:
        ids, labels, weights = teacher_forcing(rows.arrays["targets"], rows.real, self.pad_id)
        ids[rows.real :] = self.pad_id  # a loss of the attention sees no weights
        pictures = self.pictures.read(rows.arrays["numbers"])
        return {self.name: pictures, "target_ids": ids}, labels, weights
