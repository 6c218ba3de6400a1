"""Figure of the regions that a captioner attended to for each word."""

import math
import os
from typing import Any

import numpy as np

from keras_attn.visualize.checks import WordMaps, checked_words
from keras_attn.visualize.figures import figure_class, finished, label
from keras_attn.visualize.pictures import Picture, as_image, shrunk, spread

_DARK = 0.3
_GLOW = 40
_SIDE = 320


def plot_caption(
    image: Picture,
    words: WordMaps,
    path: str | os.PathLike | None = None,
    columns: int | None = None,
    title: str | None = None,
) -> Any:
    """Draws an image and the attention map of each word of its caption.

    The figure follows figure 2 of Xu et al., 2015. The image comes first, followed by a copy for
    each word, overlaid with the word's map, which is smoothed between the regions. A copy is
    brightest where the map is greatest, and dark where the map is 0. Each map is scaled to its own
    maximum, so that brightness cannot be compared between words. Drawing needs matplotlib (extra
    `plots`) and Pillow (extra `captioning`), and opens no window.

    Args:
        image: A path, the bytes of a file, or an array `(H, W, 3)` with values from 0 to 255. It is
            drawn at most 640 pixels wide and high.
        words: A list of tuples (word, map `(rows, columns)`), or an object whose method `words()`
            returns this list, such as a `Caption`.
        path: File to write, if any. Its suffix chooses the format.
        columns: Number of images in a row. If None, the number from 4 to 6 that fits best, or fewer
            if there are fewer images.
        title: Text above the figure. If None, the words are used, joined by spaces.

    Returns:
        A `matplotlib.figure.Figure`, which notebooks show.

    Raises:
        ImportError: If matplotlib or Pillow is not installed.
        OSError: If the image file is missing or cannot be read.
        ValueError: If `words` is not a list of words and maps, a map or the image has the wrong
            shape or values, or `columns` is not a positive integer.

    Example:

    >>> words = [("red", [[1.0, 0.0], [0.0, 0.0]]), ("car", [[0.1, 0.2], [0.3, 0.4]])]
    >>> figure = plot_caption(np.full((8, 8, 3), 200), words)
    >>> [axes.get_title() for axes in figure.axes], figure.get_suptitle()
    (['', 'red', 'car'], 'red car')
    """
    image = _enlarged(shrunk(as_image(image)))
    named = checked_words(words)
    count = len(named) + 1
    if columns is None:
        columns = min(count, min(range(6, 3, -1), key=lambda n: -count % n))
    elif isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ValueError(f"`columns` must be a positive integer. Received: {columns!r}.")
    height, width = image.shape[:2]
    rows, cell = math.ceil(count / columns), 1.9
    tall = cell * min(max(height / width, 0.4), 2.5) + 0.3
    figure = figure_class()(figsize=(columns * cell, rows * tall + 0.3), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.02, w_pad=0.02, hspace=0.02, wspace=0.01)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        axes.set_axis_off()
    grid[0].imshow(image)
    for axes, (word, weights) in zip(grid[1:], named, strict=False):
        light = spread(weights, height, width)[..., None]
        shown = image * (_DARK + (1 - _DARK) * light) + _GLOW * light
        axes.imshow(np.minimum(shown, 255).astype("uint8"))
        axes.set_title(label(word), fontsize=11, pad=3)
    if title is None:
        title = " ".join(word for word, _ in named)
    if title:
        figure.suptitle(label(title), wrap=True)
    return finished(figure, path)


def _enlarged(image: np.ndarray) -> np.ndarray:
    """Enlarges small images by an integer factor, so that maps over them are smooth."""
    times = max(1, _SIDE // max(image.shape[:2]))
    return image.repeat(times, axis=0).repeat(times, axis=1)
