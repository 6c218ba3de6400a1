"""The settings of captioning: its data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keras_attn.settings import Settings, WrongUse, setting, with_defaults
from keras_attn.tasks.training_settings import TrainingSettings, default_epochs
from keras_attn.tasks.use_settings import BeamSearchUse, PictureUse

FORMATS = ("auto", "karpathy", "coco", "flickr8k", "csv", "ucm", "emoji")
SCORES = ("cider", "bleu_4", "perplexity")
_FILES = ("fit", "evaluate")


@dataclass(frozen=True)
class CaptioningData(Settings):
    """Which captioned pictures are read, how they are split, and how captions become tokens.

    Example:

    >>> CaptioningData(train="captions.csv", image="photo").caption
    'caption'
    """

    train: str = setting(
        "", "file of captions, or folder of UCM-Captions; emoji if empty", shapes_result=False,
        steps=("fit",),
    )  # fmt: skip
    dev: str = setting(
        "", "file to choose the best weights by, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_FILES)
    image_dir: str = setting(
        "", "folder of the pictures, if it is not that of the file", shapes_result=False,
        steps=_FILES,
    )  # fmt: skip
    dev_image_dir: str = setting(
        "", "folder of the pictures of --dev, if it is another one", shapes_result=False
    )
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
    image: str = setting("image", "csv: column of the pictures", steps=_FILES)
    caption: str = setting("caption", "csv: column of the captions", steps=_FILES)
    delimiter: str = setting(
        "", "csv: character between the columns; a comma if empty, a tab in *.tsv", steps=_FILES
    )
    emoji_style: str = setting(
        "twitter", "emoji: who drew them", choices=("twitter", "google"), steps=_FILES
    )
    on_error: str = setting(
        "error", "what to do at pictures that are missing or broken", choices=("error", "skip"),
        steps=_FILES,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the pictures by which the best weights are chosen, if nothing says which",
        above=0, below=1,
    )  # fmt: skip
    split_seed: int = setting(0, "seed of that split, and of --limit", at_least=0)
    limit: int | None = setting(
        None, "largest number of pictures, drawn at random", kind=int, at_least=1
    )
    lowercase: bool = setting(True, "learn the captions in lower case")
    vocabulary_size: int = setting(2000, "largest number of byte pairs", at_least=259)
    max_length: int = setting(
        40, "largest number of tokens of a caption; longer ones are left out", at_least=2
    )

    def __post_init__(self):
        super().__post_init__()
        if len(self.delimiter) > 1:
            raise ValueError(f"`delimiter` must be one character. Received: {self.delimiter!r}.")


@dataclass(frozen=True)
@with_defaults(TrainingSettings, epochs=default_epochs(30))
class CaptioningTraining(TrainingSettings):
    """How a captioner is trained. The help texts say what each setting does.

    Example:

    >>> CaptioningTraining(epochs=3).score
    'cider'
    """

    batch_size: int = setting(64, "captions of a batch", at_least=1)
    label_smoothing: float = setting(
        0.1, "share of the target's probability spread over the vocabulary", at_least=0, below=1
    )
    score: str = setting(
        "cider", "score that the best weights are best in; cider and bleu_4 need pycocoevalcap",
        choices=SCORES,
    )  # fmt: skip
    score_beams: int = setting(
        3, "width of the beam search for the development pictures", at_least=1
    )
    score_pictures: int = setting(500, "largest number of these pictures", at_least=1)
    cache_dir: str = setting(
        "", "folder for the regions of an encoder that is not trained; one in the cache if empty",
        shapes_result=False,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(BeamSearchUse, batch_size=32)
class CaptioningUse(BeamSearchUse, PictureUse):
    """The search for captions.

    Example:

    >>> CaptioningUse(beams=1).batch_size
    32
    """


@dataclass(frozen=True)
class CaptioningTest(Settings):
    """What a captioner is measured on. The help texts say what each setting does.

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

    def check(self, data: Any = None) -> None:
        """Raises a `WrongUse` if nothing says which pictures."""
        if not self.data and (data is None or data.format != "emoji"):
            raise WrongUse("Missing option '--data'. Emoji are taken with --format emoji.")
