"""The settings of questions about pictures: data, training, use and test."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from keras_attn.images.question_readers import COCO_NAME
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.training_settings import TrainingSettings, default_epochs
from keras_attn.tasks.use_settings import PictureUse

FORMATS = ("auto", "csv", "easy_vqa", "vqa")
_FILES = ("fit", "evaluate")


@dataclass(frozen=True)
class VisualQuestionsData(Settings):
    """Which questions are read, how they are split, and how they become words and classes.

    Example:

    >>> VisualQuestionsData(train="questions.csv").answer
    'answer'
    """

    train: str = setting(
        "", "table or JSON of questions, or folder of easy-VQA", required=True, shapes_result=False
    )
    dev: str = setting(
        "", "as --train, to choose the best weights by; a part of --train if empty",
        shapes_result=False,
    )  # fmt: skip
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_FILES)
    annotations: str = setting("", "vqa: JSON of the answers of --train", shapes_result=False)
    dev_annotations: str = setting("", "vqa: JSON of the answers of --dev", shapes_result=False)
    image_dir: str = setting(
        "", "folder of the pictures, if it is not that of the file", shapes_result=False,
        steps=_FILES,
    )  # fmt: skip
    dev_image_dir: str = setting(
        "", "folder of the pictures of --dev, if it is another one", shapes_result=False
    )
    image_name: str = setting(
        COCO_NAME, "vqa: file name of a picture, with {id} and perhaps {split}", steps=_FILES
    )
    image: str = setting("image", "csv: column of the pictures", steps=_FILES)
    question: str = setting("question", "csv: column of the questions", steps=_FILES)
    answer: str = setting("answer", "csv: column of the answers", steps=_FILES)
    kind: str = setting(
        "", "csv: column with the kind of a question, for a score of each kind; none if empty",
        steps=_FILES,
    )  # fmt: skip
    delimiter: str = setting(
        "", "csv: character between the columns; a comma if empty, a tab in *.tsv",
        check=check_delimiter, steps=_FILES,
    )  # fmt: skip
    on_error: str = setting(
        "error", "what to do at lines without a whole picture", choices=("error", "skip"),
        steps=_FILES,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the pictures by which the best weights are chosen, if there is no --dev",
        above=0, below=1,
    )  # fmt: skip
    split_seed: int = setting(0, "seed of that split", at_least=0)
    vocabulary_size: int = setting(
        20_000, "largest number of words of the questions, special tokens included", at_least=5
    )
    max_length: int = setting(32, "largest number of words of a question", at_least=1)
    max_answers: int = setting(
        3000, "largest number of answers, the commonest; questions with others are not learnt",
        at_least=2,
    )  # fmt: skip


@dataclass(frozen=True)
@with_defaults(TrainingSettings, epochs=default_epochs(20))
class VisualQuestionsTraining(TrainingSettings):
    """How questions about pictures are learnt. The help texts say what each setting does.

    Example:

    >>> VisualQuestionsTraining(epochs=3).batch_size
    32
    """

    batch_size: int = setting(32, "pictures of a batch, each with its questions", at_least=1)
    questions_per_picture: int = setting(
        16, "largest number of questions that a picture has in a batch; the others have a row more",
        at_least=1,
    )  # fmt: skip
    label_smoothing: float = setting(
        0.0, "share of the target's probability spread over the answers", at_least=0, below=1
    )
    cache_dir: str = setting(
        "", "folder for the regions of an encoder that is not trained; one in the cache if empty",
        shapes_result=False,
    )  # fmt: skip


@dataclass(frozen=True)
class VisualQuestionsUse(PictureUse):
    """How questions are answered. The help texts say what each setting does.

    Example:

    >>> VisualQuestionsUse().top_k
    5
    """

    top_k: int = setting(
        5, "largest number of answers that are given", at_least=1, steps=("predict", "export")
    )
    batch_size: int = setting(
        64,
        "questions computed at a time",
        at_least=1,
        steps=("predict", "evaluate", "explain", "export"),
    )
    on_error: str = setting(
        "error", "what to do at a picture that cannot be read: stop, or leave its questions out",
        choices=("error", "skip"), steps=("predict", "explain"),
    )  # fmt: skip


@dataclass(frozen=True)
class VisualQuestionsTest(Settings):
    """What answers are measured on. The help texts say what each setting does.

    Example:

    >>> VisualQuestionsTest(data="questions.csv").test_annotations
    ''
    """

    data: str = setting("", "table or JSON of questions, or folder of easy-VQA", required=True)
    test_annotations: str = setting("", "vqa: JSON of the answers of --data")

    def check(self, data: Any = None) -> None:
        """Raises a FileNotFoundError if there is nothing of that name."""
        if not os.path.exists(os.path.expanduser(self.data)):
            raise FileNotFoundError(
                f"Expected a file of questions, or a folder of easy-VQA. Received: {self.data}, "
                "which is not there."
            )
