"""What tasks share that read pictures by an `ImageEncoder`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from keras_attn.images import CacheFill, FeatureCache
from keras_attn.images.image_problems import describe_image_problems
from keras_attn.models import ImageEncoder
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.tasks.captioning.data import as_pictures, read_pictures, region_cache
from keras_attn.text import BytePairTokenizer, WordTokenizer


@dataclass(frozen=True)
class PictureLearned(Learned):
    """What a task that reads pictures is made of: its tokenizer and the encoder of pictures.

    Raises:
        TypeError: If the tokenizer or the encoder is of another class.
        ValueError: If the encoder is to be trained, and has no trainable weights.
    """

    tokenizer: BytePairTokenizer | WordTokenizer
    encoder: ImageEncoder
    train_encoder: bool = False
    """Whether those weights of the encoder are trained that are trainable."""
    reads: ClassVar[type] = WordTokenizer
    """The class of the tokenizer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.tokenizer, self.reads):
            kind = self.reads.__name__
            raise TypeError(
                f"`tokenizer` must be a {kind}. Received: {type(self.tokenizer).__name__}. Make "
                f"one with {kind}.train(texts, vocabulary_size)."
            )
        if not isinstance(self.encoder, ImageEncoder):
            raise TypeError(
                f"`encoder` must be an ImageEncoder. Received: {type(self.encoder).__name__}. Make "
                "one with encoder_from_model(model), applications_encoder(name), "
                "small_cnn_encoder()."
            )
        if self.train_encoder and not self.encoder.trainable_weights:
            raise ValueError(
                "Expected an encoder with weights that are trained, for train_encoder=True. "
                f"Received: {self.encoder.name!r} without one. Set its `trainable` to True."
            )


class PictureRegions(Task):
    """The regions of pictures: a base class of the tasks that read pictures."""

    learned: PictureLearned
    _result: ClassVar[str] = "caption"

    @property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self.learned.tokenizer

    @property
    def encoder(self) -> ImageEncoder:
        """The encoder of pictures."""
        return self.learned.encoder

    @property
    def train_encoder(self) -> bool:
        """Whether the encoder is trained, or stays as it is."""
        return self.learned.train_encoder

    def _regions(self, images: Any, batch_size: int) -> np.ndarray:
        """The regions of pictures of the size of the encoder."""
        raise NotImplementedError

    def feature_cache(self, cache_dir: str | os.PathLike | None = None) -> FeatureCache:
        """Opens the cache of the encoder's regions.

        Args:
            cache_dir: As `dataset`.

        Returns:
            A `FeatureCache`.

        Raises:
            ValueError: If the folder is the cache of another encoder.
        """
        return region_cache(self.encoder, cache_dir, self.data.cache_dtype)

    def fill_cache(
        self,
        cache: FeatureCache,
        paths: Iterable[str | os.PathLike],
        verbose: Any = "auto",
        on_error: str = "error",
    ) -> CacheFill:
        """Computes the regions of pictures that a cache does not have.

        Args:
            cache: What `feature_cache` returned.
            paths: The pictures' files.
            verbose: 0: no progress is shown.
            on_error: As `FeatureCache.fill`.

        Returns:
            `keras_attn.images.CacheFill`.
        """
        return cache.fill(
            paths,
            lambda images: self._regions(images, batch_size=32),
            self.encoder.image_size,
            batch_size=32,
            on_error=on_error,
            verbose=int(verbose != 0),
        )

    def regions(self, images: Any, batch_size: int = 32) -> np.ndarray:
        """Computes the regions of pictures, which the rest of the model reads.

        Args:
            images: A path, the bytes of a file, an array `(H, W, 3)` of uint8, or several.
            batch_size: Pictures computed at a time.

        Returns:
            float32 `(n, R, D)`.

        Raises:
            OSError: A file is not there or cannot be read.
            ValueError: A picture is broken.
        """
        check_count("batch_size", batch_size)
        pictures, _ = as_pictures(images)
        found = [regions for _, regions in self._read(pictures, batch_size, "error")]
        empty = np.zeros((0, self.encoder.num_regions, self.encoder.region_dim), "float32")
        return np.concatenate([empty, *found])

    def _read(
        self, pictures: list[Any], batch_size: int, on_error: str
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yields the numbers of whole pictures, so many at a time, and their regions."""
        problems = []
        size = self.encoder.image_size
        for numbers, pixels, broken in read_pictures(pictures, size, batch_size, on_error):
            problems += broken
            if numbers:
                yield numbers, self._regions(pixels, batch_size)
        if problems:
            warnings.warn(
                f"{len(problems)} of {len(pictures)} pictures have no {self._result}: "
                f"{describe_image_problems(problems)}.",
                stacklevel=3,
            )
