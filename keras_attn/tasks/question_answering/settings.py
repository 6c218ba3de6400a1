"""The settings of question answering: its data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.explain.methods import METHODS
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.encoder_task import EncoderData
from keras_attn.tasks.fine_tuning import EncoderTraining
from keras_attn.tasks.training_settings import default_epochs

_READ = ("fit", "evaluate")


@dataclass(frozen=True)
@with_defaults(EncoderData, max_length=384)
class QuestionAnsweringData(EncoderData):
    """Which questions are read, and the encoder. The help texts say what each setting does.

    Example:

    >>> QuestionAnsweringData(train="train.json").max_length
    384
    """

    train: str = setting(
        "", "questions to learn from: SQuAD's JSON, or JSON lines", required=True,
        shapes_result=False,
    )  # fmt: skip
    dev: str = setting(
        "", "questions by which the best weights are chosen, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the articles that is held out, without --dev", above=0, below=1
    )
    split_seed: int = setting(0, "seed of that split", at_least=0)
    on_error: str = setting(
        "error", "what to do with a bad question", choices=("error", "skip"), steps=_READ
    )
    max_question_length: int = setting(64, "largest number of tokens of a question", at_least=1)
    long_questions: str = setting(
        "cut", "what to do with longer ones in training", choices=("cut", "skip", "error")
    )
    overlap: int = setting(
        128,
        "tokens that two neighbouring windows of a long text share, at most half of a window's "
        "room for the text",
        at_least=0,
    )


@dataclass(frozen=True)
@with_defaults(EncoderTraining, epochs=default_epochs(10, backbone=2), batch_size=16)
class QuestionAnsweringTraining(EncoderTraining):
    """How question answering is trained. The help texts say what each setting does.

    Example:

    >>> QuestionAnsweringTraining().decided(["backbone"]).epochs
    2
    """


@dataclass(frozen=True)
class QuestionAnsweringUse(Settings):
    """How answers are found. The help texts say what each setting does.

    Example:

    >>> QuestionAnsweringUse().n_best
    5
    """

    n_best: int = setting(
        5, "number of answers", at_least=1, steps=("predict", "explain", "export")
    )
    max_answer_length: int = setting(30, "largest number of tokens of an answer", at_least=1)
    threshold: float = setting(
        0.0, "by how much the score of no answer must be above that of the best one, if the "
        "training had questions without an answer",
    )  # fmt: skip
    batch_size: int = setting(
        32,
        "windows computed at a time",
        at_least=1,
        steps=("predict", "explain", "evaluate", "export"),
    )
    method: str = setting(
        "gradient", "what the page shows: the answers in their texts with the words that spoke for "
        "them, or what each head looks at",
        choices=METHODS, steps=("explain",),
    )  # fmt: skip


@dataclass(frozen=True)
class QuestionAnsweringTest(Settings):
    """What question answering is measured on. The help texts say what each setting does.

    Example:

    >>> QuestionAnsweringTest(data="dev.json").num_bootstrap
    1000
    """

    data: str = setting("", "questions with answers, as for fit", required=True)
    num_bootstrap: int = setting(1000, "samples for the interval; 0 computes none", at_least=0)
