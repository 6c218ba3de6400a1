"""Tasks whose models read images by an `ImageEncoder`."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array, ArrayModule
from keras_attn.batches import BucketedBatches
from keras_attn.corpora.download import cache_folder
from keras_attn.fields import PictureInput
from keras_attn.generation import CompiledFunction
from keras_attn.images import CacheFill, FeatureCache, ImageProblem
from keras_attn.images.image_problems import describe_image_problems
from keras_attn.images.image_reading import picture_place
from keras_attn.images.loading import MAX_PIXELS
from keras_attn.images.pictures import Picture, as_pictures, read_pictures
from keras_attn.layers.quantization import float_policy
from keras_attn.models import ImageEncoder, ImageEncoderConfig
from keras_attn.progress import report
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.base.constructed import Beginning, made
from keras_attn.tasks.base.learned import Learned
from keras_attn.tasks.base.task import Task
from keras_attn.text import WordTokenizer
from keras_attn.text.registry import PieceTokenizer, vocabulary_digest


@dataclass(frozen=True)
class PictureLearned(Learned):
    """The learned values of a task that reads images: its tokenizer and its image encoder."""

    tokenizer: PieceTokenizer | WordTokenizer
    encoder: ImageEncoder
    train_encoder: bool = False
    """Whether the trainable weights of the encoder are trained."""
    tokenizers: ClassVar[tuple[type, ...]] = (WordTokenizer,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.encoder, ImageEncoder):
            raise TypeError(
                "`encoder` must be an ImageEncoder. Received: "
                f"{type(self.encoder).__name__}. Create one with encoder_from_model(model), "
                "applications_encoder(name) or small_cnn_encoder()."
            )
        if self.train_encoder and not self.encoder.trainable_weights:
            raise ValueError(
                "`encoder` must have trainable weights for train_encoder=True. Received: "
                f"{self.encoder.name!r}, which has no trainable weights. Set its `trainable` "
                "to True."
            )


class PictureTask(Task):
    """Base class of tasks with two models: an image encoder, and a reader of the encoded regions.

    If the encoder is not trained, `.model` is the reader, and the regions of each image are
    computed once. Otherwise, `.model` is `.joined`, the model that reads images. A subclass sets
    `main_layer` to the name of a layer of the reader.
    """

    learned: PictureLearned
    parts: ClassVar = {"encoder": ImageEncoderConfig}

    reader: keras.Model
    """The model from regions and tokens to logits."""
    joined: keras.Model
    """The model from images and tokens to logits."""
    gives: ClassVar[str]
    """Name of the result for an image in messages, such as `"caption"`."""
    _notes: Sequence[str] = ()

    @property
    def tokenizer(self) -> Any:
        """The tokenizer that converts texts to ids."""
        return self.learned.tokenizer

    @property
    def encoder(self) -> ImageEncoder:
        """The image encoder."""
        return self.learned.encoder

    @property
    def train_encoder(self) -> bool:
        """Whether the encoder is trained; if False, its weights do not change."""
        return self.learned.train_encoder

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text."""
        return self.data.max_length

    @staticmethod
    def inputs_in(inputs: list[Any], folder: Path) -> list[Any]:
        """Returns inputs with image paths resolved relative to a folder.

        Args:
            inputs: Paths of images, or pairs of a path and a question.
            folder: The folder.
        """
        return [
            picture_place(folder, x) if isinstance(x, str) else (picture_place(folder, x[0]), x[1])
            for x in inputs
        ]

    # The two models

    def model_sizes(self) -> dict[str, Any]:
        """Returns a dict of `vocabulary_size`, and of `region_dim` and `grid`, the width and the
        grid of the regions of an image."""
        return {
            "vocabulary_size": self.tokenizer.vocabulary_size,
            "region_dim": self.encoder.region_dim,
            "grid": self.encoder.grid,
        }

    def build(self, dtype: Any) -> None:
        """Builds the reader as `.reader`, and joins it to the encoder as `.joined`."""
        self.reader = self.config.build(dtype)
        self.joined = self.join(self.encoder, self.reader)

    @staticmethod
    @abstractmethod
    def join(encoder: ImageEncoder, reader: keras.Model, /) -> keras.Model:
        """Joins two models to one model.

        Args:
            encoder: The model from images to regions.
            reader: The model from regions and tokens to logits.

        Returns:
            A model from images and tokens to logits.
        """

    @property
    def model(self) -> keras.Model:
        """The model that is trained: `.joined` if the encoder is trained, otherwise `.reader`. A
        model with the same inputs and outputs may be assigned."""
        return self.joined if self.train_encoder else self.reader

    @model.setter
    def model(self, model: keras.Model) -> None:
        if self.train_encoder:
            self.reader, self.joined = model.get_layer(self.reader.name), model
            self.relearn(encoder=model.get_layer(self.encoder.name))
        else:
            self.reader, self.joined = model, self.join(self.encoder, model)

    @classmethod
    @abstractmethod
    def learn_beside(
        cls, examples: Any, data: Any, encoder: ImageEncoder, train_encoder: bool
    ) -> PictureLearned:
        """Returns the learned values of a new task: the vocabulary of the texts, the encoder and,
        in subclasses, further values.

        Args:
            examples: Checked training examples.
            data: Settings of class `Data`.
            encoder: The image encoder.
            train_encoder: Whether the encoder is trained.
        """

    @classmethod
    def begin(
        cls,
        examples: Any,
        data: Any,
        model: Any,
        dtype: Any,
        *,
        encoder: ImageEncoder | ImageEncoderConfig | Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Beginning:
        """Returns the `Beginning` of a new task: the learned values, with the image encoder, and
        `model`.

        Args:
            examples: Training examples.
            data: Settings of class `Data`.
            model: Settings of the model, as for `create`.
            dtype: Dtype or policy of the model's layers.
            encoder: Settings of a new encoder, or an `ImageEncoder`, which is not trained.
            **parts: Unused.
        """
        checked = cls.checked(examples)
        if isinstance(encoder, ImageEncoder):
            return Beginning(cls.learn_beside(checked, data, encoder, False), model)
        settings = made(ImageEncoderConfig, encoder)
        learned = cls.learn_beside(checked, data, settings.build(dtype), settings.is_trained)
        return Beginning(learned, model, parts={"encoder": settings})

    @property
    def whole(self) -> keras.Model:
        """The model from images and tokens to logits."""
        return self.joined

    @property
    def policy(self) -> keras.DTypePolicy:
        """Dtype policy of the layers of the reader, before quantization."""
        return float_policy(self.reader.get_layer(self.main_layer))

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the architecture, and the encoder with its grid."""
        rows, columns = self.encoder.grid
        frozen = "" if self.train_encoder else " (not trained)"
        return [
            self.kinds.name_of(self.config),
            f"{self.encoder.name}{frozen} with {rows} x {columns} regions",
        ]

    def _models(self) -> tuple[keras.Model, ...]:
        return (self.joined, self.reader, self.encoder)

    @property
    def backbone(self) -> Mapping[str, tuple[str, ...]]:
        """The layers that `load_backbone` loads: a dict with the names of the encoder and the
        reader as keys and empty tuples as values, because neither layer has another name."""
        return {self.encoder.name: (), self.reader.name: ()}

    def vocabularies(self) -> dict[str, str]:
        """Returns the digest of the vocabulary, keyed by the name of the reader."""
        return {self.reader.name: vocabulary_digest(self.tokenizer)}

    # Training

    batched_by: ClassVar[tuple[str, ...]] = ("batch_size", "seed")

    @abstractmethod
    def prepared(
        self,
        examples: Any,
        cache_dir: str | os.PathLike[str] | None,
        verbose: Any,
        on_error: str,
        **settings: Any,
    ) -> tuple[BucketedBatches, Any, list[str]]:
        """Makes the batches that `dataset` returns; called by `dataset` and `training_batches`.

        Args:
            examples: Examples, as for `fit`.
            cache_dir: Folder of the `FeatureCache`; None for the default folder.
            verbose: If 0, the progress of the computation of regions is not shown.
            on_error: `"error"` raises an error for a broken image; `"skip"` leaves it out.
            **settings: Settings of the batches, such as `batch_size` and `seed`.

        Returns:
            The batches, the examples with intact images, and notes on examples that are left out.
        """

    def dataset(
        self,
        examples: Any,
        cache_dir: str | os.PathLike[str] | None = None,
        verbose: Any = "auto",
        on_error: str = "error",
        **settings: Any,
    ) -> BucketedBatches:
        """Creates batches for `model.fit`.

        If the encoder is not trained, regions are computed once, and kept on disk in a
        `FeatureCache`, or in memory if the images are not files. If the encoder is trained, images
        are read when they are needed.

        Args:
            examples: Examples, as for `fit`, with images that are all paths, or all arrays or
                bytes.
            cache_dir: Folder of the `FeatureCache`. By default, a folder for this encoder in
                `KERAS_ATTN_CACHE`, or else in `~/.cache/keras_attn`.
            verbose: If 0, the progress of the computation of regions is not shown.
            on_error: `"error"` raises an error for a broken image. `"skip"` leaves broken images
                out.
            **settings: Settings of the batches, such as `batch_size` and `seed`. If the encoder is
                trained, all batches have the same shape, because the encoder could otherwise learn
                the lengths of texts from the statistics of batch normalization.

        Returns:
            A `keras.utils.PyDataset`. A warning lists images that are left out.

        Raises:
            ValueError: If an example has the wrong form, an image is broken, or the cache belongs
                to another encoder.
        """
        batches, _, notes = self.prepared(examples, cache_dir, verbose, on_error, **settings)
        for note in notes:
            warnings.warn(note, stacklevel=2)
        return batches

    def batches(self, examples: Any, training: Any, shuffle: bool = True) -> BucketedBatches:
        """Creates the batches of a training run; see `dataset`."""
        return self.training_batches(examples, training, shuffle)[0]

    def training_batches(
        self, examples: Any, training: Any, shuffle: bool = True
    ) -> tuple[BucketedBatches, Any]:
        """Returns the batches of a training run, and the examples with intact images.

        Args:
            examples: Training or development examples.
            training: Settings of class `Training`.
            shuffle: Whether the order is random.
        """
        batches, whole, notes = self.prepared(
            examples,
            training.cache_dir or None,
            self._verbose,
            self.data.on_error,
            shuffle=shuffle,
            **{name: getattr(training, name) for name in self.batched_by},
        )
        self._notes = list(dict.fromkeys([*self._notes, *notes]))
        return batches, whole

    def describe(self, batches: Any) -> list[str]:
        """Returns lines for the log about examples that are left out, the images and the model."""
        notes, self._notes = self._notes, ()
        return [
            *notes,
            f"{len(batches.pictures):,} pictures{self.counted(batches)}, "
            f"{self.model.count_params():,} weights, {len(batches):,} batches an epoch, "
            f"{batches.padded_share:.0%} padding, {keras.backend.backend()}",
        ]

    @abstractmethod
    def counted(self, batches: Any) -> str:
        """Returns the number of texts in batches for the log, such as `", 5 captions"`."""

    @classmethod
    @abstractmethod
    def named(cls, examples: Any) -> Iterable[tuple[Picture, Sequence[str]]]:
        """Yields the image and the texts of each checked example, for the `digest` of a run."""

    def digest(self, examples: Any, dev: Any) -> str:
        """Returns a digest of images, texts and the weights of an encoder that is not trained.

        Files of images are represented by their names and sizes, so that they can be moved.
        """
        encoder = "" if self.train_encoder else self.encoder.fingerprint()["weights"]
        digest = hashlib.sha256(encoder.encode())
        for side in (examples, dev):
            for picture, texts in self.named(self.checked(side)) if side else ():
                if isinstance(picture, str | os.PathLike):
                    size = os.path.getsize(picture) if os.path.isfile(picture) else -1
                    name = f"{os.path.basename(picture)}\x00{size}"
                    digest.update(name.encode("utf-8", "surrogateescape"))
                else:
                    digest.update(np.asarray(picture).tobytes())
                digest.update("\x00".join(["", *texts, ""]).encode("utf-8", "replace"))
            digest.update(b"\x01")
        return digest.hexdigest()[:16]

    # Regions

    def regions_of(self, images: Array) -> Array:
        """Computes R regions of width D, `(B, R, D)`, for each of B images `(B, H, W, 3)`, which
        must have the size that the encoder reads."""
        images = ops.reshape(images, (-1, *self.encoder.image_size, 3))
        return ops.cast(self.encoder(images, training=False), "float32")

    @staticmethod
    def rows_of(
        xp: ArrayModule, tensors: Mapping[str, Array], encode: Callable[[Array], Array]
    ) -> Array:
        """Returns the regions `(B, R, D)` of the image of each row.

        Args:
            xp: The array module of the tensors.
            tensors: A dict of `image_pixels` and `image_number (B,)`, as encoded by
                `picture_input`; or of `regions`, and optionally `picture (B,)`, the index in
                `regions` for each row.
            encode: Function from the pixels of images to their regions.
        """
        if "regions" not in tensors:
            return xp.take(encode(tensors["image_pixels"]), tensors["image_number"], axis=0)
        regions = tensors["regions"]
        return xp.take(regions, tensors["picture"], axis=0) if "picture" in tensors else regions

    def _regions(self, images: np.ndarray | list[np.ndarray], batch_size: int) -> np.ndarray:
        """The regions of images of the size of the encoder."""
        run = self.kept(
            lambda: CompiledFunction(
                lambda images, length: self.regions_of(images), self.encoder, dtype="uint8", rank=4
            ),
            "regions",
        )
        parts = [np.zeros((0, self.encoder.num_regions, self.encoder.region_dim), "float32")]
        for rows in row_batches(images, batch_size):
            parts.append(run(padded_rows(rows, batch_size), 1)[: len(rows)])
        return np.concatenate(parts)

    def regions(self, images: Any, batch_size: int = 32) -> np.ndarray:
        """Computes the regions of images with the image encoder.

        Args:
            images: An image (a path, the bytes of a file, or an array `(H, W, 3)` of uint8), or a
                list of images.
            batch_size: Number of images that are computed at once.

        Returns:
            float32 `(n, R, D)`: R regions of width D for each image.

        Raises:
            OSError: If a file is missing or cannot be read.
            ValueError: If an image is broken.
        """
        check_count("batch_size", batch_size)
        pictures, _ = as_pictures(images)
        parts = [regions for _, regions in self._read_regions(pictures, batch_size, "error", [])]
        return np.concatenate([self._regions([], batch_size), *parts])

    def _read_regions(
        self,
        pictures: Sequence[Picture],
        batch_size: int,
        on_error: str,
        problems: list[ImageProblem],
    ) -> Iterator[tuple[list[int], np.ndarray]]:
        """Yields the numbers and the regions of whole images; adds what is wrong with others."""
        size = self.encoder.image_size
        for numbers, pixels, broken in read_pictures(pictures, size, batch_size, on_error):
            problems += broken
            if numbers:
                yield numbers, self._regions(pixels, batch_size)

    def _warn(self, problems: Sequence[ImageProblem], count: int, stacklevel: int) -> None:
        """Warns of images without a result, of `count` images."""
        if problems:
            warnings.warn(
                f"{len(problems)} of {count} pictures have no {self.gives}: "
                f"{describe_image_problems(problems)}.",
                stacklevel=stacklevel,
            )

    def feature_cache(self, cache_dir: str | os.PathLike[str] | None = None) -> FeatureCache:
        """Opens the cache of the encoder's regions.

        Args:
            cache_dir: Folder of the cache. By default, a folder for this encoder in
                `KERAS_ATTN_CACHE`, or else in `~/.cache/keras_attn`.

        Returns:
            A `FeatureCache`.

        Raises:
            ValueError: If the folder is the cache of another encoder.
        """
        key = self.encoder.fingerprint()
        if cache_dir is None:
            digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
            cache_dir = cache_folder() / "regions" / f"{self.encoder.name}-{digest[:16]}"
        return FeatureCache(cache_dir, key, dtype=self.data.cache_dtype)

    def fill_cache(
        self,
        cache: FeatureCache,
        paths: Iterable[str | os.PathLike[str]],
        verbose: Any = "auto",
        on_error: str = "error",
    ) -> CacheFill:
        """Computes the regions of images that are missing in a cache, and stores them there.

        Args:
            cache: The result of `feature_cache`.
            paths: The files of the images.
            verbose: If 0, no progress is shown.
            on_error: `"error"` raises an error for a broken image; `"skip"` leaves it out.

        Returns:
            A `keras_attn.images.CacheFill`, which lists broken images.
        """
        return cache.fill(
            paths,
            lambda images: self._regions(images, batch_size=32),
            self.encoder.image_size,
            batch_size=32,
            on_error=on_error,
            verbose=int(verbose != 0),
        )

    # Export

    def picture_input(self, max_pixels: int = MAX_PIXELS) -> PictureInput:
        """Returns the field of images in the SavedModel."""
        return PictureInput(self.encoder.image_size, max_pixels)

    @property
    def export_tolerance(self) -> float:
        """Maximum difference between numbers of the SavedModel and of this object."""
        return 1e-4 if self.encoder.output.dtype == "float32" == self.policy.compute_dtype else 3e-2

    @property
    def spare_row(self) -> Mapping[str, Any]:
        """The image that the SavedModel reads for an empty batch."""
        return {"image": PictureInput((1, 1)).examples[0]}


def row_batches(rows: np.ndarray | list[np.ndarray], batch_size: int) -> Iterator[np.ndarray]:
    """Yields the rows of an array, or of a list of arrays, in arrays of at most `batch_size`."""
    for start in range(0, len(rows), batch_size):
        yield np.asarray(rows[start : start + batch_size])
        report(min(start + batch_size, len(rows)), len(rows), "pictures")


def padded_rows(rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Adds rows of zeros up to `batch_size` on JAX, which compiles for each shape."""
    if keras.backend.backend() != "jax" or len(rows) == batch_size:
        return rows
    return np.concatenate([rows, np.zeros((batch_size - len(rows), *rows.shape[1:]), rows.dtype)])
