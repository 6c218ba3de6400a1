"""Batches of captioned images for teacher forcing, for `fit` on any backend."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Protocol, Unpack

import numpy as np

from keras_attn.batches.bucketed_batches import Batch, BucketedBatches, Layout, Rows
from keras_attn.batches.bucketing import Ids, check_ids, flatten, padded, teacher_forcing
from keras_attn.batches.epochs import check_least
from keras_attn.images.feature_cache import FeatureCache
from keras_attn.images.loading import MAX_PIXELS, check_sizes, load_image
from keras_attn.records.problems import many
from keras_attn.records.reading import is_integer


class Pictures(Protocol):
    """A source of images for `CaptionBatches`: `CachedRegions`, `PictureFiles`, or your own."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        ...

    def __len__(self) -> int: ...

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """The images of these numbers, (B, *shape)."""
        ...


class CachedRegions:
    """The regions of images, from a `FeatureCache` on disk.

    They are read when they are needed, so the features need not fit into memory; the system's file
    cache keeps the ones that do.

    Args:
        cache: A cache with the features of all images.
        paths: The image files, in the order of their numbers.

    Raises:
        ValueError: If there are no paths, or the features of an image are not in the cache.

    Example:

    >>> import os, tempfile
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "red.png")
    >>> Image.new("RGB", (8, 8), "red").save(path)
    >>> cache = FeatureCache(os.path.join(folder, "features"), {"encoder": "mean"})
    >>> _ = cache.fill([path], lambda x: x.mean((1, 2))[:, None] / 255.0, image_size=8, verbose=0)
    >>> regions = CachedRegions(cache, [path])
    >>> len(regions), regions.shape, regions.read([0, 0]).tolist()
    (1, (1, 3), [[[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]]])
    """

    def __init__(self, cache: FeatureCache, paths: Iterable[str | os.PathLike[str]]):
        self.cache = cache
        self.paths = _at_least_one(paths)
        missing = [path for path in self.paths if path not in cache]
        if missing or cache.shape is None:
            raise ValueError(
                f"Expected the features of {many(len(self.paths), 'picture')} in {cache.folder}. "
                f"Received: none of {len(missing):,} of them, such as {missing[0]}. Call "
                "`cache.fill` with them first."
            )
        self.shape = cache.shape
        """(R, D)."""

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Reads the regions of some images.

        Args:
            numbers: B numbers, from 0 to `len(self) - 1`.

        Returns:
            A NumPy array (B, R, D) of float32.

        Raises:
            IndexError: If there is no image of a number.
        """
        numbers = _checked_numbers(numbers, len(self))
        regions = np.empty((len(numbers), *self.shape), "float32")
        for row, number in zip(regions, numbers, strict=True):
            row[:] = self.cache[self.paths[number]]
        return regions


class PictureFiles:
    """Images of one size, read from files and kept in memory if all of them fit.

    Args:
        paths: The image files, in the order of their numbers. They are opened when they are first
            needed; `check_images` finds broken ones before.
        image_size: Size (H, W) after resizing, or one number for both, as in `load_image`.
        keep_bytes: If all resized images take at most this much memory, each file is read once and
            its image is kept; else files are read each time.
        max_pixels: As in `load_image`.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If there are no paths, or a setting is out of range.

    Example:

    >>> import os, tempfile
    >>> from PIL import Image
    >>> path = os.path.join(tempfile.mkdtemp(), "red.png")
    >>> Image.new("RGB", (8, 6), "red").save(path)
    >>> pictures = PictureFiles([path], image_size=4)
    >>> pictures.shape, pictures.read([0, 0]).shape, pictures.read([0])[0, 0, 0].tolist()
    ((4, 4, 3), (2, 4, 4, 3), [255, 0, 0])
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        image_size: int | tuple[int, int],
        keep_bytes: int = 2**30,
        max_pixels: int = MAX_PIXELS,
    ):
        size = check_sizes(image_size, max_pixels)
        if size is None:
            raise ValueError("Expected an `image_size`: (H, W), or one number. Received: None.")
        if not is_integer(keep_bytes, 0):
            raise ValueError(
                f"Expected `keep_bytes` to be an integer >= 0. Received: {keep_bytes!r}."
            )
        self.paths = _at_least_one(paths)
        missing = [path for path in self.paths if not os.path.exists(path)]
        if missing:
            raise FileNotFoundError(
                f"Expected {many(len(self.paths), 'picture')}. Received: {len(missing):,} paths "
                f"without a file, such as {missing[0]}."
            )
        self.shape: tuple[int, int, int] = (*size, 3)
        """(H, W, 3)."""
        self.max_pixels = max_pixels
        self._kept: np.ndarray | None = None
        self._there = np.zeros(len(self.paths), "bool")
        if len(self.paths) * int(np.prod(self.shape)) <= keep_bytes:
            self._kept = np.empty((len(self.paths), *self.shape), "uint8")

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Reads some images.

        Args:
            numbers: B numbers, from 0 to `len(self) - 1`.

        Returns:
            A NumPy array (B, H, W, 3) of uint8.

        Raises:
            IndexError: If there is no image of a number.
            OSError: If a file cannot be read.
            ValueError: If an image is broken; the message names it.
        """
        numbers = _checked_numbers(numbers, len(self))
        if self._kept is None:
            distinct, rows = np.unique(numbers, return_inverse=True)
            pictures = np.empty((len(distinct), *self.shape), "uint8")
            for picture, number in zip(pictures, distinct, strict=True):
                picture[:] = self._load(number)
            return pictures[rows.reshape(-1)]
        for number in numbers:
            if not self._there[number]:  # two threads may both read it, and write the same
                self._kept[number] = self._load(number)
                self._there[number] = True
        return self._kept[numbers]

    def _load(self, number: int) -> np.ndarray:
        return load_image(self.paths[number], self.shape[:2], self.max_pixels)


class CaptionBatches(BucketedBatches):
    """Batches of images with their tokenized captions for teacher forcing, bucketed by length.

    Each batch is `({"regions", "target_ids"}, labels, sample_weight)`, NumPy arrays

        regions        (B, R, D) float32   or "images": (B, H, W, 3) uint8, as `pictures` gives them
        target_ids     (B, T) int32        start, y_1, ..., y_n,           then padding
        labels         (B, T) int32        y_1, ..., y_n, end,             then padding
        sample_weight  (B, T) float32      1 on the labels that count, 0 on padding

    An image with five captions is five examples, and an epoch has each caption once. A batch reads
    its images when it is made, so they need not be in memory.

    See `BucketedBatches` for buckets and epochs; repeated rows have weight 0 and padding for
    tokens and labels. **Give `shuffle=False` to `fit`.**

    Args:
        pictures: `CachedRegions`, `PictureFiles`, or anything else with `len()`, the `shape` of
            one and `read(numbers) -> (B, *shape)`.
        numbers: The number of the image of each caption, in `pictures`.
        ids: Token ids of the captions, *without* start and end.
        start_id: Id put before the decoder's input.
        end_id: Id put after the labels.
        pad_id: Id of padding; it must not occur in the data.
        name: Name of the model input of the images.
        batch_size: Largest number of captions of a batch.
        max_length: Largest number of tokens of a caption, its end token included. Longer captions
            are left out and counted in `dropped`. None: any.
        **layout: `multiple` (default 4), `max_shapes` (4), `rows_multiple_of`, `shuffle`, `seed`,
            `workers` and `max_queue_size`, as in `BucketedBatches`.

    Raises:
        ValueError: If there are no captions, numbers and captions differ in number, there is no
            image of a number, ids are not integers >= 0, `pad_id` is in the data, no caption is
            short enough, or a setting is out of range.

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
                "Expected a `name` of the pictures that is not that of the captions. "
                f"Received: {name!r}."
            )
        if len(numbers) != len(ids) or not len(ids):
            raise ValueError(
                "Expected as many numbers of pictures as captions, and at least one. "
                f"Received: {len(numbers)} numbers and {len(ids)} captions."
            )
        self.pictures, self.name, self.pad_id = pictures, name, pad_id
        try:
            of_captions = _checked_numbers(numbers, len(pictures))
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


def _at_least_one(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    if isinstance(paths, str | bytes | os.PathLike):
        raise ValueError(f"Expected a list of paths. Received: {paths!r}.")
    files = [os.fspath(path) for path in paths]
    if not files:
        raise ValueError("Expected at least one picture. Received: no paths.")
    return files


def _checked_numbers(numbers: Iterable[int], count: int) -> np.ndarray:
    """Numbers of images, as int64 (B,)."""
    given = np.asarray(numbers if isinstance(numbers, np.ndarray) else list(numbers))
    if given.ndim == 1 and not given.size:
        return given.astype("int64")
    if given.ndim == 1 and given.dtype.kind in "iu":
        if given.min() >= 0 and given.max() < count:
            return given.astype("int64")
        received = f"numbers from {given.min()} to {given.max()}"
    else:
        received = f"{given.dtype} values of shape {given.shape}"
    raise IndexError(
        f"Expected a vector of integers from 0 to {count - 1}, the numbers of "
        f"{many(count, 'picture')}. Received: {received}."
    )
