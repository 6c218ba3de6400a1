"""Runs of an encoder over images, for a feature cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from keras_attn.images.image_problems import ImageProblem, describe_image_problems
from keras_attn.images.loading import as_problem, decode_image
from keras_attn.input_files import read_input
from keras_attn.records.problems import many


@dataclass(frozen=True)
class CacheFill:
    """The counts of encoded and cached images, and problems, as returned by `FeatureCache.fill`.

    Args:
        computed: Number of images that were encoded.
        found: Number of images that were already in the cache.
        problems: The `ImageProblem`s of the images that were left out.

    Example:

    >>> print(CacheFill(2, 1).summary())
    3 pictures with features: 2 computed now, 1 found.
    """

    computed: int
    found: int
    problems: list[ImageProblem] = field(default_factory=list)

    def summary(self) -> str:
        """Returns the number of images with features, and the first images that were left out, as
        text."""
        total = self.computed + self.found
        text = f"{many(total, 'picture')} with features: "
        text += f"{self.computed:,} computed now, {self.found:,} found."
        if self.problems:
            text += f" Left out: {describe_image_problems(self.problems)}."
        return text


class Filling:
    """One run over images, which encodes them in batches and writes shards of features."""

    def __init__(
        self,
        cache: Any,
        encode: Callable[[np.ndarray], Any],
        image_size: int | tuple[int, int],
        batch_size: int,
        max_pixels: int,
    ):
        self.cache = cache
        self.encode = encode
        self.image_size = image_size
        self.batch_size = batch_size
        self.max_pixels = max_pixels
        self.computed = self.found = 0
        self.problems: list[ImageProblem] = []
        self._images: list[tuple[str, Any, np.ndarray]] = []
        self._features: list[np.ndarray] = []
        self._listed: list[tuple[str, Any, int, int]] = []
        self._rows = 0

    def is_there(self, path: str) -> bool:
        """Returns whether the features of an image are in the cache and up to date."""
        place = self.cache._places.get(path)
        return place is not None and os.path.isfile(path) and place[2] == self._identify(path)

    def _identify(self, path: str) -> list[int]:
        """Returns the size and the modification time of a file."""
        status = os.stat(path)
        return [status.st_size, status.st_mtime_ns]

    def add(self, path: str, skip: bool) -> None:
        """Adds an image to the next batch, unless it is in the cache."""
        cache = self.cache
        place = cache._places.get(path)
        try:
            identity = self._identify(path)
            if place is not None and place[2] == identity:
                self.found += 1
                return
            raw = read_input(path, "a picture")
            image = decode_image(raw, path, self.image_size, self.max_pixels)
        except (OSError, ValueError) as error:
            if not skip:
                raise
            self.problems.append(as_problem(path, error))
            return
        self._images.append((path, identity, image))
        if len(self._images) == self.batch_size:
            self.encode_batch()

    def encode_batch(self) -> None:
        """Encodes the waiting images, and writes a shard if there are enough features."""
        if not self._images:
            return
        paths, identities, images = zip(*self._images, strict=True)
        encoded = keras.ops.convert_to_numpy(self.encode(np.stack(images)))
        features = self._checked(encoded, len(images))
        for path, identity in zip(paths, identities, strict=True):
            self._listed.append((path, identity, self.cache._next, self._rows))
            self._rows += 1
        self._features.append(features)
        self.computed += len(images)
        self._images = []
        if self._rows * features[0].nbytes >= self.cache.shard_bytes:
            self.write()

    def write(self) -> None:
        """Writes the encoded features as a shard."""
        if self._listed:
            self.cache._write(self._features, self._listed)
        self._features, self._listed, self._rows = [], [], 0

    def _checked(self, encoded: np.ndarray, count: int) -> np.ndarray:
        shape = self.cache.shape or (self._features[0].shape[1:] if self._features else None)
        if encoded.ndim != 3 or len(encoded) != count or shape not in (None, encoded.shape[1:]):
            expected = "(R, D)" if shape is None else f"{shape}"
            raise ValueError(
                f"Expected `encode` to return {count} features of shape {expected}. "
                f"Received: an array of shape {encoded.shape}."
            )
        with np.errstate(over="ignore"):
            features = encoded.astype(self.cache.dtype)
        if not np.isfinite(features).all():
            largest = np.abs(encoded).max()
            raise ValueError(
                f"Expected features that are finite in {self.cache.dtype}. Received: values "
                f"up to {largest:.4g}. If these values are right, use dtype='float32'."
            )
        return features
