"""Captions and answers about an image, with a map over its regions for each word."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np

from keras_attn.explain.alignment import Alignment
from keras_attn.images import load_image
from keras_attn.images.pictures import Picture
from keras_attn.text.readable import END
from keras_attn.visualize import AttentionView
from keras_attn.visualize.display import percent


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Caption:
    """A caption of an image, and the attention of each of its tokens.

    Args:
        text: The caption.
        score: Log-probability of the caption, divided by the length penalty
            (`keras_attn.generation.length_penalty`).
        truncated: Whether the caption was cut at the maximum length, without an end token.
        tokens: The T readable tokens, as returned by `BytePairTokenizer.tokens`; the last one is
            `</s>` unless the caption was cut.
        attention: For each token, the attention weights over the regions of the encoder's `grid`
            when the token was predicted, which sum to 1, float32 `(T, rows, columns)`. For a
            Transformer, the weights are the mean over the heads of the last cross-attention.

    Example:

    >>> weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]])
    >>> caption = Caption("red car", -0.7, False, ["red", "▁c", "ar"], weights)
    >>> [(word, weights.tolist()) for word, weights in caption.words()]
    [('red', [[1.0, 0.0]]), ('car', [[0.25, 0.75]])]
    """

    text: str
    score: float
    truncated: bool
    tokens: list[str]
    attention: np.ndarray

    def words(self) -> list[tuple[str, np.ndarray]]:
        """Returns a list of tuples (word, map), one for each word of the caption.

        A map `(rows, columns)` is the mean of the attention maps of the word's tokens. The end
        token is left out.
        """
        count, *grid = self.attention.shape
        regions = [f"▁{number}" for number in range(grid[0] * grid[1])]  # each of them a word
        broken = "\ufffd" in self.text  # bytes that are no text, which are not its tokens
        words = Alignment(
            regions,
            self.tokens,
            self.attention.reshape(count, -1),
            None,
            None if broken else self.text,
        ).by_words()
        total = len(words.target_tokens) - (self.tokens[-1:] == [END])
        maps = words.weights.reshape(-1, *grid)
        return list(zip(words.target_tokens[:total], maps[:total], strict=True))

    def plot(
        self, image: Picture, path: str | os.PathLike[str] | None = None, title: str | None = None
    ) -> Any:
        """Draws the image, and a copy for each word with its attention map, with matplotlib.

        Args:
            image: The image: a path, the bytes of a file, or a uint8 array `(H, W, 3)`.
            path: File to write, if any.
            title: Text above the figure; the words of the caption if None.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show.

        Raises:
            ImportError: If matplotlib or Pillow is not installed.
            OSError: If the image file is missing or cannot be read.
            ValueError: If the image is not valid.
        """
        from keras_attn.visualize import plot_caption

        return plot_caption(load_image(image), self, path, title=title)

    def __repr__(self) -> str:
        return f"Caption({self.text!r}, score={self.score:.3f}{', cut' * self.truncated})"


class VisualAnswer(NamedTuple):
    """A model's answer to a question about an image.

    Example:

    >>> VisualAnswer("What is it?", "cat", 0.75, {"cat": 0.75, "dog": 0.25}).answer
    'cat'
    """

    question: str
    answer: str
    """The most probable answer."""
    probability: float
    """Probability of `answer`."""
    answers: dict[str, float]
    """The probabilities of the best answers, keyed by answer, the best first."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class VisualExplanation:
    """An answer to a question about an image, and the attention of each word of the question.

    Args:
        answer: The answer.
        tokens: The T words of the question that were read.
        attention: The attention weights of each word over the regions of the image, which sum to 1,
            float32 `(T, rows, columns)`. They are the mean over the heads of the last block.
        view: An `AttentionView` for `attention_viewer`: the attention of the words to the image and
            to each other in all blocks and heads.

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
        """Returns a list of a tuple (word, map `(rows, columns)`) for each word of the question."""
        return list(zip(self.tokens, self.attention, strict=True))

    def plot(self, path: str | os.PathLike | None = None, title: str | None = None) -> Any:
        """Draws the image, and a copy for each word with its attention map, with matplotlib.

        Args:
            path: File to write, if any.
            title: Text above the figure; the question, the answer and its probability if None.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show.

        Raises:
            ImportError: If matplotlib or Pillow is not installed.
        """
        from keras_attn.visualize import plot_caption

        title = self.title if title is None else title
        return plot_caption(self.view.image, self, path, title=title)

    def _repr_html_(self) -> str:
        return self.view._repr_html_()

    def __repr__(self) -> str:
        return f"VisualExplanation({self.title!r})"
