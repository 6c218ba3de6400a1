"""The settings of answer selection: its data, training, use and test."""

from __future__ import annotations

from dataclasses import dataclass

from keras_attn.explain.methods import METHODS
from keras_attn.records.tables import check_delimiter
from keras_attn.settings import Settings, setting
from keras_attn.tasks.encoder_task import EncoderData

POOLINGS = ("average", "first")
FORMATS = ("auto", "csv", "tsv", "json_lines")
BY = ("vectors", "words", "both")
_READ = ("fit", "evaluate", "pairs")
_SEARCH = ("predict", "evaluate", "pairs")
_COMPUTE = (*_SEARCH, "explain")


@dataclass(frozen=True)
class AnswerSelectionData(EncoderData):
    """Which questions and answers are read, and the encoder.

    The help texts say what each setting does.

    Example:

    >>> AnswerSelectionData(train="faq.csv").answer
    'answer'
    """

    train: str = setting(
        "", "questions with their right answers to learn from", required=True, shapes_result=False
    )
    answers: str = setting(
        "", "further answers to choose from: one on each line, or a table with the column --answer",
        shapes_result=False,
    )  # fmt: skip
    dev: str = setting(
        "", "questions by which the best weights are chosen, instead of a part of --train",
        shapes_result=False,
    )  # fmt: skip
    dev_share: float = setting(
        0.1, "share of the questions that is held out, without --dev", above=0, below=1
    )
    near_duplicates: str = setting(
        "apart",
        "questions that are nearly the same: kept on one side of that split, or anywhere, with a "
        "warning",
        choices=("apart", "anywhere"),
    )
    split_seed: int = setting(0, "seed of that split", at_least=0)
    question: str = setting(
        "question", "column, or JSON key, of the questions; or its number from 0, if the file has "
        "no header",
        steps=_READ,
    )  # fmt: skip
    answer: str = setting("answer", "the same of the answers", steps=_READ)
    format: str = setting("auto", "format of the files", choices=FORMATS, steps=_READ)
    delimiter: str = setting(
        "", "csv, tsv: character between columns; if empty, a comma (tab in tsv)",
        check=check_delimiter, steps=_READ,
    )  # fmt: skip
    on_error: str = setting(
        "error", "what to do at a bad line; in evaluate, one with an answer that the model does "
        "not hold is bad too",
        choices=("error", "skip"), steps=_READ,
    )  # fmt: skip
    pooling: str = setting("average", "which states of a text become its vector", choices=POOLINGS)


@dataclass(frozen=True)
class AnswerSelectionUse(Settings):
    """How answers are searched. The help texts say what each setting does.

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
    batch_size: int = setting(
        64, "texts computed at a time", at_least=1, steps=(*_COMPUTE, "export")
    )
    method: str = setting(
        "gradient", "what the page shows: each question and its best answer with the words that "
        "match, or what each head looks at",
        choices=METHODS, steps=("explain",),
    )  # fmt: skip

    def __post_init__(self):
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
class AnswerSelectionTest(Settings):
    """What answer selection is measured on. The help texts say what each setting does.

    Example:

    >>> AnswerSelectionTest(data="test.csv").num_bootstrap
    1000
    """

    data: str = setting("", "questions with right answers, as for fit", required=True)
    num_bootstrap: int = setting(1000, "samples for the interval; 0 computes none", at_least=0)
