"""Captioning: a picture in, a sentence out, and where the model looked."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_attn.datasets import CacheFill, CaptionBatches, FeatureCache
from keras_attn.datasets.image_problems import describe_image_problems
from keras_attn.export import export_in_child_process
from keras_attn.models import ImageEncoder, captioner, captioner_kind, image_captioner
from keras_attn.tasks.captioning_data import (
    Captioned,
    as_pictures,
    checked_captioned,
    picture_source,
    read_pictures,
    region_cache,
)
from keras_attn.tasks.captioning_decoding import CaptionSearch
from keras_attn.tasks.captioning_export import export_captioner
from keras_attn.tasks.checks import check_decoding, check_n_best
from keras_attn.tasks.compiling import fit_task, jit_compile, make_adam, make_schedule
from keras_attn.tasks.configs import captioner_config
from keras_attn.tasks.quantizing import Quantizable
from keras_attn.tasks.task_file import load_weights, read_config, save_task
from keras_attn.text import BytePairTokenizer
from keras_attn.training import (
    CaptionScores,
    MaskedCrossEntropy,
    Perplexity,
    caption_scores,
    num_data_shards,
)


class Captioner(Quantizable):
    """A captioner of pictures with its encoder and its tokenizer.

    `.model` is the plain Keras model that is trained, `.dataset(images)` what its `fit` takes; the
    methods here only join them. With a frozen encoder `.model` reads regions, computed once; else
    pictures.

    Args:
        tokenizer: A `BytePairTokenizer`, trained on captions.
        encoder: An `ImageEncoder`.
        config: Settings of the decoder: a `SoftAttentionCaptionerConfig` or
            `TransformerCaptionerConfig`, or a dict of the fields of one with its name, `{"kind":
            "transformer", ...}` (`"soft-attention"` if None). In a dict the sizes of vocabulary and
            regions, and the grid, are taken from the other arguments.
        max_length: Most tokens of a caption, the end included.
        train_encoder: Whether the encoder is trained with the decoder: those of its weights that
            are trainable. Else they stay as they are.
        dtype: Dtype or policy of the decoder's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: For another tokenizer or encoder.
        ValueError: For settings that are none, out of range, or do not fit the encoder.

    Example:

    >>> red, blue = (np.full((8, 8, 3), color, "uint8") for color in ([200, 0, 0], [0, 0, 200]))
    >>> images = [(red, "something red"), (blue, "something blue")]
    >>> tokenizer = BytePairTokenizer.train([caption for _, caption in images], 267)
    >>> encoder = patch_encoder(8, patch_size=4, num_layers=1, dim=16, intermediate_dim=16)
    >>> config = {"kind": "soft-attention", "dim": 16, "units": 32, "dropout": 0}
    >>> captioner = Captioner(tokenizer, encoder, config, max_length=12, train_encoder=True)
    >>> history = captioner.fit(images, epochs=1, batch_size=2, verbose=0)
    >>> best = captioner.caption(blue, return_attention=True)  # with more epochs: something blue
    >>> isinstance(best.text, str), best.attention.shape[1:]
    (True, (2, 2))
    """

    def __init__(
        self,
        tokenizer: BytePairTokenizer,
        encoder: ImageEncoder,
        config: Any = None,
        max_length: int = 32,
        train_encoder: bool = False,
        dtype: Any = None,
    ):
        if not isinstance(tokenizer, BytePairTokenizer):
            raise TypeError(
                f"`tokenizer` must be a BytePairTokenizer. Received: {type(tokenizer).__name__}. "
                "Make one with BytePairTokenizer.train(captions, vocabulary_size)."
            )
        if not isinstance(encoder, ImageEncoder):
            raise TypeError(
                f"`encoder` must be an ImageEncoder. Received: {type(encoder).__name__}. Make one "
                "with encoder_from_model(model), applications_encoder(name), small_cnn_encoder()."
            )
        if isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < 2:
            raise ValueError(
                f"`max_length` must be an integer of at least 2. Received: {max_length!r}."
            )
        self.tokenizer = tokenizer
        self.encoder = encoder
        self.config = captioner_config(config, tokenizer.vocabulary_size, encoder)
        self.max_length = max_length
        self.train_encoder = bool(train_encoder)
        if self.train_encoder and not encoder.trainable_weights:
            raise ValueError(
                "Expected an encoder with weights that are trained, for train_encoder=True. "
                f"Received: {encoder.name!r} without one. Set its `trainable` to True."
            )
        self.captioner = captioner(self.config, dtype=dtype)
        """The model from regions and tokens to logits."""
        self.joined = image_captioner(encoder, self.captioner)
        """The model from pictures and tokens to logits, of the same weights."""
        self.model = self.joined if self.train_encoder else self.captioner
        self._search = CaptionSearch(encoder, self.captioner, tokenizer, max_length)
        self._optimizer: Any = None
        self.cache_dtype = "float16"
        """Of regions on the disk; `"float32"` for an encoder whose values need it."""

    # Training

    def dataset(
        self,
        images: Iterable[Captioned],
        cache_dir: str | os.PathLike | None = None,
        verbose: Any = "auto",
        **settings: Any,
    ) -> CaptionBatches:
        """Makes batches for `model.fit`: each caption of each picture, once an epoch.

        The regions of a frozen encoder are computed once, and kept on the disk in a `FeatureCache`;
        those of arrays, which have no files, in memory. Pictures for an encoder that is trained are
        read as they are needed, and kept where they are few.

        Args:
            images: `CaptionedImage`s, or (picture, captions) pairs, with pictures that are all
                paths or all arrays.
            cache_dir: Folder of the `FeatureCache`. By default a folder for this encoder in
                `KERAS_ATTN_CACHE`, or else in `~/.cache/keras_attn`.
            verbose: 0: the progress of the computation of regions is not shown.
            **settings: Of `keras_attn.datasets.CaptionBatches`: `batch_size`, `seed`, ... With an
                encoder that is trained all batches have one shape: in batches of captions of like
                length the statistics of batch normalisation would tell the length, which an encoder
                learns to rely on, and lacks when it is used.

        Returns:
            `CaptionBatches`. Captions of more than `max_length` tokens are left out, with a warning
            that counts them.

        Raises:
            ValueError: For what is no captioned picture, broken pictures, and the cache of another
                encoder.
        """
        found = checked_captioned(images)
        source = picture_source(self, found.pictures, cache_dir, verbose)
        texts = [caption for captions in found.captions for caption in captions]
        numbers = [n for n, captions in enumerate(found.captions) for _ in captions]
        batches = CaptionBatches(
            source,
            numbers,
            self.tokenizer.encode(texts),
            start_id=self.tokenizer.start_id,
            end_id=self.tokenizer.end_id,
            pad_id=self.tokenizer.pad_id,
            **{
                "name": "images" if self.train_encoder else "regions",
                "max_length": self.max_length,
                "max_shapes": 1 if self.train_encoder else 4,
                "rows_multiple_of": num_data_shards(),
                **settings,
            },
        )
        if batches.dropped:
            warnings.warn(
                f"{batches.dropped} of {len(texts)} captions have more tokens than `max_length` "
                f"and are left out. Received: max_length={self.max_length}.",
                stacklevel=2,
            )
        return batches

    def feature_cache(self, cache_dir: str | os.PathLike | None = None) -> FeatureCache:
        """Opens the cache of the encoder's regions.

        Args:
            cache_dir: As `dataset`.

        Returns:
            A `FeatureCache`.

        Raises:
            ValueError: If the folder is the cache of another encoder.
        """
        return region_cache(self.encoder, cache_dir, self.cache_dtype)

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
            `keras_attn.datasets.CacheFill`.
        """
        return cache.fill(
            paths,
            lambda images: self._search.regions(images, batch_size=32),
            self.encoder.image_size,
            batch_size=32,
            on_error=on_error,
            verbose=int(verbose != 0),
        )

    def compile(
        self,
        total_steps: int,
        learning_rate: float = 1e-3,
        warmup_steps: int | None = None,
        label_smoothing: float = 0.0,
        weight_decay: float = 0.0,
        clip_norm: float = 1.0,
        ema_momentum: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """Compiles `.model` with what suits a captioner. `fit` does so where this was not.

        Adam with linear warm-up and cosine decay, the norm of the gradient clipped; cross-entropy
        over real tokens, to which the soft attention adds its doubly stochastic loss; perplexity is
        of the captions alone. `captioner.model.compile(...)` sets anything else.

        Args:
            total_steps: Number of updates in all.
            learning_rate: The highest learning rate.
            warmup_steps: Steps until it is reached; a twentieth of all, at most 1000, if None.
            label_smoothing: Share of the target's probability that is spread over the vocabulary.
            weight_decay: Of AdamW; 0: Adam.
            clip_norm: Largest norm of all gradients together; 0: any.
            ema_momentum: Momentum of the moving average of the weights, which becomes the weights
                at the end of `fit` (see `keras_attn.training.averaged_weights`); 0: none.
            **kwargs: Of `keras.Model.compile`.
        """
        policy = self.captioner.get_layer("decoder").dtype_policy
        settings = {
            "optimizer": make_adam(
                make_schedule(total_steps, learning_rate, warmup_steps),
                policy,
                weight_decay,
                clip_norm,
                ema_momentum,
            ),
            "loss": MaskedCrossEntropy(label_smoothing),
            # The loss is also of the attention; this is of the captions alone.
            "weighted_metrics": [Perplexity()],
            "jit_compile": jit_compile(recurrent=captioner_kind(self.config) == "soft-attention"),
        }
        self.model.compile(**{**settings, **kwargs})
        self._optimizer = None

    def fit(
        self,
        images: Iterable[Captioned],
        validation: Iterable[Captioned] | None = None,
        epochs: int = 10,
        batch_size: int = 64,
        cache_dir: str | os.PathLike | None = None,
        seed: int = 0,
        verbose: Any = "auto",
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **compile_settings: Any,
    ) -> keras.callbacks.History:
        """Trains on captioned pictures.

        Args:
            images: As `dataset`.
            validation: Some whose loss is shown after each epoch.
            epochs: Passes over the captions.
            batch_size: Captions of a batch.
            cache_dir: As `dataset`.
            seed: Of the order of the captions. Dropout follows `keras.utils.set_random_seed`.
            verbose: Of Keras' progress bar.
            callbacks: Further Keras callbacks.
            **compile_settings: Of `compile`, with which each `fit` starts anew: its learning rate
                rises and falls over the epochs of this call. A model that was compiled by
                `compile` or `.model.compile` is taken as it is, unless settings are given.

        Returns:
            Keras' `History`.
        """
        batches = self.dataset(images, cache_dir, verbose, batch_size=batch_size, seed=seed)
        seen = None
        if validation is not None:
            seen = self.dataset(
                validation, cache_dir, verbose, batch_size=batch_size, shuffle=False
            )
        return fit_task(self, batches, seen, epochs, verbose, callbacks, compile_settings)

    # Use

    def regions(self, images: Any, batch_size: int = 32) -> np.ndarray:
        """Computes what the decoder reads of pictures.

        Args:
            images: A path, the bytes of a file, an array `(H, W, 3)` of uint8, or several.
            batch_size: Pictures computed at a time.

        Returns:
            float32 `(n, R, D)`.

        Raises:
            OSError: A file is not there or cannot be read.
            ValueError: A picture is broken.
        """
        check_decoding(1.0, batch_size=batch_size)
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
                yield numbers, self._search.regions(pixels, batch_size)
        if problems:
            warnings.warn(
                f"{len(problems)} of {len(pictures)} pictures have no caption: "
                f"{describe_image_problems(problems)}.",
                stacklevel=3,
            )

    def caption(
        self,
        images: Any,
        beams: int = 4,
        alpha: float = 1.0,
        return_attention: bool = False,
        batch_size: int = 32,
        on_error: str = "error",
    ) -> Any:
        """Captions pictures.

        Args:
            images: A path, the bytes of a file, an array `(H, W, 3)` of uint8, or several: a list,
                or an array `(n, H, W, 3)`.
            beams: Width of the beam search; 1 is greedy search.
            alpha: Exponent of the length penalty.
            return_attention: Whether to return `Caption`s, which say where the model looked.
            batch_size: Pictures captioned at a time.
            on_error: `"error"`: a picture that cannot be read is one. `"skip"`: its caption is
                None, and a warning names it.

        Returns:
            For a picture a string, or a `Caption`; for several a list, in their order.

        Raises:
            OSError: A file is not there or cannot be read.
            TypeError: For what is no picture.
            ValueError: A picture is broken; settings that are no numbers or out of range.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        pictures, one = as_pictures(images)
        if return_attention:
            found = self.caption_n_best(pictures, 1, beams, alpha, batch_size, on_error)
            best = [captions and captions[0] for captions in found]
            return best[0] if one else best
        results: list[str | None] = [None] * len(pictures)
        for numbers, regions in self._read(pictures, batch_size, on_error):
            ids = self._search.best(regions, beams, alpha, batch_size)
            for number, text in zip(numbers, self.tokenizer.decode(ids), strict=True):
                results[number] = text
        return results[0] if one else results

    def caption_n_best(
        self,
        images: Any,
        num_return_sequences: int | None = None,
        beams: int = 4,
        alpha: float = 1.0,
        batch_size: int = 32,
        on_error: str = "error",
    ) -> Any:
        """Finds several captions of each picture, with scores and where the model looked.

        Args:
            images: As `caption`.
            num_return_sequences: Number of captions of each, at most `beams`; `beams` if None.
            beams: Width of the beam search.
            alpha: Exponent of the length penalty.
            batch_size: Pictures captioned at a time.
            on_error: As `caption`.

        Returns:
            For a picture a list of `Caption`s, the best first; for several a list of such lists.

        Raises:
            OSError: As `caption`.
            TypeError: As `caption`.
            ValueError: As `caption`.
        """
        count = check_n_best(beams, alpha, num_return_sequences, batch_size=batch_size)
        pictures, one = as_pictures(images)
        results: list[Any] = [None] * len(pictures)
        for numbers, regions in self._read(pictures, batch_size, on_error):
            found = self._search.n_best(regions, beams, alpha, count, batch_size)
            for number, captions in zip(numbers, found, strict=True):
                results[number] = captions
        return results[0] if one else results

    def caption_source(
        self, source: Any, beams: int = 4, alpha: float = 1.0, batch_size: int = 32
    ) -> list[str]:
        """Captions what `model` is trained on: regions, or pictures where the encoder is trained.

        Args:
            source: As `keras_attn.datasets.CaptionBatches` reads it; `dataset(...).pictures`.
            beams: As `caption`.
            alpha: As `caption`.
            batch_size: As `caption`.

        Returns:
            A caption for each picture.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        found = []
        for start in range(0, len(source), batch_size):
            rows = source.read(np.arange(start, min(start + batch_size, len(source))))
            regions = self._search.regions(rows, batch_size) if self.train_encoder else rows
            found += self._search.best(regions, beams, alpha, batch_size)
        return self.tokenizer.decode(found)

    def evaluate(
        self,
        images: Iterable[Captioned],
        beams: int = 4,
        alpha: float = 1.0,
        batch_size: int = 32,
        train_captions: Iterable[str] | None = None,
        tokenization: str = "auto",
        meteor: bool = False,
        cache_dir: str | os.PathLike | None = None,
    ) -> CaptionScores:
        """Captions pictures and scores the captions against theirs.

        Args:
            images: As `dataset`.
            beams: As `caption`.
            alpha: As `caption`.
            batch_size: As `caption`.
            train_captions: Captions that were trained on, to count copies.
            tokenization: As `keras_attn.training.caption_scores`.
            meteor: As `keras_attn.training.caption_scores`.
            cache_dir: Folder of a `FeatureCache` to take the regions from, rounded to
                `cache_dtype`, and to add them to.

        Returns:
            `keras_attn.training.CaptionScores`: BLEU-1 to 4, ROUGE-L, CIDEr; `print` shows it.

        Raises:
            ImportError: If `pycocoevalcap` is not installed.
            ValueError: For what is no captioned picture, and broken pictures.
        """
        check_decoding(alpha, beams=beams, batch_size=batch_size)
        found = checked_captioned(images)
        if cache_dir is None:
            captions = self.caption(found.pictures, beams, alpha, batch_size=batch_size)
        else:
            source = picture_source(self, found.pictures, cache_dir, 0)
            captions = self.caption_source(source, beams, alpha, batch_size)
        return caption_scores(captions, found.captions, train_captions, tokenization, meteor)

    def _models(self) -> tuple[keras.Model, ...]:
        return (self.joined, self.captioner, self.encoder)

    # Files

    def save(self, path: str | os.PathLike) -> None:
        """Saves settings, tokenizer, encoder and weights to one file, readable on every backend."""
        config = {
            "config": {"kind": captioner_kind(self.config), **self.config.to_dict()},
            "tokenizer": self.tokenizer.get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "max_length": self.max_length,
            "train_encoder": self.train_encoder,
            "dtype": self.captioner.get_layer("decoder").dtype_policy.name,
        }
        save_task(path, "Captioner", config, self.joined)

    @classmethod
    def load(cls, path: str | os.PathLike, dtype: Any = None) -> "Captioner":
        """Loads what `save` wrote.

        Args:
            path: The file.
            dtype: As in the constructor; what was saved if None.

        Returns:
            A `Captioner`, not compiled.
        """
        config = read_config(path, "Captioner")
        made = cls(
            BytePairTokenizer.from_config(config["tokenizer"]),
            keras.saving.deserialize_keras_object(config["encoder"], safe_mode=True),
            config["config"],
            config["max_length"],
            config["train_encoder"],
            config["dtype"] if dtype is None else dtype,
        )
        load_weights(path, made.joined)
        return made

    def export(
        self,
        path: str | os.PathLike,
        beams: int = 4,
        alpha: float = 1.0,
        num_return_sequences: int | None = None,
        overwrite: bool = False,
    ) -> None:
        """Exports a TensorFlow SavedModel from the bytes of pictures to captions.

        Its signature `serving_default` takes `image: string (B,)`, each the bytes of a JPEG, PNG,
        GIF or BMP file, and gives `caption: string (B,)`, as `caption` does. Its signature
        `details` takes the same and gives what `caption_n_best` gives, padded with `""` and zeros:

        - `captions`, `scores`, `truncated` `(B, R)`, the best first;
        - `tokens` `(B, R, T)`, `attention` `(B, R, T, rows, columns)`.

        One picture that cannot be decoded fails its whole batch: a graph cannot catch errors. The
        graph does not turn a picture as its EXIF data say, and has no limit of pixels. Its resizing
        may differ from that of `caption` by 1 of 255 where a picture has another size, and its
        decoding of JPEG by a little more.

        It loads with `import tensorflow` alone. Before it is put in its place it is loaded and both
        signatures are compared with this object. On JAX and PyTorch a child process with the
        TensorFlow backend does the work.

        Args:
            path: Folder of the SavedModel.
            beams: Width of its beam search.
            alpha: Exponent of its length penalty.
            num_return_sequences: Number R of captions in `details`, at most `beams`; `beams` if
                None.
            overwrite: Whether a SavedModel that is there is replaced, at the end, by the new one.

        Raises:
            FileExistsError: If the folder is there and not empty, unless it is a SavedModel and
                `overwrite` is given.
            PermissionError: If its parent cannot be written to.
            RuntimeError: If what was written does not give what this object gives.
            ValueError: For settings that are no numbers or out of range.
        """
        count = check_n_best(beams, alpha, num_return_sequences)
        if keras.backend.backend() != "tensorflow":
            export_in_child_process(
                type(self),
                self.save,
                path,
                beams=beams,
                alpha=alpha,
                num_return_sequences=count,
                overwrite=overwrite,
            )
            return
        export_captioner(self._search, path, beams, alpha, count, overwrite)
