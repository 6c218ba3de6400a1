"""The settings of text classification: its data, training, use and test."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_attn.batches.classification_batches import TRUNCATIONS
from keras_attn.explain.methods import METHODS
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import RunDefault, Settings, setting, with_defaults
from keras_attn.tasks.backbones import refuse_new_tokenizer
from keras_attn.tasks.class_weights import class_weight_setting
from keras_attn.tasks.fine_tuning import FineTuning
from keras_attn.tasks.training_settings import default_epochs
from keras_attn.tasks.word_vectors import check_vector_settings
from keras_attn.text import TOKENIZERS

FORMATS = ("auto", "csv", "tsv", "json_lines", "imdb", "sst2", "movie_reviews")
_FILES = ("fit", "evaluate")


@dataclass(frozen=True)
class TextClassificationData(Settings):
    """Which texts are read, how they are split, and how they become tokens.

    Example:

    >>> TextClassificationData(train="reviews.csv", label="stars").text
    'text'
    """

    train: str = setting(
        "", "file of labelled texts, or folder of IMDB or SST-2; film reviews if empty",
        shapes_result=False,
    )  # fmt: skip
    dev: str = setting(
        "", "file to choose the best weights by, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_FILES)
    text: str = setting("text", "column, or JSON key, of the texts", steps=_FILES)
    text_pair: str = setting(
        "", "column, or JSON key, of a second text, to classify pairs of texts", steps=_FILES
    )
    label: str = setting("label", "column, or JSON key, of the labels", steps=_FILES)
    delimiter: str = setting(
        "", "csv, tsv: character between columns; if empty, a comma (tab in *.tsv)",
        check=check_delimiter, steps=_FILES,
    )  # fmt: skip
    label_separator: str = setting(
        "", "what separates several labels of a text; empty if each text has one", steps=_FILES
    )
    on_error: str = setting(
        "error", "what to do at a bad line; in --dev and in evaluate, one with a label that "
        "training never saw is bad too",
        choices=("error", "skip"), steps=_FILES,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the texts by which the best weights are chosen, without --dev", above=0,
        below=1,
    )  # fmt: skip
    near_duplicates: str = setting(
        "apart",
        "texts that are nearly the same: kept on one side of that split, or anywhere, with a "
        "warning",
        choices=("apart", "anywhere"),
    )
    split_seed: int = setting(0, "seed of that split, and of --limit", at_least=0)
    limit: int | None = setting(
        None, "largest number of texts, drawn at random", kind=int, at_least=1
    )
    tokenizer: str = setting(
        "word_piece", "kind of tokenizer, without --backbone", choices=tuple(TOKENIZERS)
    )
    vocabulary_size: int = setting(8000, "largest number of tokens, without --backbone", at_least=8)
    vocabulary_file: str = setting(
        "", "vocab.txt of BERT, to take instead of making a vocabulary; without --backbone",
        shapes_result=False,
    )  # fmt: skip
    word_vectors: str = setting(
        "", "words: file of word vectors that the embedding starts from: GloVe, word2vec or NumPy"
    )
    freeze_word_vectors: bool = setting(False, "keep the embedding as it started")
    vector_words: int = setting(
        0, "first words of --word-vectors that join the vocabulary besides", at_least=0
    )
    backbone: str = setting(
        "", "task with an encoder, such as pretraining, or folder of Hugging Face weights, to "
        "start from: its sizes, vocabulary and weights",
    )  # fmt: skip
    backbone_weights: bool = setting(
        True, "take the weights of --backbone too; if not, the encoder starts at random"
    )
    max_length: int = setting(256, "largest number of tokens of a text", at_least=2)
    truncation: str | None = setting(
        None, "which part of a long text is kept; if none, head_tail. Long pairs lose the end of "
        "the longer text",
        kind=str, choices=TRUNCATIONS,
    )  # fmt: skip

    def __post_init__(self):
        super().__post_init__()
        check_vector_settings(self)
        refuse_new_tokenizer(self, "tokenizer", "vocabulary_size", "vocabulary_file")


@dataclass(frozen=True)
@with_defaults(
    FineTuning,
    epochs=default_epochs(4),
    learning_rate=RunDefault(3e-3, lora=1e-3, backbone=1e-4, encoder=5e-4),
    weight_decay=RunDefault(0.0, backbone=0.01),
)
class TextClassificationTraining(FineTuning):
    """How a text classifier is trained. The help texts say what each setting does.

    Example:

    >>> TextClassificationTraining(epochs=3).batch_size
    32
    """

    batch_size: int = setting(32, "texts of a batch", at_least=1)
    class_weight: str | Mapping[str, float] | None = class_weight_setting()
    score: str = setting(
        "accuracy", "figure by which the best weights are chosen", choices=("accuracy", "macro_f1")
    )


@dataclass(frozen=True)
class TextClassificationUse(Settings):
    """How a text classifier is used. The help texts say what each setting does.

    Example:

    >>> TextClassificationUse().batch_size
    64
    """

    batch_size: int = setting(
        64, "texts computed at a time", at_least=1, steps=("predict", "evaluate", "export")
    )
    method: str | None = setting(
        None,
        "how tokens are weighted: by gradients, or by the attention of the pooling (of a "
        "Transformer without it, explain shows what each head looks at); if none, attention where "
        "the pooling has it, else gradient",
        kind=str,
        choices=METHODS,
        steps=("explain", "export"),
    )
    label: str | None = setting(
        None, "class whose gradients are computed; the most probable one if none", kind=str,
        steps=("explain",),
    )  # fmt: skip


@dataclass(frozen=True)
class TextClassificationTest(Settings):
    """What a text classifier is measured on. The help texts say what each setting does.

    Example:

    >>> TextClassificationTest(data="test.csv").split
    'test'
    """

    data: str = setting("", "file of labelled texts, or folder of IMDB or SST-2", required=True)
    split: str = setting(
        "test",
        "which part of a folder; SST-2 has no labelled test",
        choices=("test", "dev", "train"),
    )
    num_bootstrap: int = setting(1000, "samples for the intervals; 0 computes none", at_least=0)

    def check(self, data: Any = None) -> None:
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
