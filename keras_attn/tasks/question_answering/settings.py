"""Settings of question answering: data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import setting, with_defaults
from keras_attn.tasks.base.fine_tuning import EncoderTraining
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import Files
from keras_attn.tasks.families.encoder_task import EncoderData
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse


@dataclass(frozen=True)
@with_defaults(
    max_length=384,
    help={
        "train": "questions to learn from: SQuAD's JSON, or JSON lines",
        "dev_share": "share of the articles that is held out, without --dev",
        "on_error": "what to do with a bad question",
    },
    words={"examples": "questions"},
)
class QuestionAnsweringData(EncoderData, Files):
    """The questions that are read, and the encoder.

    Example:

    >>> QuestionAnsweringData(train="train.json").max_length
    384
    """

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
@with_defaults(epochs=default_epochs(10, backbone=2), batch_size=16)
class QuestionAnsweringTraining(EncoderTraining):
    """Settings of the training of question answering.

    Example:

    >>> QuestionAnsweringTraining().decided(["backbone"]).epochs
    2
    """


@dataclass(frozen=True)
@with_defaults(
    batch_size=32,
    words={
        "rows": "windows",
        "shown": "the answers in their texts with the words that spoke for them, or what each "
        "head looks at",
    },
    steps={"batch_size": ("predict", "explain", "evaluate", "export")},
)
class QuestionAnsweringUse(PageUse):
    """Settings of the search for answers.

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


@dataclass(frozen=True)
@with_defaults(words={"examples": "questions with answers, as for fit"})
class QuestionAnsweringTest(BootstrapTest):
    """Settings of the evaluation of question answering.

    Example:

    >>> QuestionAnsweringTest(data="dev.json").num_bootstrap
    1000
    """
