"""Explanation of a text classifier's prediction by token weights."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn.visualize import plot_text_weights, text_weights_fragment, text_weights_html
from keras_attn.visualize.shaded_text import explained_pieces
from keras_attn.visualize.text_segments import strongest_pieces


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The weight of each token of a text in a classifier's prediction.

    Notebooks display an explanation as the text with its tokens shaded.

    Attention weights are non-negative. They show where the model looked, which does not prove that
    a token was decisive. The weights of gradient times input are signed: tokens with positive
    weights support `label`, and tokens with negative weights speak against it. `deletion_curve`
    measures how well weights identify the decisive tokens.

    Args:
        text: The text.
        tokens: The T readable tokens of the text.
        offsets: The range of characters `(start, end)` of each token in `text`. Tokens that share a
            character have equal or overlapping ranges. A token that is not in the text, such as
            `[CLS]`, has an empty range.
        weights: The weight of each token, a finite number.
        label: Name of the class that the weights explain; None if there are no classes.
        probabilities: The probability of each class, keyed by its name; may be empty.
        method: Displayed name of the method, such as `"attention"` or `"gradient x input"`.
        second: The second text of a pair; None for a single text.
        segments: The segment of each token: 0 for tokens of `text`, and 1 for tokens of `second`,
            whose offsets refer to `second`. If empty, all tokens belong to `text`.
        marked: A `(start, end)` range of characters of the last text that pages show in a frame,
            such as the answer to a question; None for no frame.

    Raises:
        ValueError: If the numbers of tokens, offsets, weights or segments differ; if a segment has
            no text; if a weight is not finite, or a probability is not from 0 to 1; if an offset or
            `marked` is outside of its text, or `marked` is empty; or if `probabilities` is not
            empty and does not contain `label`.

    Example:

    >>> explanation = Explanation(
    ...     "not good", ["not", "good"], [(0, 3), (4, 8)], [0.7, -0.2], "negative",
    ...     {"negative": 0.9, "positive": 0.1}, "gradient x input"
    ... )
    >>> explanation.strongest()
    [('not', 0.7), ('good', -0.2)]
    """

    text: str
    tokens: Sequence[str]
    offsets: Sequence[tuple[int, int]]
    weights: np.ndarray
    """The weight of each token, float64 `(T,)`."""
    label: str | None = None
    probabilities: Mapping[str, float] = dataclasses.field(default_factory=dict)
    method: str = ""
    second: str | None = None
    segments: Sequence[int] = ()
    marked: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, "float64")
        offsets = [(int(start), int(end)) for start, end in self.offsets]
        if weights.shape != (len(self.tokens),) or len(offsets) != len(self.tokens):
            raise ValueError(
                f"Expected a weight and an offset for each of the {len(self.tokens)} tokens. "
                f"Received: weights of shape {weights.shape} and {len(offsets)} offsets."
            )
        if not np.isfinite(weights).all():
            raise ValueError(f"Expected finite `weights`. Received: {weights}.")
        segments = [int(number) for number in self.segments] or [0] * len(offsets)
        texts = [self.text] if self.second is None else [self.text, self.second]
        if len(segments) != len(offsets) or not all(0 <= n < len(texts) for n in segments):
            raise ValueError(
                f"Expected a segment id below {len(texts)} for each of the {len(offsets)} tokens. "
                f"Received: {segments}."
            )
        for (start, end), number in zip(offsets, segments, strict=True):
            if not 0 <= start <= end <= len(texts[number]):
                raise ValueError(
                    "Expected offsets (start, end) with 0 <= start <= end <= "
                    f"{len(texts[number])}, the length of the text. Received: {(start, end)}."
                )
        if self.marked is not None and not 0 <= self.marked[0] < self.marked[1] <= len(texts[-1]):
            raise ValueError(
                "Expected `marked` to be (start, end) with 0 <= start < end <= "
                f"{len(texts[-1])}, the length of the text. Received: {self.marked}."
            )
        probabilities = {name: float(p) for name, p in self.probabilities.items()}
        if not all(0 <= p <= 1 for p in probabilities.values()):
            raise ValueError(f"Expected probabilities from 0 to 1. Received: {probabilities}.")
        if self.label is not None and probabilities and self.label not in probabilities:
            raise ValueError(
                f"Expected a `label` that has a probability, one of {list(probabilities)}. "
                f"Received: {self.label!r}."
            )
        for name, value in (
            ("tokens", tuple(self.tokens)),
            ("offsets", tuple(offsets)),
            ("weights", weights),
            ("segments", tuple(segments)),
            ("probabilities", probabilities),
        ):
            object.__setattr__(self, name, value)

    def strongest(self, count: int = 10) -> list[tuple[str, float]]:
        """Lists the pieces of the text with the largest absolute weights.

        Args:
            count: Maximum number of pieces.

        Returns:
            A list of tuples (piece, weight), the strongest first. Tokens that share a character
            form one piece with the sum of their weights. Tokens that are not in the text, such as
            `[CLS]`, are also pieces.

        Example:

        >>> Explanation("a cat", ["a", " cat"], [(0, 1), (1, 5)], [0.1, 0.9]).strongest(1)
        [('cat', 0.9)]
        """
        pieces = [piece for of_text in explained_pieces(self) for piece in of_text]
        return strongest_pieces(pieces)[:count]

    def html(self, title: str | None = None) -> str:
        """Returns an HTML page of the text with its tokens shaded by weight.

        The page is made by `keras_attn.visualize.text_weights_html`.

        Args:
            title: Heading of the page. If None, the label is used, or "What decided" if there is no
                label.

        Returns:
            The page as an HTML string; write it as UTF-8.

        Example:

        >>> "<title>positive</title>" in Explanation("", [], [], [], "positive").html()
        True
        """
        if title is None:
            title = self.label or "What decided"
        return text_weights_html([self], title=title)

    def plot(self, path: str | os.PathLike | None = None, title: str | None = None) -> Any:
        """Draws the text with its tokens shaded by weight, with matplotlib.

        The figure is made by `keras_attn.visualize.plot_text_weights`.

        Args:
            path: File to write, if any.
            title: Title of the figure. If None, the label is used, with its probability if known.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show.

        Raises:
            ImportError: If matplotlib is not installed.

        Example:

        >>> figure = Explanation("good", ["good"], [(0, 4)], [0.5]).plot()
        >>> figure.axes[0].texts[0].get_text()
        'good'
        """
        return plot_text_weights(self, path, title)

    def _repr_html_(self) -> str:
        return text_weights_fragment(self)

    def __repr__(self) -> str:
        about = "" if self.label is None else f" for {self.label!r}"
        return f"<Explanation of {len(self.tokens)} tokens{about}>"
