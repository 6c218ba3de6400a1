"""The settings of tagging: its data, training, use and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from keras_attn.explain.methods import METHODS
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.class_weights import class_weight_setting
from keras_attn.tasks.encoder_task import EncoderData
from keras_attn.tasks.fine_tuning import EncoderTraining
from keras_attn.tasks.training_settings import default_epochs

_READ = ("fit", "evaluate")


@dataclass(frozen=True)
class TaggingData(EncoderData):
    """Which words and labels are read, and the encoder. The help texts say what each setting does.

    Example:

    >>> TaggingData(train="train.txt").label_column
    -1
    """

    train: str = setting(
        "", "sentences to learn from: CoNLL columns, or JSON lines with words and labels",
        required=True, shapes_result=False,
    )  # fmt: skip
    dev: str = setting(
        "", "sentences by which the best weights are chosen, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the sentences that is held out, without --dev", above=0, below=1
    )
    split_seed: int = setting(0, "seed of that split", at_least=0)
    word_column: int = setting(
        0, "column of the words, from 0; negative numbers count from the end", steps=_READ
    )
    label_column: int = setting(-1, "column of the labels", steps=_READ)
    on_error: str = setting(
        "error", "what to do at a bad line", choices=("error", "skip"), steps=_READ
    )


@dataclass(frozen=True)
@with_defaults(EncoderTraining, epochs=default_epochs(10, backbone=4))
class TaggingTraining(EncoderTraining):
    """How a tagger is trained. The help texts say what each setting does.

    Example:

    >>> TaggingTraining(epochs=2).class_weight is None
    True
    """

    class_weight: str | Mapping[str, float] | None = class_weight_setting("labels", "words")


@dataclass(frozen=True)
class TaggingUse(Settings):
    """How a tagger is used. The help texts say what each setting does.

    Example:

    >>> TaggingUse().batch_size
    64
    """

    batch_size: int = setting(
        64, "rows computed at a time", at_least=1, steps=("predict", "evaluate", "export")
    )
    max_words: int = setting(
        5_000_000, "largest number of words that the SavedModel gives at a time: rows times words "
        "of the longest text", at_least=1, steps=("export",),
    )  # fmt: skip
    split: bool = setting(
        True, "cut each line into words and punctuation marks; else words are parted by spaces",
        steps=("predict",),
    )  # fmt: skip
    method: str = setting(
        "attention", "what the page shows: what each head looks at, or the words that speak for "
        "the label of the first entity of each text",
        choices=METHODS, steps=("explain",),
    )  # fmt: skip


@dataclass(frozen=True)
class TaggingTest(Settings):
    """What a tagger is measured on. The help texts say what each setting does.

    Example:

    >>> TaggingTest(data="test.txt").num_bootstrap
    1000
    """

    data: str = setting("", "sentences with labels, as for fit", required=True)
    num_bootstrap: int = setting(1000, "samples for the interval; 0 computes none", at_least=0)
