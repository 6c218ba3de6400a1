"""Figures of the importance of attention heads."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_attn.visualize.figures import figure_class


def plot_head_importance(
    values: Mapping[str, np.ndarray], path: str | os.PathLike | None = None
) -> Any:
    """Draws the importance of heads, with layers as rows and heads as columns.

    Heads with positive importance, which help the model, are red, and heads with negative
    importance are blue; all layers share one colour scale. Drawing needs matplotlib (extra
    `plots`), and opens no window.

    Args:
        values: The importance `(N,)` of the N heads of each layer, keyed by the layer's name.
            Layers may have different numbers of heads.
        path: File to write, if any. Its suffix chooses the format.

    Returns:
        A `matplotlib.figure.Figure`, which notebooks show.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there is no head.

    Example:

    >>> figure = plot_head_importance({"first": np.array([0.1, 0.3]), "second": np.array([0.2])})
    >>> figure.axes[0].images[0].get_array().shape
    (2, 2)
    """
    most = max((len(row) for row in values.values()), default=0)
    if not most:
        raise ValueError("Expected the importance of at least one head. Received: none.")
    table = np.full((len(values), most), np.nan)
    for i, row in enumerate(values.values()):
        table[i, : len(row)] = row
    figure = figure_class()(figsize=(3.5 + 0.5 * most, 1.6 + 0.4 * len(values)), layout="tight")
    axes = figure.add_subplot()
    limit = float(np.nanmax(np.abs(table))) or 1.0
    image = axes.imshow(table, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(range(most))
    axes.set_yticks(range(len(values)), list(values))
    axes.set_xlabel("head")
    figure.colorbar(image, label="importance")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
