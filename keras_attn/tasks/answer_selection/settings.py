"""Settings of answer selection: data, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.settings import Settings, setting, with_defaults
from keras_attn.tasks.families.data_settings import (
    COLUMN_OR_NUMBER,
    Files,
    NearDuplicates,
    Tables,
    column,
)
from keras_attn.tasks.families.encoder_task import EncoderData
from keras_attn.tasks.families.use_settings import BootstrapTest, PageUse

POOLINGS = ("average", "first")
BY = ("vectors", "words", "both")
_READ = ("fit", "evaluate", "pairs")
_SEARCH = ("predict", "evaluate", "pairs")


@dataclass(frozen=True)
@with_defaults(
    help={
        "train": "questions with their right answers to learn from",
        "on_error": "what to do at a bad line; in evaluate, one with an answer that the model does "
        "not hold is bad too",
    },
    words={"examples": "questions"},
    steps=dict.fromkeys(("on_error", "format", "delimiter"), _READ),
)
class AnswerSelectionData(EncoderData, Tables, NearDuplicates, Files):
    """The questions and answers that are read, and the encoder.

    Example:

    >>> AnswerSelectionData(train="faq.csv").answer
    'answer'
    """

    answers: str = setting(
        "", "further answers to choose from: one on each line, or a table with the column --answer",
        shapes_result=False,
    )  # fmt: skip
    question: str = column("question", "questions", COLUMN_OR_NUMBER, _READ)
    answer: str = column("answer", "answers", COLUMN_OR_NUMBER, _READ)
    pooling: str = setting("average", "which states of a text become its vector", choices=POOLINGS)


@dataclass(frozen=True)
@with_defaults(
    words={
        "rows": "texts",
        "shown": "each question and its best answer with the words that match, or what each head "
        "looks at",
    },
    steps={"batch_size": (*_SEARCH, "explain", "export")},
)
class AnswerSelectionUse(PageUse):
    """Settings of the search for answers.

    Example:

    >>> AnswerSelectionUse(by="both").top_k
    10
    """

    top_k: int = setting(
        10, "answers for each question, the best first", at_least=1, steps=("predict", "export")
    )
    by: str = setting(
        "vectors", "what answers are searched by; words and both need the extra `search`",
        choices=BY, steps=_SEARCH,
    )  # fmt: skip
    lexical_weight: float | None = setting(
        None, "both: weight of the words, 0 to 1, beside that of the vectors; if none, 0.5",
        kind=float, at_least=0, steps=_SEARCH,
    )  # fmt: skip
    reranker: str = setting(
        "", "model of similarity that scores the best answers anew, such as one of kind cross",
        steps=("predict", "evaluate"),
    )  # fmt: skip
    rerank_depth: int | None = setting(
        None, "how many answers --reranker scores for each question; if none, 20", kind=int,
        at_least=1, steps=("predict", "evaluate"),
    )  # fmt: skip
    negatives: int = setting(
        4, "wrong answers for each right one, the best that are found", at_least=1,
        steps=("pairs",),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lexical_weight is not None and (self.lexical_weight > 1 or self.by != "both"):
            raise ValueError(
                "`lexical_weight` must be from 0 to 1, and belongs to by='both'. Received: "
                f"{self.lexical_weight} with by={self.by!r}."
            )
        if self.rerank_depth is not None and not self.reranker:
            raise ValueError(
                f"`rerank_depth` needs a `reranker`. Received: {self.rerank_depth} without one."
            )

    @property
    def depth(self) -> int:
        """How many answers are scored anew; 0 if none are."""
        return (self.rerank_depth or 20) if self.reranker else 0

    @property
    def weight(self) -> float:
        """Weight of the words if answers are searched by both."""
        return 0.5 if self.lexical_weight is None else self.lexical_weight


@dataclass(frozen=True)
@with_defaults(words={"examples": "questions with right answers, as for fit"})
class AnswerSelectionTest(BootstrapTest):
    """Settings of the evaluation of answer selection.

    Example:

    >>> AnswerSelectionTest(data="test.csv").num_bootstrap
    1000
    """


@dataclass(frozen=True)
class PairQuestions(Settings):
    """The questions of which `pairs` makes pairs."""

    data: str = setting("", "questions, as for fit", required=True)
