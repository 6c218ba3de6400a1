"""Captioning: describes an image in a sentence."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import Array
from keras_attn.batches import CaptionBatches
from keras_attn.batches.picture_sources import Pictures
from keras_attn.corpora.caption_file import WITH_SIDES, CaptionFile
from keras_attn.explain.word_maps import Caption
from keras_attn.fields import (
    AttentionWeights,
    GeneratedText,
    Numbers,
    ReadableTokens,
    Signature,
    Together,
    checked_texts,
)
from keras_attn.fields.signature import OutputField
from keras_attn.files import check_output, check_writable, open_output, path_text
from keras_attn.hints import Tensor
from keras_attn.images import CaptionedImage, CaptionedImages, ImageProblem, load_image
from keras_attn.images.caption_splits import refuse_shared, split_captioned
from keras_attn.images.captioned_images import Captioned, CaptionedPictures, checked_captioned
from keras_attn.images.image_problems import describe_image_problems
from keras_attn.images.loading import as_problem
from keras_attn.images.pictures import Picture, as_pictures, check_picture, read_pictures
from keras_attn.inputs import listed
from keras_attn.metrics import CaptionScores, Perplexity, caption_scores
from keras_attn.metrics.caption_tokens import metrics_folder
from keras_attn.metrics.captions import check_references
from keras_attn.models import (
    CAPTIONERS,
    CaptionDecoder,
    ImageEncoder,
    image_captioner,
)
from keras_attn.records.problems import many
from keras_attn.records.reading import Location
from keras_attn.settings import Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.backbones import SavedStart
from keras_attn.tasks.base.checks import check_formats
from keras_attn.tasks.base.steps import Note, step
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.base.task_run import Scored
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import READ, ImageFiles, LimitedFiles, Pieces
from keras_attn.tasks.families.decoding_batches import DecodingBatch
from keras_attn.tasks.families.picture_sources import (
    batch_settings,
    picture_source,
    whole_pictures,
)
from keras_attn.tasks.families.picture_task import (
    PictureLearned,
    PictureTask,
    padded_rows,
    row_batches,
)
from keras_attn.tasks.families.sequence_to_sequence import SequenceToSequence
from keras_attn.tasks.families.training_settings import BatchTraining, LabelSmoothing, RegionCache
from keras_attn.tasks.families.use_settings import BeamSearchUse, ImageUse
from keras_attn.text.readable import readable_tokens
from keras_attn.text.registry import PIECES, PieceTokenizer
from keras_attn.training import MaskedCrossEntropy, without_autotuning
from keras_attn.visualize import AttentionView, attention_viewer

FORMATS = ("auto", "karpathy", "coco", "flickr8k", "csv", "ucm", "emoji")
SCORES = ("cider", "bleu_4", "perplexity")
_FIGURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg")
_OF_FORMATS = {
    ("train_names", "dev_names"): ("flickr8k",),
    ("image", "caption", "delimiter"): ("csv",),
    ("emoji_style",): ("emoji",),
    ("train_split", "dev_split"): WITH_SIDES,
    ("image_dir", "dev_image_dir"): ("karpathy", "coco", "flickr8k", "csv"),
}
_DIFFERENT = 2  # images that CIDEr weighs words by


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of captions, or folder of UCM-Captions; emoji if empty",
        "on_error": "what to do with images that are missing or broken",
        "dev_share": "share of the pictures that is held out, if nothing says which",
    },
    words={"examples": "pictures"},
    steps={"train": ("fit",)},
    choices={"format": FORMATS},
    required={"train": False},
)
class CaptioningData(SavedStart, Pieces, ImageFiles, LimitedFiles):
    """Settings of the captioned images, their split, and the tokens of captions."""

    train_split: str = setting(
        "train", "karpathy, ucm, emoji: split to train on, or several splits separated by commas"
    )
    dev_split: str = setting(
        "val",
        "karpathy, ucm, emoji: split that determines the best weights, or several splits "
        "separated by commas",
    )
    train_names: str = setting(
        "",
        "flickr8k: file with the names of the training images",
        shapes_result=False,
        path="examples",
    )
    dev_names: str = setting(
        "", "flickr8k: file with the names of the images that choose the best weights",
        shapes_result=False, path="examples",
    )  # fmt: skip
    caption: str = setting("caption", "csv: column of the captions", steps=READ)
    emoji_style: str = setting(
        "twitter",
        "emoji: style of the pictures, named after their publisher",
        choices=("twitter", "google"),
        steps=READ,
    )
    lowercase: bool = setting(True, "learn the captions in lower case")
    vocabulary_size: int = setting(2000, "largest number of tokens", at_least=259)
    max_length: int = setting(
        40, "largest number of tokens of a caption; longer captions are left out", at_least=2
    )


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(30), batch_size=64, words={"rows": "captions", "classes": "vocabulary"}
)
class CaptioningTraining(RegionCache, LabelSmoothing, BatchTraining):
    """Settings for training a captioner."""

    score: str = setting(
        "cider", "score that determines the best weights; cider and bleu_4 need pycocoevalcap",
        choices=SCORES,
    )  # fmt: skip
    score_beams: int = setting(3, "width of the beam search for the development images", at_least=1)
    score_pictures: int = setting(
        500, "maximum number of development images that are captioned for the score", at_least=1
    )


@dataclass(frozen=True)
@with_defaults(batch_size=32, words={"rows": "pictures"})
class CaptioningUse(BeamSearchUse, ImageUse):
    """Settings of the search for captions."""

    cache_dir: str = setting(
        "",
        "folder in which the regions of the encoder are kept; if empty, they are not kept",
        steps=("evaluate",),
    )


@dataclass(frozen=True)
class CaptioningTest(Settings):
    """Settings for evaluating a captioner."""

    data: str = setting(
        "", "like --train of `fit`; required, except for --format emoji", path="examples"
    )
    split: str | None = setting(
        None,
        "karpathy, ucm, emoji: split, or several splits separated by commas; test if none",
        kind=str,
    )
    names: str = setting("", "flickr8k: file with the names of the images", path="examples")
    train: str | None = setting(
        None, "training captions, like --train of `fit`, to count copied captions",
        kind=str, path="examples",
    )  # fmt: skip
    train_split: str = setting(
        "train", "karpathy, ucm, emoji: split of --train, or several splits separated by commas"
    )
    train_names: str = setting(
        "", "flickr8k: file with the names of the images of --train", path="examples"
    )
    tokenization: str = setting(
        "auto", "tokenizer of the metrics: ptb, which needs Java; plain; or auto, which is ptb "
            "if Java is installed",
        choices=("auto", "ptb", "plain"),
    )  # fmt: skip
    meteor: bool = setting(False, "also compute METEOR, which needs Java")

    def check(self, data: Settings | None = None) -> None:
        """Raises a `WrongUse` if `self.data` is empty and `data.format` is not `"emoji"`."""
        if not self.data and getattr(data, "format", "") != "emoji":
            raise WrongUse("Missing option '--data'. For emoji, use --format emoji.")


@dataclass(frozen=True)
class CaptionedFiles(Settings):
    """Settings of `predict` for broken images."""

    on_error: str = setting(
        "skip",
        "what to do with a broken image: skip reports it, continues, and ends with exit code "
        "1; error stops",
        choices=("skip", "error"),
    )


@dataclass(frozen=True)
class CaptionFigures(CaptionedFiles):
    """Settings of the figures that `explain` writes."""

    limit: int = setting(50, "maximum number of images", at_least=1)
    title: str = setting("Where it looked", "title of the page")


def check_figures(to: Path, inputs: Sequence[Path]) -> None:
    """Raises an error if figures of the images `inputs` cannot be written to the path `to`."""
    suffix = to.suffix.lower()
    if suffix and not (is_page(to) or suffix in _FIGURES or to.is_dir()):
        raise WrongUse(
            "--to is a page (*.html), a figure (*.png, *.pdf, *.svg) or a folder, which must "
            f"exist if its name has a dot. Received: {to}."
        )
    if is_page(to) or suffix in _FIGURES:
        check_output(to)
    else:
        check_writable(to)
    if is_figure(to) and len(inputs) > 1:
        raise WrongUse(f"{to} is a file for one picture. Give a folder, or a page (*.html).")


def is_page(to: Path) -> bool:
    """Whether a path is the path of an HTML page."""
    return to.suffix.lower() in (".html", ".htm")


def is_figure(to: Path) -> bool:
    """Whether a path is the path of a single figure, and not of a page or an existing folder."""
    return bool(to.suffix) and not is_page(to) and not to.is_dir()


@dataclass(frozen=True)
class CaptioningLearned(PictureLearned):
    """Learned values of a captioner: its tokenizer and its image encoder."""

    tokenizers: ClassVar = tuple(PIECES.values())


class Captioner(PictureTask, SequenceToSequence):
    """An image captioner with its encoder and tokenizer.

    `.model` is the plain Keras model that is trained, and `.dataset(images)` returns the data for
    its `fit`. If the encoder is not trained, `.model` reads regions, which are computed once;
    otherwise, it reads images. The examples of `fit` are `CaptionedImage`s, or (image, captions)
    pairs with a caption or a list of captions.

    Args:
        tokenizer: A `BytePairTokenizer` or a `SentencePieceTokenizer`, trained on captions.
        encoder: An `ImageEncoder`.
        train_encoder: Whether the trainable weights of the encoder are trained with the decoder.
        model: Settings of the decoder: a `SoftAttentionCaptionerConfig`, a
            `TransformerCaptionerConfig`, or a dict of some settings with the name of the model,
            `{"model": "transformer", ...}` (`"soft-attention"` by default). The tokenizer and the
            encoder determine the sizes.
        data: Settings of the data: a `CaptioningData`, or a dict of some of its settings, such as
            `max_length`, the maximum number of tokens of a caption, including the end token.
        dtype: Dtype or policy of the decoder's layers, such as `"mixed_bfloat16"`.

    Raises:
        TypeError: If the class of the tokenizer or the encoder is not supported, or a setting of
            the data is unknown.
        ValueError: If a setting of the model is unknown, or a setting is out of range or does not
            match the encoder.

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
    about = "Caption pictures: emoji by their names, or any captioned pictures of your own."
    kinds = CAPTIONERS
    main_layer = "decoder"
    Data, Learned, Training = CaptioningData, CaptioningLearned, CaptioningTraining
    Use, Test = CaptioningUse, CaptioningTest
    data: CaptioningData
    limits = ("max_pixels",)
    examples_are = "pictures"
    continues = True
    input_columns: ClassVar = {"image": ""}
    predicts: ClassVar = {"caption": str}
    reads = "pictures"
    steps = ("fit", "evaluate", "predict", "explain", "quantize", "export")
    page: Any = staticmethod(attention_viewer)
    gives = "caption"
    join = staticmethod(image_captioner)
    source = "regions"
    source_form: ClassVar = {"dtype": "float32", "rank": 3}

    def facts(self) -> list[str]:
        """Returns texts for the `repr`: the model, the encoder, and the vocabulary size."""
        return [*super().facts(), f"{self.tokenizer.vocabulary_size:,} tokens"]

    # Data and training

    @classmethod
    def read_file(cls, path: Location, data: CaptioningData) -> CaptionedImages:
        """Reads the captioned images of all parts of a file or folder.

        Args:
            path: The file or folder, or a table in memory as `keras_attn.records.Rows`. If it is
                empty, emoji are read with `format` `"auto"` or `"emoji"`.
            data: Settings of class `Data`. `format` is the format of the captions, which are
                converted to lower case if `lowercase` is True.

        Returns:
            `CaptionedImages`.
        """
        read = _file(path, data, data.image_dir).read()
        return replace(read, images=_lowered(read)) if data.lowercase else read

    @classmethod
    def split(
        cls, examples: Sequence[CaptionedImage] | CaptionedPictures, data: CaptioningData
    ) -> Any:
        """Splits images at random into a list of training images and a list of development images;
        images with the same bytes stay together. Raises a ValueError if there are fewer than two
        different images."""
        pairs: Sequence[Any] = examples
        if isinstance(examples, CaptionedPictures):
            pairs = list(zip(examples.pictures, examples.captions, strict=True))
        return split_captioned(pairs, data.dev_share, data.split_seed)

    @classmethod
    def read(cls, data: CaptioningData) -> Examples:
        """Reads captioned images from Karpathy's JSON (Flickr8k, Flickr30k, COCO, RSICD), COCO's
        own JSON, Flickr8k's text files, a table (CSV, TSV, JSON lines or Parquet), or the folder of
        UCM-Captions. Without a file, it reads emoji and their names (67 MB, downloaded once by
        pip). Some of the images are held out to determine the best weights. No test set is read.
        """
        train = _file(data.train, data, data.image_dir, data.train_names)
        dev_dir = data.dev_image_dir or data.image_dir
        dev = _file(data.dev or data.train, data, dev_dir, data.dev_names)
        check_formats(data, _OF_FORMATS, {train.kind, dev.kind}, "captions")
        side = data.train_split if train.sides else ""
        chosen: CaptionedImages | None = None
        if data.dev:
            chosen = dev.read(data.dev_split if dev.sides else "")
        elif data.dev_names:
            chosen = dev.read()
        elif data.dev_image_dir:
            raise ValueError(
                "`dev_image_dir` requires `dev` or `dev_names`. Received: only `dev_image_dir`."
            )
        elif side and {part.strip() for part in data.dev_split.split(",")} <= set(train.sides):
            chosen = train.read(data.dev_split)
        elif side and data.dev_split != CaptioningData.dev_split:
            raise ValueError(
                "Expected `dev_split` to name splits of the file: "
                f"{', '.join(map(repr, train.sides))}. Received: {data.dev_split!r}."
            )
        read = train.read(side)
        images, summary = list(read), read.summary()
        if data.limit is not None and data.limit < len(images):
            images = random.Random(data.split_seed).sample(images, data.limit)
        if chosen is None:
            sides = cls.split(images, data)
        else:
            refuse_shared(images, chosen)
            sides, summary = (images, list(chosen)), f"{summary}\n{chosen.summary()}"
        learning, held_out = map(_lowered, sides) if data.lowercase else sides
        return Examples(learning, held_out, summary)

    def read_test(self, test: CaptioningTest, data: CaptioningData) -> CaptionedImages:
        """Reads captioned test images, and the training captions, to count copied captions.

        Args:
            test: Settings of class `Test`; without `train`, training captions are not read.
            data: Settings of class `Data`.

        Returns:
            `CaptionedImages`, whose `learnt` has the training captions, or is None if `train` is
            None.

        Raises:
            ValueError: If `split` is given for captions without splits, `names` is given for a
                format other than `"flickr8k"`, or a file has the wrong format.
            WrongUse: If no test images are named, and the format is not `"emoji"`.
        """
        test.check(data)
        file = _file(test.data, data, data.image_dir, test.names)
        check_formats(data, _OF_FORMATS, {file.kind}, "captions")
        if test.split is not None and not file.sides:
            raise ValueError(
                f"`split` requires captions with splits. Received: {file.path}, which has no "
                "splits."
            )
        if test.names and file.kind != "flickr8k":
            raise ValueError(
                f"`names` are only used with the format 'flickr8k'. Received: {file.path} "
                f"with the format {file.kind!r}."
            )
        learnt = None
        if test.train is not None:
            of_train = _file(test.train, data)
            if of_train.kind == "flickr8k":
                of_train = dataclasses.replace(of_train, names=test.train_names)
            side = test.train_split if of_train.sides else ""
            learnt = of_train.read(side, check_files=False).captions
        images = file.read(("test" if test.split is None else test.split) if file.sides else "")
        if data.on_error == "skip":
            images = images.check_images("skip")
        return dataclasses.replace(images, learnt=learnt)

    @classmethod
    def learn_beside(
        cls,
        examples: CaptionedPictures,
        data: CaptioningData,
        encoder: ImageEncoder,
        train_encoder: bool,
    ) -> CaptioningLearned:
        """Trains a tokenizer on captions, and returns it with the encoder as `CaptioningLearned`.

        Args:
            examples: Checked captioned images.
            data: Settings of class `Data`.
            encoder: The image encoder.
            train_encoder: Whether the encoder is trained.
        """
        captions = [text for texts in examples.captions for text in texts]
        kind = PIECES[data.tokenizer]
        tokenizer = kind.train(captions, data.vocabulary_size, allow_fewer=True)
        return CaptioningLearned(tokenizer, encoder, train_encoder)

    def prepared(
        self,
        examples: Iterable[Captioned],
        cache_dir: str | os.PathLike[str] | None,
        verbose: Any,
        on_error: str,
        **settings: Any,
    ) -> tuple[CaptionBatches, CaptionedPictures, list[str]]:
        """Makes the batches that `dataset` returns. In each epoch, every caption of at most
        `max_length` tokens occurs once, with its image.

        Args:
            examples: `CaptionedImage`s, or (image, captions) pairs.
            cache_dir: Folder of the `FeatureCache`; None for the default folder.
            verbose: If 0, the progress of the computation of regions is not shown.
            on_error: `"error"` raises an error for a broken image; `"skip"` leaves it out.
            **settings: Settings of `CaptionBatches`, such as `batch_size` and `seed`.

        Returns:
            The batches, the images that are not broken with their captions, and notes on images and
            captions that are left out.

        Raises:
            OSError: If a file does not exist or cannot be read, and `on_error` is `"error"`.
            ValueError: If an example has the wrong form, no image is intact, or an image is broken
                and `on_error` is `"error"`.
        """
        given = checked_captioned(examples)
        numbers, problems = whole_pictures(self, given.pictures, on_error, cache_dir, verbose)
        whole = CaptionedPictures(
            [given.pictures[n] for n in numbers], [given.captions[n] for n in numbers]
        )
        texts = [caption for captions in whole.captions for caption in captions]
        batches = CaptionBatches(
            picture_source(self, whole.pictures, cache_dir, verbose),
            [n for n, captions in enumerate(whole.captions) for _ in captions],
            self.tokenizer.encode(texts),
            start_id=self.tokenizer.start_id,
            end_id=self.tokenizer.end_id,
            **{**batch_settings(self), **settings},
        )
        notes = []
        if problems:
            notes.append(
                f"{len(problems):,} of {len(given.pictures):,} pictures are left out: "
                f"{describe_image_problems(problems)}."
            )
        if batches.dropped:
            notes.append(
                f"{batches.dropped} of {len(texts)} captions have more tokens than `max_length` "
                f"and are left out. Received: max_length={self.max_length}."
            )
        return batches, whole, notes

    def objective(self, training: CaptioningTraining) -> dict[str, Any]:
        """Returns a dict of `loss` and `weighted_metrics`: cross-entropy and perplexity of tokens.

        Padding does not count. The doubly stochastic loss of soft attention is added to the loss,
        but not to the perplexity.
        """
        return {
            "loss": MaskedCrossEntropy(training.label_smoothing),
            "weighted_metrics": [Perplexity()],
        }

    def scored_by(self, training: CaptioningTraining) -> tuple[str, int]:
        """Returns `training.score`, and 1 if higher is better (CIDEr, BLEU-4) or -1 if lower is
        better (perplexity)."""
        return training.score, -1 if training.score == "perplexity" else 1

    def scorer(
        self, dev: Iterable[Captioned], training: CaptioningTraining
    ) -> Callable[[keras.Model], Scored]:
        """Returns a function that scores at most `training.score_pictures` development images.

        The scores are the perplexity and, unless it determines the best weights, CIDEr and BLEU-4
        of generated captions. CIDEr and BLEU-4 are multiplied by 100, and computed without Java. If
        two epochs have the same score, the lower perplexity is better.

        Args:
            dev: Development examples, as for `fit`.
            training: Settings of class `Training`, with the `score` that determines the best
                weights.

        Returns:
            A function from the model to a `Scored`.

        Raises:
            ImportError: If the score is not the perplexity, and `pycocoevalcap` is not installed.
            ValueError: If the score is CIDEr, and there are fewer than two images.
        """
        if training.score != "perplexity":
            metrics_folder()
        some = listed(dev, "(image, captions) pairs", 2)
        if len(some) > training.score_pictures:
            places = random.Random(training.seed).sample(range(len(some)), training.score_pictures)
            some = [some[i] for i in sorted(places)]
        if training.score == "cider" and len(some) < _DIFFERENT:
            raise ValueError(
                "CIDEr weights words by their document frequency, so it needs at least two "
                f"development images. Received: {len(some)}. Use score='bleu_4' or 'perplexity'."
            )
        batches, whole = self.training_batches(some, training, shuffle=False)
        if training.score != "perplexity":
            check_references(dict(zip(whole.names(), whole.captions, strict=True)))

        def score(model: keras.Model) -> Scored:
            figures = model.evaluate(without_autotuning(batches), verbose=0, return_dict=True)
            perplexity = float(figures["perplexity"])
            if training.score == "perplexity":
                return Scored((-perplexity,), {"val_perplexity": perplexity})
            captions = self.caption_source(batches.pictures, beams=training.score_beams)
            scores = caption_scores(captions, whole.captions, tokenization="plain")
            figures = {
                "val_perplexity": perplexity,
                "val_cider": round(scores.cider, 4),
                "val_bleu_4": round(scores.bleu_4, 4),
            }
            return Scored((figures[f"val_{training.score}"], -perplexity), figures)

        return score

    def counted(self, batches: CaptionBatches) -> str:
        """Returns the numbers of captions, tokens and regions as a text for the log."""
        rows, columns = self.encoder.grid
        tokens = f"{self.tokenizer.vocabulary_size:,} tokens"
        return f", {batches.num_examples:,} captions, {tokens}, {rows} x {columns} regions"

    @classmethod
    def named(cls, examples: CaptionedPictures) -> Iterable[tuple[Picture, Sequence[str]]]:
        """Yields each image with its captions, for the `digest` of a run."""
        return zip(examples.pictures, examples.captions, strict=True)

    # The search

    @property
    def target_tokenizer(self) -> PieceTokenizer:
        """The tokenizer of captions."""
        return self.tokenizer

    @property
    def generator(self) -> keras.Model:
        """The model from regions and tokens to logits."""
        return self.reader

    @property
    def decoding(self) -> CaptionDecoder:
        """The `CaptionDecoder`, which encodes regions and decodes captions with `.reader`."""
        return self.kept(lambda: CaptionDecoder(self.reader), "decoding")

    def longest(self, length: Any) -> int:
        """Returns `max_length`, the maximum number of tokens of a caption, for any number of
        regions."""
        return self.max_length

    def encode(self, sources: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the states `(B, R, D)` that the decoder attends to, for the regions of B images,
        and their mask `(B, R)`."""
        shape = (-1, self.encoder.num_regions, self.encoder.region_dim)
        return self.decoding.encode(ops.reshape(sources, shape))

    def source_rows(self, inputs: list[Any], use: CaptioningUse) -> Sequence[np.ndarray]:
        """Returns the regions of each image: a list of arrays `(R, D)` of R regions of width D."""
        return list(self.regions(inputs, use.batch_size))

    def source_batches(
        self, sources: Sequence[np.ndarray], batch_size: int, jit_compile: bool | None
    ) -> Iterator[DecodingBatch]:
        """Yields `DecodingBatch`es of the regions `(R, D)` of at most `batch_size` images.
        `jit_compile` is not used."""
        start = 0
        for rows in row_batches(list(sources), batch_size):
            numbers = list(range(start, start + len(rows)))
            yield DecodingBatch(numbers, padded_rows(rows, batch_size), False)
            start += len(rows)

    def computed(
        self, tensors: Mapping[str, Any], use: Any, jit_compile: bool | None = None
    ) -> dict[str, Any]:
        """Computes the result of `run` in Python, in batches of images.

        Args:
            tensors: A dict of `regions (n, R, D)`, or of encoded images, whose regions are computed
                first.
            use: Settings of class `Use`.
            jit_compile: Not used; on TensorFlow, captions are always generated without XLA.

        Returns:
            A dict from the name of a result, such as `best`, `tokens` and `scores`, to a list with
            an array for each image; see `SequenceToSequence.run`.
        """
        rows = self.rows_of(np, tensors, lambda pixels: self._regions(pixels, use.batch_size))
        return super().computed({"regions": list(rows)}, use, jit_compile)

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Array], use: Any
    ) -> dict[str, Any]:
        """Computes the result of `run` with TensorFlow ops.

        Args:
            tf: The module TensorFlow.
            tensors: A dict of symbolic tensors: `regions (B, R, D)`, or encoded images, whose
                regions are computed first.
            use: Settings of class `Use`.

        Returns:
            A dict of symbolic tensors, such as `best` and `tokens`; see `SequenceToSequence.run`.
        """
        return self.run(
            ops, {**tensors, "regions": self.rows_of(ops, tensors, self.regions_of)}, use
        )

    def signatures(self, use: CaptioningUse) -> dict[str, Signature]:
        """Returns the inputs and outputs of the SavedModel, keyed by signature.

        The input of `serving_default` is `image: string (B,)`, the bytes of JPEG, PNG, GIF, BMP or
        WebP files, and its output is `caption: string (B,)`, as in `predict`. The signature
        `details` has the same input and returns the results of `caption_n_best`: R captions of at
        most T tokens for each image, padded with `""` and zeros. R is `num_return_sequences`, or
        `beams` if it is None. The outputs are:

        - `captions`, `scores` and `truncated` `(B, R)`, the best caption first;
        - `tokens` `(B, R, T)` and `attention` `(B, R, T, rows, columns)` of each caption.

        The signature `with_settings` also has the input `alpha: float32 (B,)`, and returns
        `caption`.

        If one image cannot be decoded, or has more than `max_pixels` pixels, its whole batch fails,
        because a graph cannot catch errors. The graph ignores the orientation in EXIF data. Pixels
        of resized images may differ from the pixels that `predict` computes by 1 of 255, and pixels
        of JPEG files by slightly more.
        """
        image = Together({"image": self.picture_input(use.max_pixels)})
        tokenizer, graph = self.tokenizer, functools.cache(self.tokenizer.to_graph)
        details: dict[str, OutputField] = {
            "captions": GeneratedText(tokenizer, graph=graph),
            "scores": Numbers("scores"),
            "truncated": Numbers("truncated"),
            "tokens": ReadableTokens(tokenizer, graph=graph),
            "attention": AttentionWeights("weights", self.encoder.grid),
        }
        best = GeneratedText(tokenizer, "best", graph=graph)
        one = dataclasses.replace(use, num_return_sequences=None)
        count = use.num_return_sequences or use.beams
        several = dataclasses.replace(use, num_return_sequences=count)
        return {
            "serving_default": Signature(("image",), image, {"caption": best}, one),
            "details": Signature(("image",), image, details, several),
        }

    def export_examples(self) -> dict[str, Any]:
        """Returns a dict of the input `image`: image files of several kinds and sizes for checking
        an export."""
        return {"image": self.picture_input().examples}

    # Use

    @staticmethod
    def is_one(inputs: Any) -> bool:
        """Returns whether the argument is a single image: a path, bytes, or an array of fewer than
        four axes."""
        array = isinstance(inputs, np.ndarray) and inputs.ndim < 4
        return array or isinstance(inputs, str | os.PathLike | bytes)

    def asked(self, inputs: Any) -> list[Any]:
        """Checks images, and returns them as a list."""
        return as_pictures(inputs)[0]

    def results(
        self,
        images: list[Any],
        use: CaptioningUse,
        *,
        return_attention: bool = False,
        on_error: str = "error",
    ) -> list[Any]:
        """Captions images.

        Args:
            images: An image: a path, the bytes of a file, or an array `(H, W, 3)` of uint8. Or
                several images: a list of images, or an array `(n, H, W, 3)`.
            use: Settings of class `Use`.
            return_attention: Whether to return `Caption`s, which have the attention weights.
            on_error: `"error"` raises an error if an image cannot be read. `"skip"` returns None
                instead of a caption, with a warning that names the image.

        Returns:
            A string for one image, or a list of strings for several images, in the same order. With
            `return_attention=True`, `Caption`s instead of strings.

        Raises:
            OSError: If a file does not exist or cannot be read.
            TypeError: If an input is not an image, or a setting is unknown or has the wrong type.
            ValueError: If an image is broken, or a setting is out of range.
        """
        use = dataclasses.replace(use, num_return_sequences=1 if return_attention else None)
        results = self._captions_of(images, use, on_error, stacklevel=6)  # who called `predict`
        return [x and x[0] for x in results] if return_attention else results

    def explained(self, images: list[Picture], use: CaptioningUse) -> list[AttentionView]:
        """Captions images, and returns a view of the decoder's attention for each image and its
        caption.

        Args:
            images: An image or several images, as in `predict`.
            use: Settings of class `Use`.

        Returns:
            An `AttentionView` for one image, or a list of `AttentionView`s for several images.
            `page` creates an HTML page from a list.

        Raises:
            OSError: If a file does not exist or cannot be read.
            TypeError: If an input is not an image, or a setting is unknown.
            ValueError: If an image is broken, or a setting is out of range.
        """
        uses = self.of_each(use, len(images))
        return [self.view(image, None, own) for image, own in zip(images, uses, strict=True)]

    caption: ClassVar[Callable[..., Any]]
    """Captions images: another name of `predict`."""

    def caption_n_best(
        self,
        images: Any,
        num_return_sequences: int | None = None,
        *,
        on_error: str = "error",
        **settings: Any,
    ) -> Any:
        """Finds several captions of each image, with scores and attention weights.

        Args:
            images: An image or several images, as in `predict`.
            num_return_sequences: Maximum number of captions of each image, at most `beams`; `beams`
                if None.
            on_error: `"error"` raises an error if an image cannot be read; `"skip"` returns None
                for the image, with a warning.
            **settings: Settings of class `Use`, such as `beams`, `alpha` and `batch_size`.

        Returns:
            A list of `Caption`s for one image, the best first, or a list of lists for several
            images.

        Raises:
            OSError: If a file does not exist or cannot be read.
            TypeError: If an input is not an image, or a setting is unknown.
            ValueError: If an image is broken, or a setting is out of range.
        """
        use = self.used({**settings, "num_return_sequences": num_return_sequences})
        use = dataclasses.replace(use, num_return_sequences=num_return_sequences or use.beams)
        results = self._captions_of(self.asked(images), use, on_error, stacklevel=4)
        return results[0] if self.is_one(images) else results

    def _captions_of(
        self, pictures: list[Picture], use: CaptioningUse, on_error: str, stacklevel: int
    ) -> list[Any]:
        """What `_captions` returns for images; None for broken ones, with a warning."""
        self.of_each(use, len(pictures))
        problems: list[ImageProblem] = []
        results: list[Any] = [None] * len(pictures)
        for numbers, regions in self._read_regions(pictures, use.batch_size, on_error, problems):
            some = self._captions(regions, use.of_inputs(numbers))
            for number, captions in zip(numbers, some, strict=True):
                results[number] = captions
        self._warn(problems, len(pictures), stacklevel)
        return results

    def _captions(self, regions: np.ndarray, use: CaptioningUse) -> list[Any]:
        """The best caption of regions as a string; with `num_return_sequences`, `Caption`s."""
        rows = self.computed({"regions": regions}, use)
        best = use.num_return_sequences is None
        texts = GeneratedText(self.tokenizer, "best" if best else "tokens").decode(rows)
        if best:
            return texts
        names = "tokens", "lengths", "scores", "truncated", "weights"
        return [
            [
                Caption(
                    text,
                    float(score),
                    bool(cut),
                    readable_tokens(self.tokenizer, tokens[:length].tolist()),
                    weights[:length].reshape(int(length), *self.encoder.grid),
                )
                for text, tokens, length, score, cut, weights in zip(*row, strict=True)
                if length  # else there is no such caption
            ]
            for row in zip(texts, *(rows[name] for name in names), strict=True)
        ]

    def caption_source(self, source: Pictures, **settings: Any) -> list[str]:
        """Captions the inputs of `model`: regions, or images if the encoder is trained.

        Args:
            source: The inputs: an object with a length and a method `read(indices)`, such as
                `pictures` of the batches of `dataset`.
            **settings: Settings of class `Use`.

        Returns:
            A list with a caption, a string, for each image.
        """
        use = self.used(settings)
        captions: list[str] = []
        for start in range(0, len(source), use.batch_size):
            rows = source.read(np.arange(start, min(start + use.batch_size, len(source))))
            regions = self._regions(rows, use.batch_size) if self.train_encoder else rows
            captions += self._captions(regions, use.of_inputs(range(start, start + len(rows))))
        return captions

    @classmethod
    def checked(cls, examples: Iterable[Captioned]) -> CaptionedPictures:
        """Checks captioned images, and returns them as `CaptionedPictures`."""
        return checked_captioned(examples)

    def measured(self, examples: CaptionedPictures, use: CaptioningUse) -> list[str]:
        """Returns a caption for each image. The regions of the images are kept in the folder
        `use.cache_dir`, unless it is empty. Raises an ImportError if `pycocoevalcap` is not
        installed."""
        metrics_folder()  # before the work
        settings = {**use.to_dict(), "cache_dir": ""}
        if not use.cache_dir:
            return self.results(examples.pictures, self.Use(**settings))
        source = picture_source(self, examples.pictures, use.cache_dir, 0)
        return self.caption_source(source, **settings)

    def report(
        self,
        examples: CaptionedPictures,
        results: list[str],
        *,
        tokenization: str,
        meteor: bool,
        train_captions: Iterable[str] | None = None,
    ) -> CaptionScores:
        """Compares generated captions with the captions of images.

        Args:
            examples: `CaptionedImage`s, (image, captions) pairs, or the result of `read_test`,
                which may include training captions.
            results: The result of `measured`: a caption for each image.
            tokenization: Tokenizer of the metrics: ptb, which needs Java; plain; or auto, which is
                ptb if Java is installed.
            meteor: Also compute METEOR, which needs Java.
            train_captions: Captions of the training set, to count copied captions.

        Returns:
            `keras_attn.metrics.CaptionScores`, which `print` shows: BLEU-1 to 4, ROUGE-L, CIDEr
            (NaN for one image), METEOR with `meteor=True` and, if there are training captions, the
            share of captions that are copied from them.

        Raises:
            ImportError: If `pycocoevalcap` is not installed.
            OSError: If an image does not exist or cannot be read.
            TypeError: If an image has the wrong type, or a setting is unknown.
            ValueError: If there is no example, an example is not a captioned image, an image is
                broken, or a setting is out of range.
        """
        names = examples.names()
        return caption_scores(
            dict(zip(names, results, strict=True)),
            dict(zip(names, examples.captions, strict=True)),
            examples.learnt if train_captions is None else train_captions,
            tokenization,
            meteor,
        )

    @step(
        "predict",
        takes=("use",),
        settings=CaptionedFiles,
        reads="pictures",
        writes="lines",
        to="file of JSON lines; standard output if none",
        device=True,
    )
    def _caption_files(
        self, inputs: Sequence[Path], use: CaptioningUse, predict: CaptionedFiles
    ) -> Iterator[str | Note]:
        """Caption PICTURES, files or folders of them: writes a line of JSON for each.

        It has the picture's path, the caption and its score. Of folders, and the folders within,
        all files are read whose names end as those of pictures do.
        """
        self.of_each(use, len(inputs))
        size, broken = self.encoder.image_size, 0
        for numbers, pixels, problems in read_pictures(
            inputs, size, use.batch_size, predict.on_error
        ):
            for number, best in zip(
                numbers,
                self.results(list(pixels), use.of_inputs(numbers), return_attention=True),
                strict=True,
            ):
                place = path_text(inputs[number])
                line = {"image": place, "caption": best.text, "score": best.score}
                yield json.dumps(line, ensure_ascii=False)
            yield from map(_broken, problems)
            broken += len(problems)
        if broken:
            yield Note(f"Without a caption: {many(broken, 'picture')}.", failed=True)

    @step(
        "explain",
        takes=("use",),
        settings=CaptionFigures,
        reads="pictures",
        writes="figures",
        device=True,
        check=check_figures,
    )
    def _show_files(
        self, inputs: Sequence[Path], to: Path, use: CaptioningUse, explain: CaptionFigures
    ) -> Iterator[str | Note]:
        """Show where the model looks in PICTURES, files or folders of them, for each word.

        A page has all layers and heads, to look around in, and needs no network. A figure has the
        picture, and beside it the picture for each word; several pictures give a folder of figures.
        """
        if len(inputs) > explain.limit:
            yield Note(f"Shown: {explain.limit:,} of {len(inputs):,} pictures. See --limit.")
        uses = self.of_each(use, len(inputs))
        views, drawn, broken = [], 0, 0
        for number, path in enumerate(inputs[: explain.limit]):
            try:
                pixels = load_image(path)
            except (OSError, ValueError) as error:
                if explain.on_error == "error":
                    raise
                yield _broken(as_problem(os.fspath(path), error))
                broken += 1
                continue
            name = path_text(path.name)
            if is_page(to):
                view = self.view(pixels, None, uses[number])
                views.append(dataclasses.replace(view, title=f"{name}: {view.title}"))
                continue
            place = to if is_figure(to) else to / f"{number + 1:06d}-{path.stem}.png"
            (caption,) = self.results([pixels], uses[number], return_attention=True)
            caption.plot(pixels, place, f"{name}: {caption.text}")
            drawn += 1
        if views:
            with open_output(to) as file:
                file.write(attention_viewer(views, explain.title))
        if views or drawn:
            yield str(to)
        if broken:
            yield Note(f"Not shown: {many(broken, 'picture')}.", failed=True)

    def view(self, image: Any, caption: str | None, use: CaptioningUse) -> AttentionView:
        """Returns an `AttentionView` of the decoder for an image; see `caption_view`.

        Args:
            image: A path, the bytes of a file, or an array `(H, W, 3)` of uint8.
            caption: The caption that the decoder reads and predicts; if None, it is generated.
            use: Settings of class `Use` for generating the caption.
        """
        check_picture(image, 0)
        (regions,) = self.regions(image, batch_size=1)
        if caption is None:
            (ids,) = self.computed({"regions": regions[None]}, use)["best"]
            target = ids.tolist()
        else:
            target = self.tokenizer.encode(*checked_texts([caption]), add_end=True)
        return AttentionView.from_maps(
            self.read_along(regions, target),
            None,
            readable_tokens(self.tokenizer, target),
            input_tokens=self.tokenizer.tokens([self.tokenizer.start_id, *target[:-1]]),
            image=load_image(image),
            grid=self.encoder.grid,
            title=self.tokenizer.decode(target),
        )


Captioner.caption = Captioner.predict


def _file(
    path: Location, data: CaptioningData, image_dir: str = "", names: str = ""
) -> CaptionFile:
    """A file of captions, read by the settings."""
    of_data = "format", "image", "caption", "delimiter", "emoji_style", "on_error"
    settings = {name: getattr(data, name) for name in of_data}
    return CaptionFile(path, image_dir, names, **settings)


def _lowered(images: Sequence[CaptionedImage]) -> list[CaptionedImage]:
    """Images with captions in lower case."""
    return [
        image._replace(captions=tuple(caption.lower() for caption in image.captions))
        for image in images
    ]


def _broken(problem: ImageProblem) -> Note:
    return Note(f"{path_text(problem.where)}: {problem.what}")
