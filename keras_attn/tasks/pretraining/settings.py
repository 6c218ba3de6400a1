"""Settings of pretraining: text, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import RunDefault, Settings, setting, with_defaults
from keras_attn.tasks.base.backbones import BackboneStart
from keras_attn.tasks.families.data_settings import BadLines, HeldOut, RunningTexts
from keras_attn.tasks.families.training_settings import BatchTraining
from keras_attn.tasks.families.use_settings import BatchUse

_MADE = ("fit", "prepare")
_READ = ("fit", "prepare", "evaluate")


@dataclass(frozen=True)
@with_defaults(
    dev_share=0.02,
    help={"dev": "held-out texts, instead of a part of --text"},
    words={
        "texts": "text files, a folder or a pattern: a sentence a line and blank lines between "
        "documents, or documents as JSON lines; film reviews if empty",
        "backbones": "task with an encoder, such as pretraining",
        "tokens": "vocabulary",
        "examples": "documents",
    },
    steps=dict.fromkeys(("text", "dev", "dev_share", "split_seed", "backbone"), _MADE)
    | dict.fromkeys(("key", "on_error"), _READ),
)
class PretrainingData(BackboneStart, BadLines, HeldOut, RunningTexts):
    """The texts that are read, what is held out of them, and their tokens.

    Example:

    >>> PretrainingData(text="corpus.txt").max_length
    128
    """

    prepared: str = setting(
        "", "folder of prepared ids, instead of --text", shapes_result=False, steps=("fit",)
    )
    vocabulary_size: int = setting(8000, "largest number of tokens", at_least=8, steps=_MADE)
    vocabulary_file: str = setting(
        "", "vocab.txt of BERT, to take instead of making a vocabulary", shapes_result=False,
        steps=_MADE,
    )  # fmt: skip
    lowercase: bool = setting(True, "lower-case letters and strip accents", steps=_MADE)
    max_length: int = setting(128, "largest number of tokens of a row", at_least=5)
    next_sentence: bool = setting(True, "learn which sentences follow each other too", steps=_MADE)


@dataclass(frozen=True)
@with_defaults(
    learning_rate=RunDefault(5e-4, backbone=1e-4), weight_decay=0.01, words={"rows": "rows"}
)
class PretrainingTraining(BatchTraining):
    """Settings of the training of an encoder.

    Example:

    >>> PretrainingTraining(epochs=3).masked_share
    0.15
    """

    masked_share: float = setting(0.15, "share of the words to guess", above=0, below=1)
    whole_words: bool = setting(False, "mask all pieces of a word together")


@dataclass(frozen=True)
@with_defaults(words={"rows": "texts"})
class PretrainingUse(BatchUse):
    """Settings of guesses and vectors of a pretrained encoder.

    Example:

    >>> PretrainingUse().top_k
    5
    """

    top_k: int = setting(
        5, "number of words guessed for each [MASK]", at_least=1, steps=("predict", "export")
    )


@dataclass(frozen=True)
class PretrainingTest(Settings):
    """Settings of the evaluation of a pretrained encoder.

    Example:

    >>> PretrainingTest(text="held_out.txt").text
    'held_out.txt'
    """

    text: str = setting("", "text files, a folder or a pattern, as for fit", required=True)
