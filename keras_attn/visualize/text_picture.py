"""Figure of a text with its token weights."""

import itertools
import os
import unicodedata
from typing import Any

import numpy as np

from keras_attn.packages import needed
from keras_attn.visualize.figures import figure_class, finished, label
from keras_attn.visualize.shaded_text import ShadedText, TextWeights
from keras_attn.visualize.text_segments import TextSegment

_COLUMNS = 96
# In inches. A column is a whole number of pixels at 100 and at 150 dots an inch.
_COLUMN, _LINE, _ABOVE, _BELOW = 0.1, 0.3, 0.48, 0.8
# The letters of DejaVu Sans Mono are 0.602 times as wide as they are high.
_SIZE = 72 * _COLUMN / 0.602
_FONTS = ["DejaVu Sans Mono", "DejaVu Sans"]
_Line = list[tuple[int, str, float | None]]
"""Column, piece, weight."""


def plot_text_weights(
    explanation: TextWeights,
    path: str | os.PathLike | None = None,
    title: str | None = None,
    max_lines: int = 40,
) -> Any:
    """Draws a text with its tokens shaded by weight.

    Drawing needs matplotlib (extra `plots`), and opens no window. Letters that no installed font
    contains are drawn as boxes, with a warning, and all text runs from left to right. For such
    letters, coloured emoji and Arabic, use `text_weights_html`.

    Args:
        explanation: An `Explanation` of a text or a pair of texts.
        path: File to write, if any. Its suffix chooses the format.
        title: Title of the figure. If None, the label is used, with its probability if known.
        max_lines: Maximum number of lines. In a longer text, an ellipsis replaces the remaining
            lines.

    Returns:
        A `matplotlib.figure.Figure`, which notebooks show.

    Raises:
        ImportError: If matplotlib is not installed.

    Example:

    >>> from keras_attn.explain import Explanation
    >>> explanation = Explanation("so good", ["so", "good"], [(0, 2), (3, 7)], [0.1, 0.9])
    >>> figure = plot_text_weights(explanation)
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['so', ' ', 'good']
    """
    with needed("A drawing"):
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap, Normalize
        from matplotlib.patches import Rectangle

    shaded = ShadedText(explanation)
    lines = [line for pieces in shaded.texts for line in _wrapped(pieces)]
    if len(lines) > max_lines:
        lines = [*lines[:max_lines], [(0, "…", None)]]
    width, text = _COLUMNS * _COLUMN + 0.4, len(lines) * _LINE
    height = text + _ABOVE + _BELOW
    figure = figure_class()(figsize=(width, height))
    axes = figure.add_axes((0.2 / width, _BELOW / height, 1 - 0.4 / width, text / height))
    axes.set(xlim=(0, _COLUMNS), ylim=(len(lines), 0))
    axes.set_axis_off()
    style = {"family": _FONTS, "fontsize": _SIZE, "va": "center"}
    for y, line in enumerate(lines):
        for x, piece, weight in line:
            if weight is not None:
                color = [c / 255 for c in shaded.color(weight)]
                box = Rectangle((x, y + 0.08), _width(piece), 0.84, color=color, linewidth=0)
                axes.add_patch(box)
            ink = "#767676" if weight is None else "#1a1a1a"
            axes.text(x, y + 0.5, label(piece, _FONTS), color=ink, **style)
    colors = LinearSegmentedColormap.from_list("weights", np.array(shaded.scale()) / 255)
    limits = Normalize(-shaded.largest if shaded.signed else 0, shaded.largest or 1)
    place = figure.add_axes((0.2 / width, 0.5 / height, 2.6 / width, 0.12 / height))
    bar = figure.colorbar(ScalarMappable(limits, colors), cax=place, orientation="horizontal")
    bar.ax.locator_params(nbins=4)
    bar.ax.tick_params(labelsize=8)
    bar.set_label(label(explanation.method or "weight", _FONTS), family=_FONTS, fontsize=8)
    bar.outline.set_linewidth(0.3)
    title = shaded.title if title is None else title
    figure.text(
        0.2 / width, 1 - 0.1 / height, label(title, _FONTS), family=_FONTS, fontsize=13, va="top"
    )
    return finished(figure, path)


def _wrapped(segments: list[TextSegment]) -> list[_Line]:
    """Lines of pieces, broken at white space if possible."""
    characters: list[tuple[str, float | None]] = []
    for segment in segments:
        border = [(" ", None)] * (segment.start == segment.end)  # it is not part of the text
        letters = [(c, segment.weight) for c in segment.text.replace("\t", "    ")]
        characters += [*border, *letters, *border]
    lines: list[_Line] = [[]]
    column = 0
    for is_space, group in itertools.groupby(characters, lambda item: item[0].isspace()):
        word = list(group)
        if not is_space and column and column + sum(_width(c) for c, _ in word) > _COLUMNS:
            lines.append([])
            column = 0
        for character, weight in word:
            if character == "\n" or column + _width(character) > _COLUMNS:
                lines.append([])
                column = 0
                if is_space:
                    continue
            last = lines[-1][-1] if lines[-1] else None
            if last is not None and last[2] == weight:
                lines[-1][-1] = (last[0], last[1] + character, weight)
            else:
                lines[-1].append((column, character, weight))
            column += _width(character)
    return lines


def _width(text: str) -> int:
    """Columns as in a terminal: Chinese characters and emoji take two, accents none."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )
