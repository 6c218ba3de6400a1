"""HTML page of one word in many sentences: its vectors and its attention."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_attn.visualize.attention_view import AttentionView
from keras_attn.visualize.focus import Focus
from keras_attn.visualize.viewer_page import page_with_viewer
from keras_attn.visualize.web_page import escaped

_COLOURS = 6
_WIDTH, _HEIGHT, _MARGIN = 300, 220, 14


def contextual_page(
    word: str,
    sentences: Sequence[str],
    vectors: npt.ArrayLike,
    views: Sequence[AttentionView],
    places: Sequence[int],
    *,
    senses: Sequence[str] | None = None,
    accuracies: npt.ArrayLike | None = None,
    chance: float | None = None,
    neighbours: Sequence[tuple[str, float]] = (),
    title: str = "",
) -> str:
    """Returns an HTML page of one word in many sentences.

    The page is a single file without external resources. It begins with the neighbours of the
    word's static vector. A plot for each layer follows, in which each point is the vector of the
    word in one sentence, scaled to length 1 and projected onto the two main directions of these
    vectors. Then comes the list of sentences, each with a button that shows the attention of the
    word in the viewer at the end of the page.

    Args:
        word: The word.
        sentences: The S sentences.
        vectors: The vectors of width D of the word in each sentence, `(L + 1, S, D)`: layer 0 are
            the embeddings, and layers 1 to L the outputs of L blocks.
        views: An `AttentionView` of each sentence, whose first part has the sentence's tokens as
            queries.
        places: Index of the word's first token in each sentence, from 0.
        senses: The sense of the word in each sentence, or None.
        accuracies: For each layer, the fraction of sentences whose nearest other sentence has the
            same sense, or None. The layers with the highest accuracy are marked.
        chance: The accuracy if all other sentences were equally near, or None.
        neighbours: Tuples of a word and its cosine: the words nearest to the static vector of the
            word. If empty, the page does not show them.
        title: Heading of the page; if empty, the heading names the word.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ValueError: If the numbers of vectors, views, places, senses and sentences differ, or a
            place is not the index of a token.

    Example:

    >>> part = AttentionPart("self", ["a", "bat"], ["a", "bat"], [np.ones((1, 2, 2)) / 2])
    >>> page = contextual_page("bat", ["a bat"], np.ones((2, 1, 4)), [AttentionView([part])], [1])
    >>> page.count("<svg"), 'data-view="0" data-query="1"' in page
    (2, True)
    """
    vectors = np.asarray(vectors, "float64")
    count = len(sentences)
    sides = [len(views), len(places), count if senses is None else len(senses)]
    if vectors.ndim != 3 or vectors.shape[1] != count or sides != [count] * 3:
        raise ValueError(
            f"Expected vectors of shape (L + 1, {count}, D), and a view, a place and a sense "
            f"for each of the {count} sentences. Received: vectors of shape {vectors.shape}, "
            f"{sides}."
        )
    names = list(dict.fromkeys(senses or ()))
    colours = [names.index(s) % _COLOURS for s in senses] if senses is not None else [0] * count
    scores = None if accuracies is None else np.asarray(accuracies, "float64")
    figures = [_figure(i, layer, sentences, colours, scores) for i, layer in enumerate(vectors)]
    keys = " ".join(
        f'<span class="key s{i % _COLOURS}"></span>{escaped(name)} ' for i, name in enumerate(names)
    )
    if scores is not None and chance is not None:
        keys += escaped(f"By chance the nearest has the sense in {chance:.0%}.").replace("%", " %")
    near = ", ".join(f"{escaped(w)} ({cosine:.2f})" for w, cosine in neighbours)
    static = (
        f'<div class="card"><h2>One static vector</h2><p>Nearest to “{escaped(word)}” wherever it '
        f"stands: {near}.</p></div>"
        if near
        else ""
    )
    rows = "".join(
        f'<li><button class="go" type="button" data-view="{i}" data-query="{place}">Show</button>'
        f'<span class="key s{colour}"></span>{escaped(sentence)}'
        + (f' <span class="sense">{escaped(senses[i])}</span>' if senses is not None else "")
        + "</li>"
        for i, (sentence, place, colour) in enumerate(zip(sentences, places, colours, strict=True))
    )
    views = [
        dataclasses.replace(view, focus=Focus(place))
        for view, place in zip(views, places, strict=True)
    ]
    return page_with_viewer(
        views,
        title or f"“{word}” in {count} sentences",
        above=f'{static}<h2 class="section">Its vectors, layer by layer</h2><p class="hint">A point'
        " is the word in one sentence; point at it to read that. "
        f'{keys}</p><div class="layers">{"".join(figures)}</div>'
        f'<h2 class="section">Sentences</h2><div class="card"><ul class="uses">{rows}</ul></div>'
        '<h2 class="section">What the word looks at</h2>',
        styles=("senses.css",),
        scripts=("encoder.js",),
    )


def main_directions(vectors: npt.ArrayLike) -> np.ndarray:
    """Scales vectors to length 1, and projects them onto their two main directions (PCA).

    Args:
        vectors: Vectors `(S, D)`.

    Returns:
        The coordinates, float64 `(S, 2)`. In each column, the entry with the largest absolute value
        is positive.

    Example:

    >>> main_directions([[1, 0], [-1, 0], [1, 0]]).round(3).tolist()
    [[-0.667, 0.0], [1.333, 0.0], [-0.667, 0.0]]
    """
    vectors = np.asarray(vectors, "float64")
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    units = vectors / np.where(lengths > 0, lengths, 1.0)
    units = units - units.mean(axis=0)
    u, s, _ = np.linalg.svd(units, full_matrices=False)
    found = np.zeros((len(units), 2))
    found[:, : min(2, len(s))] = (u * s)[:, :2]
    signs = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    return found * np.where(signs < 0, -1.0, 1.0)


def _figure(
    number: int,
    layer: np.ndarray,
    sentences: Sequence[str],
    colours: Sequence[int],
    scores: np.ndarray | None,
) -> str:
    points = main_directions(layer)
    low, spread = points.min(axis=0), float(np.ptp(points, axis=0).max())
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    shares = (points - low) / spread if spread > 1e-9 else np.full_like(points, 0.5)
    dots = "".join(
        f'<circle class="s{colour}" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{escaped(text)}</title>'
        "</circle>"
        for (x, y), colour, text in zip(_MARGIN + shares * room, colours, sentences, strict=True)
    )
    name = f"Layer {number}" if number else "Layer 0 (embeddings)"
    best = scores is not None and bool(scores[number] == scores.max())
    if scores is not None:
        name += f": nearest has the sense in {scores[number]:.0%}".replace("%", " %")
    return (
        f"<figure{' class=best' if best else ''}><figcaption>{name}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">{dots}</svg>'
        "</figure>"
    )
