"""Settings of entailment: data, training, use and test."""

from __future__ import annotations

import os
from dataclasses import dataclass

from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.word_vectors import WordVectorData
from keras_attn.tasks.families.class_weights import ClassTraining
from keras_attn.tasks.families.data_settings import (
    COLUMN_OF_FORMAT,
    FORMATS,
    Files,
    Tables,
    column,
)
from keras_attn.tasks.families.training_settings import BatchTraining
from keras_attn.tasks.families.use_settings import ClassUse, SplitTest


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of labelled pairs",
        "dev": "pairs by which the best weights are chosen; if empty, SICK's trial pairs or a part "
        "of --train",
        "dev_share": "share of the pairs that is held out, if no file has such pairs",
        "on_error": "what to do at a bad line; in --dev and in evaluate, one with a label that "
        "training never saw is bad too",
    },
    words={"when": "", "then": ""},
    choices={"format": (*FORMATS, "sick", "snli")},
)
class EntailmentData(WordVectorData, Tables, Files):
    """The pairs that are read, their split, and their words.

    Example:

    >>> EntailmentData(train="SICK.txt").format
    'auto'
    """

    premise: str = column("", "first texts", COLUMN_OF_FORMAT)
    hypothesis: str = column("", "second texts", COLUMN_OF_FORMAT)
    label: str = column("", "labels", COLUMN_OF_FORMAT)
    reversed_pairs: bool = setting(
        False, "sick: also learn from each pair with its texts swapped, by column entailment_BA"
    )
    vocabulary_size: int = setting(
        20_000, "largest number of words of the training pairs, special tokens included", at_least=5
    )
    max_length: int = setting(64, "largest number of words of a text", at_least=1)


@dataclass(frozen=True)
@with_defaults(words={"rows": "pairs", "examples": "pairs"})
class EntailmentTraining(ClassTraining, BatchTraining):
    """Settings of the training of a classifier of entailment.

    Example:

    >>> EntailmentTraining(epochs=3).batch_size
    32
    """


@dataclass(frozen=True)
@with_defaults(
    words={
        "rows": "pairs",
        "shown": "which words looked at which (attention), or the words that decided (gradient); "
        "if none, attention where the model has it, else gradient",
    },
    steps={"batch_size": ("predict", "evaluate", "explain", "export")},
)
class EntailmentUse(ClassUse):
    """Settings of predictions, pages and SavedModels of entailment.

    Example:

    >>> EntailmentUse().batch_size
    64
    """


@dataclass(frozen=True)
@with_defaults(
    words={"examples": "file of labelled pairs", "parts": "a file that has several, as SICK's"}
)
class EntailmentTest(SplitTest):
    """Settings of the evaluation of entailment.

    Example:

    >>> EntailmentTest(data="SICK.txt").split
    'test'
    """

    def check(self, data: Settings | None = None) -> None:
        """Raises a FileNotFoundError if there is no such file."""
        if not os.path.isfile(os.path.expanduser(self.data)):
            raise FileNotFoundError(
                f"Expected a file of labelled pairs. Received: {self.data}, which is none."
            )
