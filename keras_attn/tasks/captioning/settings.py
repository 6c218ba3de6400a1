"""Settings of captioning: data, training, use and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_attn.files import check_output, check_writable
from keras_attn.settings import Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import READ, ImageFiles, LimitedFiles
from keras_attn.tasks.families.training_settings import (
    BatchTraining,
    LabelSmoothing,
    RegionCache,
)
from keras_attn.tasks.families.use_settings import BeamSearchUse, ImageUse

FORMATS = ("auto", "karpathy", "coco", "flickr8k", "csv", "ucm", "emoji")
SCORES = ("cider", "bleu_4", "perplexity")
_FIGURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg")


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of captions, or folder of UCM-Captions; emoji if empty",
        "on_error": "what to do at pictures that are missing or broken",
        "dev_share": "share of the pictures that is held out, if nothing says which",
    },
    words={"examples": "pictures"},
    steps={"train": ("fit",)},
    choices={"format": FORMATS},
    required={"train": False},
)
class CaptioningData(ImageFiles, LimitedFiles):
    """The captioned images that are read, their split, and the tokens of captions.

    Example:

    >>> CaptioningData(train="captions.csv", image="photo").caption
    'caption'
    """

    train_split: str = setting(
        "train", "karpathy, ucm, emoji: the side to learn from, or sides with commas"
    )
    dev_split: str = setting(
        "val", "karpathy, ucm, emoji: the side, or sides, to choose the best weights by"
    )
    train_names: str = setting(
        "", "flickr8k: file with the names of the pictures to learn from", shapes_result=False
    )
    dev_names: str = setting(
        "", "flickr8k: file with the names of the pictures to choose the best weights by",
        shapes_result=False,
    )  # fmt: skip
    caption: str = setting("caption", "csv: column of the captions", steps=READ)
    emoji_style: str = setting(
        "twitter", "emoji: who drew them", choices=("twitter", "google"), steps=READ
    )
    lowercase: bool = setting(True, "learn the captions in lower case")
    vocabulary_size: int = setting(2000, "largest number of byte pairs", at_least=259)
    cache_dtype: str = setting(
        "float16", "dtype in which the regions of an encoder that is not trained are kept on the "
        "disk",
        choices=("float16", "float32"),
    )  # fmt: skip
    max_length: int = setting(
        40, "largest number of tokens of a caption; longer ones are left out", at_least=2
    )


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(30), batch_size=64, words={"rows": "captions", "classes": "vocabulary"}
)
class CaptioningTraining(RegionCache, LabelSmoothing, BatchTraining):
    """Settings of the training of a captioner.

    Example:

    >>> CaptioningTraining(epochs=3).score
    'cider'
    """

    score: str = setting(
        "cider", "score that the best weights are best in; cider and bleu_4 need pycocoevalcap",
        choices=SCORES,
    )  # fmt: skip
    score_beams: int = setting(
        3, "width of the beam search for the development pictures", at_least=1
    )
    score_pictures: int = setting(500, "largest number of these pictures", at_least=1)


@dataclass(frozen=True)
@with_defaults(batch_size=32, words={"rows": "pictures"})
class CaptioningUse(BeamSearchUse, ImageUse):
    """Settings of the search for captions.

    Example:

    >>> CaptioningUse(beams=1).batch_size
    32
    """


@dataclass(frozen=True)
class CaptioningTest(Settings):
    """Settings of the evaluation of a captioner.

    Example:

    >>> CaptioningTest(data="captions.csv").tokenization
    'auto'
    """

    data: str = setting("", "as --train of `fit`; needed, but for --format emoji")
    split: str | None = setting(
        None, "karpathy, ucm, emoji: the side, or sides with commas; test if none", kind=str
    )
    names: str = setting("", "flickr8k: file with the names of one side")
    train: str | None = setting(
        None, "what was learnt from, as --train of `fit`, to count the captions copied from it",
        kind=str,
    )  # fmt: skip
    train_split: str = setting("train", "karpathy, ucm, emoji: side, or sides, of --train")
    train_names: str = setting("", "flickr8k: file with the names of the pictures of --train")
    tokenization: str = setting(
        "auto", "words of the metrics: ptb is Java's, auto takes it if there is Java",
        choices=("auto", "ptb", "plain"),
    )  # fmt: skip
    meteor: bool = setting(False, "METEOR as well, which needs Java")
    cache_dir: str = setting("", "folder for the encoder's regions; they are not kept if empty")

    def check(self, data: Settings | None = None) -> None:
        """Raises a `WrongUse` if nothing says which pictures."""
        if not self.data and getattr(data, "format", "") != "emoji":
            raise WrongUse("Missing option '--data'. Emoji are taken with --format emoji.")


@dataclass(frozen=True)
class CaptionedFiles(Settings):
    """How `predict` reads pictures."""

    on_error: str = setting(
        "skip",
        "at a broken picture: name it, go on, and end with exit code 1; or stop",
        choices=("skip", "error"),
    )


@dataclass(frozen=True)
class CaptionFigures(CaptionedFiles):
    """What `explain` shows of pictures."""

    limit: int = setting(50, "largest number of pictures", at_least=1)
    title: str = setting("Where it looked", "title of the page")


def check_figures(to: Path, inputs: Sequence[Path]) -> None:
    """Raises an error if figures of the pictures cannot be written to a path."""
    suffix = to.suffix.lower()
    if suffix and not (is_page(to) or suffix in _FIGURES or to.is_dir()):
        raise WrongUse(
            f"--to is a page (*.html), a figure (*.png, *.pdf, *.svg) or a folder, which must be "
            f"there if its name has a dot. Received: {to}."
        )
    if is_page(to) or suffix in _FIGURES:
        check_output(to)
    else:
        check_writable(to)
    if is_figure(to) and len(inputs) > 1:
        raise WrongUse(f"{to} is for one picture. Give a folder, or a page (*.html).")


def is_page(to: Path) -> bool:
    """Whether a path is the path of a page."""
    return to.suffix.lower() in (".html", ".htm")


def is_figure(to: Path) -> bool:
    """Whether a path is the path of one figure."""
    return bool(to.suffix) and not is_page(to) and not to.is_dir()
