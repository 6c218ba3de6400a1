"""The settings of pretraining: its text, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import RunDefault, Settings, setting, with_defaults
from keras_attn.tasks.training_settings import TrainingSettings

_MADE = ("fit", "prepare")
_READ = ("fit", "prepare", "evaluate")


@dataclass(frozen=True)
class PretrainingData(Settings):
    """Which texts are read, what is held out, and how they become tokens.

    Example:

    >>> PretrainingData(text="corpus.txt").max_length
    128
    """

    text: str = setting(
        "", "text files, a folder or a pattern: a sentence a line and blank lines between "
        "documents, or documents as JSON lines; film reviews if empty",
        shapes_result=False, steps=_MADE,
    )  # fmt: skip
    dev: str = setting(
        "", "held-out texts, instead of a part of --text", shapes_result=False, steps=_MADE
    )
    prepared: str = setting(
        "", "folder of prepared ids, instead of --text", shapes_result=False, steps=("fit",)
    )
    key: str = setting("text", "key of the texts in JSON lines", steps=_READ)
    on_error: str = setting(
        "error", "what to do at a bad line", choices=("error", "skip"), steps=_READ
    )
    dev_share: float = setting(
        0.02, "share of the documents that is held out, without --dev", above=0, below=1,
        steps=_MADE,
    )  # fmt: skip
    split_seed: int = setting(0, "seed of that split", at_least=0, steps=_MADE)
    vocabulary_size: int = setting(8000, "largest number of tokens", at_least=8, steps=_MADE)
    vocabulary_file: str = setting(
        "", "vocab.txt of BERT, to take instead of making a vocabulary", shapes_result=False,
        steps=_MADE,
    )  # fmt: skip
    lowercase: bool = setting(True, "lower-case letters and strip accents", steps=_MADE)
    backbone: str = setting(
        "", "task, or folder of Hugging Face weights, to go on from: its sizes, vocabulary and "
        "weights",
        steps=_MADE,
    )  # fmt: skip
    max_length: int = setting(128, "largest number of tokens of a row", at_least=5)
    next_sentence: bool = setting(True, "learn which sentences follow each other too", steps=_MADE)


@dataclass(frozen=True)
@with_defaults(TrainingSettings, learning_rate=RunDefault(5e-4, backbone=1e-4), weight_decay=0.01)
class PretrainingTraining(TrainingSettings):
    """How an encoder is pretrained. The help texts say what each setting does.

    Example:

    >>> PretrainingTraining(epochs=3).masked_share
    0.15
    """

    batch_size: int = setting(32, "rows of a batch", at_least=1)
    masked_share: float = setting(0.15, "share of the words to guess", above=0, below=1)
    whole_words: bool = setting(False, "mask all pieces of a word together")


@dataclass(frozen=True)
class PretrainingUse(Settings):
    """How a pretrained encoder is used. The help texts say what each setting does.

    Example:

    >>> PretrainingUse().top_k
    5
    """

    batch_size: int = setting(
        64, "texts computed at a time", at_least=1, steps=("predict", "evaluate", "export")
    )
    top_k: int = setting(
        5, "number of words guessed for each [MASK]", at_least=1, steps=("predict", "export")
    )


@dataclass(frozen=True)
class PretrainingTest(Settings):
    """What a pretrained encoder is measured on. The help texts say what each setting does.

    Example:

    >>> PretrainingTest(text="held_out.txt").text
    'held_out.txt'
    """

    text: str = setting("", "text files, a folder or a pattern, as for fit", required=True)
