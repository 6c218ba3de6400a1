"""Answers to questions about pictures, where their words looked, and which answers are known."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np

from keras_attn.tasks.families.picture_regions import PictureLearned
from keras_attn.tasks.text_classification.labels import checked_class_names
from keras_attn.visualize import AttentionView
from keras_attn.visualize.display import percent


class VisualAnswer(NamedTuple):
    """What a model answers to a question about a picture.

    Example:

    >>> VisualAnswer("What is it?", "cat", 0.75, {"cat": 0.75, "dog": 0.25}).answer
    'cat'
    """

    question: str
    answer: str
    """The most probable answer."""
    probability: float
    answers: dict[str, float]
    """The best answers and their probabilities, the best first."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VisualExplanation:
    """An answer to a question about a picture, and where each word of the question looked.

    Args:
        answer: The answer.
        tokens: The T words of the question that were read.
        attention: float32 `(T, rows, columns)`: the weights of the regions of the picture, of each
            word its own, which sum to 1; the mean over the heads of the last block.
        view: All attention, of all blocks and heads, for `attention_viewer`.

    Example:

    >>> from keras_attn.corpora import questions_of, sort_of_clevr
    >>> scenes = sort_of_clevr(2, questions=2)
    >>> model, encoder = {"dim": 8, "num_heads": 2, "intermediate_dim": 8}, {"filters": "4,4"}
    >>> answerer = VisualQuestionAnswerer.create(
    ...     questions_of(scenes), model=model, encoder=encoder
    ... )
    >>> explained = answerer.explain((scenes[0].picture, "how many squares ?"))
    >>> [word for word, _ in explained.words()], explained.attention.shape
    (['how', 'many', 'squares', '?'], (4, 16, 16))
    """

    answer: VisualAnswer
    tokens: list[str]
    attention: np.ndarray
    view: AttentionView

    @property
    def title(self) -> str:
        """The question and its answer."""
        return f"{self.answer.question} {self.answer.answer} {percent(self.answer.probability)}"

    def words(self) -> list[tuple[str, np.ndarray]]:
        """Returns the words, each with its map `(rows, columns)`."""
        return list(zip(self.tokens, self.attention, strict=True))

    def plot(self, path: str | os.PathLike | None = None, title: str | None = None) -> Any:
        """Draws the picture, and for each word the picture with its map over it.

        Needs matplotlib, of the extra `examples`.

        Args:
            path: Where the figure is written, if anywhere.
            title: Text above it; the question and the answer if None.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show.
        """
        from keras_attn.visualize import plot_caption

        title = self.title if title is None else title
        return plot_caption(self.view.image, self, path, title=title)

    def _repr_html_(self) -> str:
        return self.view._repr_html_()

    def __repr__(self) -> str:
        return f"VisualExplanation({self.title!r})"


@dataclasses.dataclass(frozen=True)
class VisualLearned(PictureLearned):
    """What the answerer of questions about pictures is made of, and the answers that it knows.

    Raises:
        ValueError: If there are fewer than two answers, or one comes twice.
    """

    answers: tuple[str, ...] = ()
    """The answers, in the order of the logits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "answers", checked_class_names(self.answers))
