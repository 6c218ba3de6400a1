"""Settings of tagging: data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.class_weights import ClassWeights
from keras_attn.tasks.families.data_settings import READ, Files
from keras_attn.tasks.families.encoder_task import EncoderData
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse


@dataclass(frozen=True)
@with_defaults(
    help={"train": "sentences to learn from: CoNLL columns, or JSON lines with words and labels"},
    words={"examples": "sentences"},
)
class TaggingData(EncoderData, Files):
    """The words and labels that are read, and the encoder.

    Example:

    >>> TaggingData(train="train.txt").label_column
    -1
    """

    word_column: int = setting(
        0, "column of the words, from 0; negative numbers count from the end", steps=READ
    )
    label_column: int = setting(-1, "column of the labels", steps=READ)


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(10, backbone=4), words={"classes": "labels", "examples": "words"}
)
class TaggingTraining(ClassWeights, EncoderTraining):
    """Settings of the training of a tagger.

    Example:

    >>> TaggingTraining(epochs=2).class_weight is None
    True
    """


@dataclass(frozen=True)
@with_defaults(
    method="attention",
    words={
        "rows": "rows",
        "shown": "what each head looks at, or the words that speak for the label of the first "
        "entity of each text",
    },
)
class TaggingUse(PageUse):
    """Settings of predictions, pages and SavedModels of a tagger.

    Example:

    >>> TaggingUse().batch_size
    64
    """

    max_words: int = setting(
        5_000_000, "largest number of words that the SavedModel gives at a time: rows times words "
        "of the longest text", at_least=1, steps=("export",),
    )  # fmt: skip
    split: bool = setting(
        True, "cut each line into words and punctuation marks; else words are parted by spaces",
        steps=("predict",),
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(words={"examples": "sentences with labels, as for fit"})
class TaggingTest(BootstrapTest):
    """Settings of the evaluation of a tagger.

    Example:

    >>> TaggingTest(data="test.txt").num_bootstrap
    1000
    """
