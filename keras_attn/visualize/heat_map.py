"""Attention weights as a heat map."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_attn.visualize.checks import checked_weights
from keras_attn.visualize.figures import figure_class, finished, label


def plot_attention(
    weights: npt.ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | os.PathLike | None = None,
    title: str | None = None,
) -> Any:
    """Draws a heat map of attention weights, as in figure 3 of Bahdanau et al., 2015.

    Rows are queries (target tokens), and columns are keys (source tokens). The darkest colour means
    1, and white means 0. Drawing needs matplotlib (extra `plots`), and opens no window.

    Args:
        weights: Attention weights `(T, S)`.
        source_tokens: The S source tokens, as labels.
        target_tokens: The T target tokens, as labels.
        path: File to write, if any. Its suffix chooses the format.
        title: Title of the figure; None for no title.

    Returns:
        A `matplotlib.figure.Figure`, which notebooks show.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If the shape of the weights does not match the numbers of tokens.

    Example:

    >>> figure = plot_attention([[0.9, 0.1]], ["ein", "Hund"], ["a"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['ein', 'Hund']
    """
    weights = checked_weights(weights, source_tokens, target_tokens)
    size = (1.8 + 0.34 * len(source_tokens), 1.5 + 0.3 * len(target_tokens))
    figure = figure_class()(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source_tokens)), [label(t) for t in source_tokens], rotation=60)
    for name in axes.get_xticklabels():
        name.set(ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target_tokens)), [label(t) for t in target_tokens])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(0.5, len(source_tokens)), minor=True)
    axes.set_yticks(np.arange(0.5, len(target_tokens)), minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)
    figure.colorbar(image, ax=axes, shrink=0.7, label="attention weight")
    if title:
        figure.suptitle(label(title), wrap=True)
    return finished(figure, path)
