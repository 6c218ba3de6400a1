"""Figure of all heads of all layers."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_attn.packages import needed
from keras_attn.visualize.checks import checked_layers
from keras_attn.visualize.display import displayed_tokens
from keras_attn.visualize.figures import figure_class, finished, label

_WIDEST = 15.0
_WIDEST_TOKEN = 0.17
_LEAST_READABLE = 0.085
_LEAST_HEAD = 0.7


def plot_attention_heads(
    weights: Sequence[npt.ArrayLike],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | os.PathLike | None = None,
    title: str | None = None,
) -> Any:
    """Draws the attention of all heads of all layers in one figure.

    Each layer is a row of maps and each head a column. In a map, rows are queries (target tokens)
    and columns are keys (source tokens). All maps share one colour scale, the square root of the
    weight, so that attention spread evenly over a hundred tokens remains visible. The rows and
    columns of the maps are labelled with the tokens if there is room: if the texts have at most 8
    tokens, or the maps of a layer have fewer than about 170 columns in total. Drawing needs
    matplotlib (extra `plots`), and opens no window.

    Args:
        weights: Weights `(heads, T, S)` of each layer, or the result of `AttentionMaps.select` for
            a batch of one text. Layers may have different numbers of heads.
        source_tokens: The S source tokens, as labels.
        target_tokens: The T target tokens, as labels.
        path: File to write, if any. Its suffix chooses the format.
        title: Text above the maps; None for no text.

    Returns:
        A `matplotlib.figure.Figure`, which notebooks show.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there is no layer or no token, the shapes of the weights do not match the
            numbers of tokens, or a weight is negative or not finite.

    Example:

    >>> weights = [np.full((4, 2, 3), 1 / 3), np.full((4, 2, 3), 1 / 3)]
    >>> figure = plot_attention_heads(weights, ["ein", "Hund", "</s>"], ["a", "dog"])
    >>> figure.axes[0].images[0].get_array().shape  # 2 x 4 maps with gaps
    (5, 15)
    """
    with needed("A drawing"):
        from matplotlib.colors import PowerNorm

    source_tokens, target_tokens = _names(source_tokens), _names(target_tokens)
    rows, keys = len(target_tokens), len(source_tokens)
    layers = checked_layers(weights, rows, keys)
    if not rows or not keys:
        raise ValueError("Expected at least one query and one key. Received: none.")
    heads = max(layer.shape[0] for layer in layers)
    gap = max(1, round(0.06 * max(rows, keys)))
    tops = [i * (rows + gap) for i in range(len(layers))]
    starts = [j * (keys + gap) for j in range(heads)]
    page = np.full((tops[-1] + rows, starts[-1] + keys), np.nan, "f4")
    for top, layer in zip(tops, layers, strict=True):
        for start, head in zip(starts, layer, strict=False):
            page[top : top + rows, start : start + keys] = head
    # Inches a token: room for names if possible, and no map too small to see.
    token = min(_WIDEST_TOKEN, _WIDEST / page.shape[1])
    token = max(token, _LEAST_HEAD / max(rows, keys))
    named = token >= _LEAST_READABLE
    sizes = page.shape[1] * token, page.shape[0] * token
    left = 0.55 + named * _room(target_tokens, token)
    above = 0.35 + named * _room(source_tokens, token) + 0.35 * bool(title)
    width, height = max(left + sizes[0] + 0.2, 3.4), above + sizes[1] + 0.75
    figure = figure_class()(figsize=(width, height))
    axes = figure.add_axes(
        (left / width, 0.75 / height, sizes[0] / width, sizes[1] / height), frameon=False
    )
    image = axes.imshow(np.ma.masked_invalid(page), cmap="Blues", norm=PowerNorm(0.5, 0, 1))
    axes.set(xticks=[], yticks=[])
    style: dict[str, Any] = {"fontsize": 9, "annotation_clip": False, "textcoords": "offset points"}
    inwards = 72 * (left - 0.2)
    for i, top in enumerate(tops):
        place = (-0.5, top + rows / 2 - 0.5)
        axes.annotate(f"layer {i}", place, (-inwards, 0), rotation=90, ha="center", va="center",
                      **style)  # fmt: skip
    upwards = 72 * (0.06 + named * _room(source_tokens, token))
    for j, start in enumerate(starts):
        place = (start + keys / 2 - 0.5, -0.5)
        axes.annotate(f"head {j}", place, (0, upwards), ha="center", va="bottom", **style)
    across, down = np.array([0, 1, 1, 0, 0]) * keys - 0.5, np.array([0, 0, 1, 1, 0]) * rows - 0.5
    for top, layer in zip(tops, layers, strict=True):
        for start in starts[: len(layer)]:
            axes.plot(start + across, top + down, color="#999999", linewidth=0.4, clip_on=False)
    axes.set(xlim=(-0.5, page.shape[1] - 0.5), ylim=(page.shape[0] - 0.5, -0.5))
    if named:
        size = _font_size(token)
        places = [start + k for start in starts for k in range(keys)]
        axes.set_xticks(places, source_tokens * heads, rotation=90, fontsize=size)
        places = [top + k for top in tops for k in range(rows)]
        axes.set_yticks(places, target_tokens * len(layers), fontsize=size)
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=2)
    bar = figure.add_axes((left / width, 0.45 / height, min(2.2, sizes[0]) / width, 0.1 / height))
    figure.colorbar(image, cax=bar, orientation="horizontal", ticks=[0, 0.1, 0.5, 1])
    bar.tick_params(labelsize=8)
    bar.set_xlabel("attention weight", fontsize=8)
    if title:
        figure.text(
            0.5, 1 - 0.12 / height, label(title), ha="center", va="top", fontsize=12, wrap=True
        )
    return finished(figure, path)


def _names(tokens: Sequence[str]) -> list[str]:
    return [label(token.text) for token in displayed_tokens(tokens)]


def _font_size(token: float) -> float:
    return min(8.0, 0.8 * 72 * token)


def _room(tokens: Sequence[str], token: float) -> float:
    """Inches that the longest name takes."""
    return min(0.1 + 0.62 * _font_size(token) / 72 * max(len(t) for t in tokens), 2.0)
