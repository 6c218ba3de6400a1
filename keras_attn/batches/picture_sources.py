"""Sources of images and regions for batches: a cache, files and arrays."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from keras_attn.images.feature_cache import FeatureCache
from keras_attn.images.loading import MAX_PIXELS, check_sizes, load_image
from keras_attn.records.problems import many
from keras_attn.records.reading import is_integer


class Pictures(Protocol):
    """A source of images for `CaptionBatches`: `CachedRegions`, `PictureFiles`, or your own."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image or of its regions, without the batch axis."""
        ...

    def __len__(self) -> int: ...

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Returns the images with these B indices, `(B, *shape)`."""
        ...


class CachedRegions:
    """The regions of images, from a `FeatureCache` on disk.

    Regions are read from disk when they are needed, so that they do not have to fit into memory.

    Args:
        cache: A cache with features `(R, D)` of all images.
        paths: The image files, in the order of their indices.

    Raises:
        ValueError: If `paths` is a single path or empty, or the features of an image are not in the
            cache.

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
                f"Expected the features of {many(len(self.paths), 'picture')} in "
                f"{cache.folder}. Received: a cache without the features of {len(missing):,} "
                f"of them, such as {missing[0]}. Call `cache.fill` with them first."
            )
        self.shape = cache.shape
        """Shape `(R, D)` of the regions of one image."""

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Reads the regions of images from the cache.

        Args:
            numbers: Indices of B images, from 0 to `len(self) - 1`.

        Returns:
            A NumPy array (B, R, D) of float32.

        Raises:
            IndexError: If an index is out of range or not an integer.
        """
        numbers = checked_numbers(numbers, len(self))
        regions = np.empty((len(numbers), *self.shape), "float32")
        for row, number in zip(regions, numbers, strict=True):
            row[:] = self.cache[self.paths[number]]
        return regions


class PictureFiles:
    """Images of one size, read from files, and cached in memory if all of them fit.

    Args:
        paths: The image files, in the order of their indices. They are opened when they are first
            needed; use `check_images` to find broken files in advance.
        image_size: Size (H, W) after resizing, or one number for both, as in `load_image`.
        keep_bytes: If all resized images fit into this number of bytes, each file is read only
            once; otherwise, files are read each time.
        max_pixels: Maximum number of pixels of an image; `read` raises an error for larger images.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If `paths` is a single path or empty, or a setting is out of range.

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
        """Shape `(H, W, 3)` of one image."""
        self.max_pixels = max_pixels
        self._kept: np.ndarray | None = None
        self._there = np.zeros(len(self.paths), "bool")
        if len(self.paths) * int(np.prod(self.shape)) <= keep_bytes:
            self._kept = np.empty((len(self.paths), *self.shape), "uint8")

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Reads and resizes images, or returns them from memory if they are cached.

        Args:
            numbers: Indices of B images, from 0 to `len(self) - 1`.

        Returns:
            A NumPy array (B, H, W, 3) of uint8.

        Raises:
            IndexError: If an index is out of range or not an integer.
            OSError: If a file cannot be read.
            ValueError: If an image is broken or too large; the message names it.
            ImportError: If Pillow, from the extra `captioning`, is not installed.
        """
        numbers = checked_numbers(numbers, len(self))
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


class PictureArrays:
    """Images or regions in memory."""

    def __init__(self, arrays: np.ndarray):
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image or of its regions, without the batch axis."""
        return self.arrays.shape[1:]

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Returns the images with these B indices, `(B, *shape)`."""
        return self.arrays[np.fromiter(numbers, "int64")]


def _at_least_one(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    if isinstance(paths, str | bytes | os.PathLike):
        raise ValueError(f"Expected a list of paths. Received: {paths!r}.")
    files = [os.fspath(path) for path in paths]
    if not files:
        raise ValueError("Expected at least one picture. Received: no paths.")
    return files


def checked_numbers(numbers: Iterable[int], count: int) -> np.ndarray:
    """Checks image indices, and returns them as int64 (B,)."""
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
