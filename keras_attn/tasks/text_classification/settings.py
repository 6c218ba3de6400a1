"""Settings of text classification: data, training, use and test."""

from __future__ import annotations

import os
from dataclasses import dataclass

from keras_attn.batches.classification_batches import TRUNCATIONS
from keras_attn.settings import RunDefault, Settings, setting, with_defaults
from keras_attn.tasks.base.backbones import BackboneData, refuse_new_tokenizer
from keras_attn.tasks.base.fine_tuning import FineTuning
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.class_weights import ClassTraining
from keras_attn.tasks.families.data_settings import (
    FORMATS,
    READ,
    LimitedFiles,
    NearDuplicates,
    Tables,
    column,
)
from keras_attn.tasks.families.use_settings import ClassUse, SplitTest
from keras_attn.text import TOKENIZERS


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "file of labelled texts, or folder of IMDB or SST-2; film reviews if empty",
        "on_error": "what to do at a bad line; in --dev and in evaluate, one with a label that "
        "training never saw is bad too",
    },
    words={"examples": "texts", "when": "words: ", "then": ""},
    choices={"format": (*FORMATS, "imdb", "sst2", "movie_reviews")},
    required={"train": False},
)
class TextClassificationData(BackboneData, Tables, NearDuplicates, LimitedFiles):
    """The texts that are read, their split, and their tokens.

    Example:

    >>> TextClassificationData(train="reviews.csv", label="stars").text
    'text'
    """

    text: str = column("text", "texts")
    text_pair: str = column("", "second texts, to classify pairs of texts")
    label: str = column("label", "labels")
    label_separator: str = setting(
        "", "what separates several labels of a text; empty if each text has one", steps=READ
    )
    tokenizer: str = setting(
        "word_piece", "kind of tokenizer, without --backbone", choices=tuple(TOKENIZERS)
    )
    vocabulary_file: str = setting(
        "", "vocab.txt of BERT, to take instead of making a vocabulary; without --backbone",
        shapes_result=False,
    )  # fmt: skip
    max_length: int = setting(256, "largest number of tokens of a text", at_least=2)
    truncation: str | None = setting(
        None, "which part of a long text is kept; if none, head_tail. Long pairs lose the end of "
        "the longer text",
        kind=str, choices=TRUNCATIONS,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word_vectors and self.tokenizer != "words":
            raise ValueError(
                "`word_vectors` need whole words: tokenizer='words' (--tokenizer words). Received: "
                f"tokenizer={self.tokenizer!r}."
            )
        refuse_new_tokenizer(self, "tokenizer", "vocabulary_size", "vocabulary_file")


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(4),
    learning_rate=RunDefault(3e-3, lora=1e-3, backbone=1e-4, encoder=5e-4),
    weight_decay=RunDefault(0.0, backbone=0.01),
    words={"rows": "texts", "examples": "texts"},
)
class TextClassificationTraining(ClassTraining, FineTuning):
    """Settings of the training of a text classifier.

    Example:

    >>> TextClassificationTraining(epochs=3).batch_size
    32
    """


@dataclass(frozen=True)
@with_defaults(
    help={
        "method": "how tokens are weighted: by gradients, or by the attention of the pooling (of a "
        "Transformer without it, explain shows what each head looks at); if none, attention where "
        "the pooling has it, else gradient"
    },
    words={"rows": "texts"},
    steps={"method": ("explain", "export")},
)
class TextClassificationUse(ClassUse):
    """Settings of predictions, pages and SavedModels of a text classifier.

    Example:

    >>> TextClassificationUse().batch_size
    64
    """


@dataclass(frozen=True)
@with_defaults(
    words={
        "examples": "file of labelled texts, or folder of IMDB or SST-2",
        "parts": "a folder; SST-2 has no labelled test",
    }
)
class TextClassificationTest(SplitTest):
    """Settings of the evaluation of a text classifier.

    Example:

    >>> TextClassificationTest(data="test.csv").split
    'test'
    """

    def check(self, data: Settings | None = None) -> None:
        """Raises a FileNotFoundError if there are no such data."""
        if not os.path.exists(os.path.expanduser(self.data)):
            raise FileNotFoundError(
                f"Expected a file or a folder of labelled texts. Received: {self.data}, which is "
                "none."
            )
        if self.split != type(self).split and not os.path.isdir(os.path.expanduser(self.data)):
            raise ValueError(
                f"`split` is of a folder of IMDB or SST-2. Received: {self.split!r} with the file "
                f"{self.data}, which is read whole. Leave it out."
            )
