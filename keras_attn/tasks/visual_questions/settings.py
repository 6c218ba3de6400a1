"""Settings of questions about images: data, training, use and test."""

from __future__ import annotations

import os
from dataclasses import dataclass

from keras_attn.images.question_readers import COCO_NAME
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.base.training_settings import default_epochs
from keras_attn.tasks.families.data_settings import READ, Files, ImageFiles
from keras_attn.tasks.families.training_settings import (
    BatchTraining,
    LabelSmoothing,
    RegionCache,
)
from keras_attn.tasks.families.use_settings import BatchUse, DataTest, ImageUse

FORMATS = ("auto", "csv", "easy_vqa", "vqa")


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "table or JSON of questions, or folder of easy-VQA",
        "dev": "as --train, to choose the best weights by; a part of --train if empty",
        "on_error": "what to do at lines without a whole picture",
    },
    words={"examples": "pictures"},
    choices={"format": FORMATS},
)
class VisualQuestionsData(ImageFiles, Files):
    """The questions that are read, their split, their words and the classes.

    Example:

    >>> VisualQuestionsData(train="questions.csv").answer
    'answer'
    """

    annotations: str = setting("", "vqa: JSON of the answers of --train", shapes_result=False)
    dev_annotations: str = setting("", "vqa: JSON of the answers of --dev", shapes_result=False)
    image_name: str = setting(
        COCO_NAME, "vqa: file name of a picture, with {id} and perhaps {split}", steps=READ
    )
    question: str = setting("question", "csv: column of the questions", steps=READ)
    answer: str = setting("answer", "csv: column of the answers", steps=READ)
    kind: str = setting(
        "", "csv: column with the kind of a question, for a score of each kind; none if empty",
        steps=READ,
    )  # fmt: skip
    vocabulary_size: int = setting(
        20_000, "largest number of words of the questions, special tokens included", at_least=5
    )
    cache_dtype: str = setting(
        "float16", "dtype in which the regions of an encoder that is not trained are kept on the "
        "disk",
        choices=("float16", "float32"),
    )  # fmt: skip
    max_length: int = setting(32, "largest number of words of a question", at_least=1)
    max_answers: int = setting(
        3000, "largest number of answers, the commonest; questions with others are not learnt",
        at_least=2,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    epochs=default_epochs(20),
    label_smoothing=0.0,
    help={"batch_size": "pictures of a batch, each with its questions"},
    words={"classes": "answers"},
)
class VisualQuestionsTraining(RegionCache, LabelSmoothing, BatchTraining):
    """Settings of the training of answers to questions about images.

    Example:

    >>> VisualQuestionsTraining(epochs=3).batch_size
    32
    """

    questions_per_picture: int = setting(
        16, "largest number of questions that a picture has in a batch; the others have a row more",
        at_least=1,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(
    words={"rows": "questions"},
    steps={"batch_size": ("predict", "evaluate", "explain", "export")},
)
class VisualQuestionsUse(BatchUse, ImageUse):
    """Settings of predictions, pages and SavedModels of questions about images.

    Example:

    >>> VisualQuestionsUse().top_k
    5
    """

    top_k: int = setting(
        5, "largest number of answers that are given", at_least=1, steps=("predict", "export")
    )
    on_error: str = setting(
        "error", "what to do at a picture that cannot be read: stop, or leave its questions out",
        choices=("error", "skip"), steps=("predict", "explain"),
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(words={"examples": "table or JSON of questions, or folder of easy-VQA"})
class VisualQuestionsTest(DataTest):
    """Settings of the evaluation of questions about images.

    Example:

    >>> VisualQuestionsTest(data="questions.csv").test_annotations
    ''
    """

    test_annotations: str = setting("", "vqa: JSON of the answers of --data")

    def check(self, data: Settings | None = None) -> None:
        """Raises a FileNotFoundError if there is nothing of that name."""
        if not os.path.exists(os.path.expanduser(self.data)):
            raise FileNotFoundError(
                f"Expected a file of questions, or a folder of easy-VQA. Received: {self.data}, "
                "which is not there."
            )
