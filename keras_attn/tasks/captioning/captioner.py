"""Captioning: a picture in, a sentence out, and where the model looked."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras

from keras_attn.batches import CaptionBatches
from keras_attn.images.captioned_images import Captioned, CaptionedPictures, checked_captioned
from keras_attn.images.image_problems import ImageProblem, describe_image_problems
from keras_attn.inputs import listed
from keras_attn.metrics import Perplexity, caption_scores
from keras_attn.metrics.caption_tokens import metrics_folder
from keras_attn.metrics.captions import check_references
from keras_attn.models import CAPTIONERS, ImageEncoder, ImageEncoderConfig, image_captioner
from keras_attn.tasks.base.constructed import Beginning
from keras_attn.tasks.base.served_numbers import own_numbers
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.captioning.graph import expected_outputs, graph_functions
from keras_attn.tasks.captioning.predictions import CaptioningLearned, CaptioningPredictions
from keras_attn.tasks.captioning.settings import (
    CaptioningData,
    CaptioningTest,
    CaptioningTraining,
    CaptioningUse,
)
from keras_attn.tasks.captioning.sources import TestPictures, measured_pictures, training_pictures
from keras_attn.tasks.families.picture_sources import (
    batch_settings,
    picture_source,
    pictures_digest,
    whole_pictures,
)
from keras_attn.text import BytePairTokenizer
from keras_attn.training import MaskedCrossEntropy, without_autotuning

_DIFFERENT = 2  # pictures that CIDEr weighs words by


class Captioner(CaptioningPredictions):
    """A captioner of pictures with its encoder and its tokenizer.

    `.model` is the plain Keras model that is trained, `.dataset(images)` what its `fit` takes. If
    the encoder is not trained, `.model` reads regions, which are computed once; else pictures. The
    examples of `fit` are `CaptionedImage`s, or (picture, captions) pairs.

    Args:
        tokenizer: A `BytePairTokenizer`, trained on captions.
        encoder: An `ImageEncoder`.
        train_encoder: Whether the encoder is trained with the decoder (those of its weights that
            are trainable), or stays as it is.
        model: Settings of the decoder: a `SoftAttentionCaptionerConfig`, a
            `TransformerCaptionerConfig`, or a dict of the settings of one with its name,
            `{"model": "transformer", ...}` (`"soft-attention"` if none is named). The sizes of
            vocabulary and regions, and the grid, are taken from the other arguments.
        data: Settings `CaptioningData`, or a dict of some of them, such as `max_length`, the
            largest number of tokens of a caption, the end included.
        dtype: Dtype or policy of the decoder's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the tokenizer or the encoder is of another class.
        ValueError: If a setting is unknown or out of range, or does not fit the encoder.

    Example:

    >>> import numpy as np
    >>> red, blue = (np.full((8, 8, 3), color, "uint8") for color in ([200, 0, 0], [0, 0, 200]))
    >>> images = [(red, "something red"), (blue, "something blue")]
    >>> tokenizer = BytePairTokenizer.train([caption for _, caption in images], 267)
    >>> encoder = patch_encoder(8, patch_size=4, num_layers=1, dim=16, intermediate_dim=16)
    >>> sizes = {"model": "soft-attention", "dim": 16, "units": 32, "dropout": 0.0}
    >>> captioner = Captioner(tokenizer, encoder, train_encoder=True, model=sizes)
    >>> run = captioner.fit(images, epochs=1, batch_size=2, verbose=0)
    >>> best = captioner.caption(blue, return_attention=True)  # with more epochs: something blue
    >>> isinstance(best.text, str), best.attention.shape[1:]
    (True, (2, 2))
    """

    name = "captioning"
    summary = "Caption pictures: emoji by their names, or any captioned pictures of your own."
    kinds = CAPTIONERS
    main_layer = "decoder"
    Data = CaptioningData
    Training = CaptioningTraining
    Use = CaptioningUse
    limits = ("max_pixels",)
    Test = CaptioningTest
    examples_are = "pictures"
    join = staticmethod(image_captioner)

    def facts(self) -> list[str]:
        """What tells this captioner from others, for its `repr`."""
        return [*super().facts(), f"{self.tokenizer.vocabulary_size:,} tokens"]

    # Data and training

    @classmethod
    def read(cls, data: CaptioningData) -> Examples:
        """Reads captioned pictures.

        The captions are Karpathy's JSON (Flickr8k, Flickr30k, COCO, RSICD), COCO's own, Flickr8k's
        text files, a CSV or TSV table, or the folder of UCM-Captions. Without a file, emoji with
        their names are read (67 MB, fetched once by pip). A part of the pictures is left for
        choosing the best weights. No test side is read.
        """
        return Examples(*training_pictures(data))

    def read_test(self, test: CaptioningTest, data: CaptioningData) -> TestPictures:
        """Reads captioned pictures, and the training captions if `--train` names them."""
        return measured_pictures(test, data)

    @classmethod
    def begin(
        cls,
        examples: Iterable[Captioned],
        data: CaptioningData,
        model: Any,
        dtype: Any,
        *,
        encoder: ImageEncoder | ImageEncoderConfig | Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> Beginning:
        """Makes the vocabulary of captions, and the encoder.

        Args:
            examples: Captioned pictures.
            data: Settings of the vocabulary and the length.
            model: As in `create`.
            dtype: Dtype or policy of an encoder with random weights.
            encoder: Settings of the encoder, or an `ImageEncoder`, which is not trained.

        Returns:
            A `Beginning`.

        Example:

        >>> import numpy as np
        >>> images = [(np.zeros((8, 8, 3), "uint8"), "a black square")]
        >>> captioner = Captioner.create(images, encoder={"filters": "4,8", "image_size": 8})
        >>> captioner.encoder.grid, captioner.train_encoder
        ((2, 2), True)
        """
        captions = [text for texts in checked_captioned(examples).captions for text in texts]
        tokenizer = BytePairTokenizer.train(captions, data.vocabulary_size, allow_fewer=True)
        made, trained, settings = cls.encoder_of(encoder, dtype)
        return Beginning(CaptioningLearned(tokenizer, made, trained), model, parts=settings)

    def dataset(
        self,
        images: Iterable[Captioned],
        cache_dir: str | os.PathLike | None = None,
        verbose: Any = "auto",
        on_error: str = "error",
        **settings: Any,
    ) -> CaptionBatches:
        """Makes batches for `model.fit`: each caption of each picture, once an epoch.

        The regions of an encoder that is not trained are computed once. They are kept on the disk
        in a `FeatureCache`, or in memory if the pictures are arrays, which have no files. Pictures
        for an encoder that is trained are read as they are needed.

        Args:
            images: `CaptionedImage`s, or (picture, captions) pairs, with pictures that are all
                paths or all arrays.
            cache_dir: Folder of the `FeatureCache`. By default a folder for this encoder in
                `KERAS_ATTN_CACHE`, or else in `~/.cache/keras_attn`.
            verbose: 0 does not show the progress of the computation of regions.
            on_error: `"error"`: a broken picture is an error. `"skip"`: broken pictures are left
                out, with a warning that names them.
            **settings: Of `keras_attn.batches.CaptionBatches`: `batch_size`, `seed`, ... If the
                encoder is trained, all batches have one shape: in batches of captions of like
                length the statistics of batch normalisation would tell the length, which an encoder
                learns to rely on, and lacks when it is used.

        Returns:
            `CaptionBatches`. Captions of more than `max_length` tokens are left out, with a warning
            that counts them.

        Raises:
            ValueError: If something is not a captioned picture, a picture is broken, or the cache
                is of another encoder.
        """
        batches, found, problems = self._batches(images, cache_dir, verbose, on_error, **settings)
        if problems:
            warnings.warn(_left_out(found, problems), stacklevel=2)
        if batches.dropped:
            count = sum(map(len, found.captions))
            warnings.warn(
                f"{batches.dropped} of {count} captions have more tokens than `max_length` "
                f"and are left out. Received: max_length={self.max_length}.",
                stacklevel=2,
            )
        return batches

    def _batches(
        self,
        images: Iterable[Captioned],
        cache_dir: str | os.PathLike | None,
        verbose: Any,
        on_error: str,
        **settings: Any,
    ) -> tuple[CaptionBatches, CaptionedPictures, list[ImageProblem]]:
        """Returns batches, the whole pictures, and what is wrong with the others."""
        given = checked_captioned(images)
        whole, problems = whole_pictures(self, given.pictures, on_error, cache_dir, verbose)
        found = CaptionedPictures(
            [given.pictures[n] for n in whole], [given.captions[n] for n in whole]
        )
        source = picture_source(self, found.pictures, cache_dir, verbose)
        texts = [caption for captions in found.captions for caption in captions]
        numbers = [n for n, captions in enumerate(found.captions) for _ in captions]
        batches = CaptionBatches(
            source,
            numbers,
            self.tokenizer.encode(texts),
            start_id=self.tokenizer.start_id,
            end_id=self.tokenizer.end_id,
            **{**batch_settings(self), **settings},
        )
        return batches, found, problems

    def batches(
        self, examples: Iterable[Captioned], training: CaptioningTraining, shuffle: bool = True
    ) -> CaptionBatches:
        """Makes the batches of a training, see `dataset`."""
        return self._training_batches(examples, training, shuffle)[0]

    def _training_batches(
        self, examples: Iterable[Captioned], training: CaptioningTraining, shuffle: bool = True
    ) -> tuple[CaptionBatches, CaptionedPictures]:
        batches, found, problems = self._batches(
            examples,
            training.cache_dir or None,
            self._verbose,
            self.data.on_error,
            batch_size=training.batch_size,
            seed=training.seed,
            shuffle=shuffle,
        )
        if problems:
            self._notes = [*self._notes, _left_out(found, problems)]
        return batches, found

    def objective(self, training: CaptioningTraining) -> dict[str, Any]:
        """Cross-entropy over real tokens, to which soft attention adds its doubly stochastic loss.

        The perplexity is of the captions alone.
        """
        return {
            "loss": MaskedCrossEntropy(training.label_smoothing),
            "weighted_metrics": [Perplexity()],
        }

    def scored_by(self, training: CaptioningTraining) -> tuple[str, int]:
        """CIDEr, BLEU-4 or the perplexity, of which less is better."""
        return training.score, -1 if training.score == "perplexity" else 1

    def scorer(
        self, dev: Iterable[Captioned], training: CaptioningTraining
    ) -> Callable[[keras.Model], Scored]:
        """Scores development pictures: their perplexity, and CIDEr and BLEU-4 of new captions.

        The latter are times 100, of the words that `tokenize_captions` finds without Java. Of two
        epochs with the same score the one with the lower perplexity is better.
        """
        if training.score != "perplexity":
            metrics_folder()
        some = listed(dev, "(picture, captions) pairs", 2)
        if len(some) > training.score_pictures:
            places = random.Random(training.seed).sample(range(len(some)), training.score_pictures)
            some = [some[i] for i in sorted(places)]
        if training.score == "cider" and len(some) < _DIFFERENT:
            raise ValueError(
                "CIDEr weighs words by how many pictures have them. Expected: two development "
                f"pictures or more. Received: {len(some)}. Take score='bleu_4' or 'perplexity'."
            )
        batches, found = self._training_batches(some, training, shuffle=False)
        if training.score != "perplexity":
            check_references(dict(zip(found.names(), found.captions, strict=True)))

        def score(model: keras.Model) -> Scored:
            figures = model.evaluate(without_autotuning(batches), verbose=0, return_dict=True)
            perplexity = float(figures["perplexity"])
            if training.score == "perplexity":
                return Scored((-perplexity,), {"val_perplexity": perplexity})
            captions = self.caption_source(batches.pictures, training.score_beams)
            scores = caption_scores(captions, found.captions, tokenization="plain")
            figures = {
                "val_perplexity": perplexity,
                "val_cider": round(scores.cider, 4),
                "val_bleu_4": round(scores.bleu_4, 4),
            }
            return Scored((figures[f"val_{training.score}"], -perplexity), figures)

        return score

    def describe(self, batches: CaptionBatches) -> list[str]:
        """Says what is trained, and what is left out."""
        rows, columns = self.encoder.grid
        notes, self._notes = self._notes, ()
        return [
            *notes,
            f"{len(batches.pictures):,} pictures, {batches.num_examples:,} captions, "
            f"{self.tokenizer.vocabulary_size:,} tokens, {rows} x {columns} regions, "
            f"{self.model.count_params():,} weights, {len(batches):,} batches an epoch, "
            f"{batches.padded_share:.0%} padding, {keras.backend.backend()}",
        ]

    def digest(self, examples: Iterable[Captioned], dev: Iterable[Captioned]) -> str:
        """Names pictures, captions, and an encoder that is not trained."""
        return pictures_digest(self, examples, dev)

    # Files and export

    def export_examples(self) -> dict[str, Any]:
        """Returns pictures of several kinds and sizes, as the bytes of their files."""
        return {"image": self.picture_input().examples}

    def expected(
        self, examples: Mapping[str, Any], use: CaptioningUse
    ) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        count = use.num_return_sequences or use.beams
        return expected_outputs(self, examples["image"], use, count)

    def served_numbers(self, use: CaptioningUse) -> dict[str, tuple[Any, Any]]:
        """Returns the exponent of the length penalty."""
        return own_numbers(use, {"alpha": 0.0 if use.alpha else 1.0})

    def serve(self, tf: Any, use: CaptioningUse) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel.

        The signature `serving_default` takes `image: string (B,)`, each the bytes of a JPEG, PNG,
        GIF, BMP or WebP file, and gives `caption: string (B,)`, as `caption` does. The signature
        `details` takes the same and gives what `caption_n_best` gives, padded with `""` and zeros:

        - `captions`, `scores`, `truncated` `(B, R)`, the best first;
        - `tokens` `(B, R, T)`, `attention` `(B, R, T, rows, columns)`.

        The signature `with_settings` takes `alpha: float32 (B,)` too, and gives `caption`.

        One picture that cannot be decoded, or has more than `max_pixels` pixels, fails its whole
        batch: a graph cannot catch errors. The graph does not turn a picture as its EXIF data say.
        Its resizing may differ from that of `caption` by 1 of 255 if a picture has another size,
        and its decoding of JPEG by a little more.
        """
        count = use.num_return_sequences or use.beams
        return graph_functions(self, tf, use, count)


def _left_out(found: CaptionedPictures, problems: Sequence[ImageProblem]) -> str:
    total = len(found.pictures) + len(problems)
    return (
        f"{len(problems):,} of {total:,} pictures are left out: "
        f"{describe_image_problems(problems)}."
    )
