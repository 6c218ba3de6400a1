"""The settings of entailment: its data, training, use and test."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_attn.explain.methods import METHODS
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import Settings, setting
from keras_attn.tasks.class_weights import class_weight_setting
from keras_attn.tasks.training_settings import TrainingSettings
from keras_attn.tasks.word_vectors import check_vector_settings

FORMATS = ("auto", "csv", "tsv", "json_lines", "sick", "snli")
_FILES = ("fit", "evaluate")


@dataclass(frozen=True)
class EntailmentData(Settings):
    """Which pairs are read, how they are split, and how they become words.

    Example:

    >>> EntailmentData(train="SICK.txt").format
    'auto'
    """

    train: str = setting("", "file of labelled pairs", required=True, shapes_result=False)
    dev: str = setting(
        "", "file to choose the best weights by; if empty, SICK's trial pairs or a part of --train",
        shapes_result=False,
    )  # fmt: skip
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_FILES)
    premise: str = setting(
        "", "column, or JSON key, of the first texts; if empty, that of the format", steps=_FILES
    )
    hypothesis: str = setting(
        "", "column, or JSON key, of the second texts; if empty, that of the format", steps=_FILES
    )
    label: str = setting(
        "", "column, or JSON key, of the labels; if empty, that of the format", steps=_FILES
    )
    delimiter: str = setting(
        "", "csv, tsv: character between columns; if empty, a comma (tab in *.tsv)",
        check=check_delimiter, steps=_FILES,
    )  # fmt: skip
    on_error: str = setting(
        "error", "what to do at a bad line; in --dev and in evaluate, one with a label that "
        "training never saw is bad too",
        choices=("error", "skip"), steps=_FILES,
    )  # fmt: skip
    reversed_pairs: bool = setting(
        False, "sick: also learn from each pair with its texts swapped, by column entailment_BA"
    )
    dev_share: float = setting(
        0.1, "share of the pairs by which the best weights are chosen, if no file has such pairs",
        above=0, below=1,
    )  # fmt: skip
    split_seed: int = setting(0, "seed of that split", at_least=0)
    vocabulary_size: int = setting(
        20_000, "largest number of words of the training pairs, special tokens included", at_least=5
    )
    word_vectors: str = setting(
        "", "file of word vectors that the embedding starts from: GloVe, word2vec or NumPy"
    )
    freeze_word_vectors: bool = setting(False, "keep the embedding as it started")
    vector_words: int = setting(
        0, "first words of --word-vectors that join the vocabulary besides", at_least=0
    )
    max_length: int = setting(64, "largest number of words of a text", at_least=1)

    def __post_init__(self):
        super().__post_init__()
        check_vector_settings(self)


@dataclass(frozen=True)
class EntailmentTraining(TrainingSettings):
    """How a classifier of entailment is trained. The help texts say what each setting does.

    Example:

    >>> EntailmentTraining(epochs=3).batch_size
    32
    """

    batch_size: int = setting(32, "pairs of a batch", at_least=1)
    class_weight: str | Mapping[str, float] | None = class_weight_setting(examples="pairs")
    score: str = setting(
        "accuracy", "figure by which the best weights are chosen", choices=("accuracy", "macro_f1")
    )


@dataclass(frozen=True)
class EntailmentUse(Settings):
    """How a classifier of entailment is used. The help texts say what each setting does.

    Example:

    >>> EntailmentUse().batch_size
    64
    """

    batch_size: int = setting(
        64,
        "pairs computed at a time",
        at_least=1,
        steps=("predict", "evaluate", "explain", "export"),
    )
    method: str | None = setting(
        None, "what the page shows: which words looked at which (attention), or the words that "
        "decided (gradient); if none, attention where the model has it, else gradient",
        kind=str, choices=METHODS, steps=("explain",),
    )  # fmt: skip
    label: str | None = setting(
        None, "class whose gradients are computed; the most probable one if none", kind=str,
        steps=("explain",),
    )  # fmt: skip


@dataclass(frozen=True)
class EntailmentTest(Settings):
    """What a classifier of entailment is measured on. The help texts say what each setting does.

    Example:

    >>> EntailmentTest(data="SICK.txt").split
    'test'
    """

    data: str = setting("", "file of labelled pairs", required=True)
    split: str = setting(
        "test", "which part of a file that has several, as SICK's", choices=("test", "dev", "train")
    )
    num_bootstrap: int = setting(1000, "samples for the intervals; 0 computes none", at_least=0)

    def check(self, data: Any = None) -> None:
        """Raises a FileNotFoundError if there is no such file."""
        if not os.path.isfile(os.path.expanduser(self.data)):
            raise FileNotFoundError(
                f"Expected a file of labelled pairs. Received: {self.data}, which is none."
            )
