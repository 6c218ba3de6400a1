"""Texts about an image, with a map over its regions for each word."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np

from keras_attn.visualize import AttentionView
from keras_attn.visualize.display import percent


class VisualAnswer(NamedTuple):
    """The answer of a model to a question about an image.

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
    """An answer to a question about an image, and the attention of each word of the question.

    Args:
        answer: The answer.
        tokens: The T words of the question that were read.
        attention: float32 `(T, rows, columns)`: the attention weights of each word over the regions
            of the image, which sum to 1; the mean over the heads of the last block.
        view: All attention, of all blocks and heads, for `attention_viewer`.

    Example:

    >>> picture, question = np.zeros((64, 64, 3), "uint8"), "how many squares ?"
    >>> model, encoder = {"dim": 8, "num_heads": 2, "intermediate_dim": 8}, {"filters": "4,4"}
    >>> answerer = VisualQuestionAnswerer.create(
    ...     [(picture, question, "none"), (picture, "is it red ?", "no")],
    ...     model=model,
    ...     encoder=encoder,
    ... )
    >>> explained = answerer.explain((picture, question))
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
        """Draws the image, and for each word the image with its map over it.

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
