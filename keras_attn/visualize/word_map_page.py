"""HTML page with a map of words, a search and nearest neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_attn.metrics import WordSpace
from keras_attn.packages import needed
from keras_attn.visualize.display import drawable
from keras_attn.visualize.web_page import json_for_page, page_files, source_hash, web_page

_CONTENT = """\
<p class="hint">Similar words lie together (t-SNE, so far distances mean little). Click a word for
its neighbours by the cosine, drag and turn the wheel to look closer; or use the arrows, + and -.
Words are written where there is room: look closer to read more of them.
</p><div class="words"><div class="card"><svg id="map" viewBox="0 0 1000 800" tabindex="0"
role="application" aria-label="Map of words"></svg><div class="zoom">
<button type="button" id="farther" aria-label="Farther">&minus;</button>
<button type="button" id="closer" aria-label="Closer">+</button></div></div><div class="card">
<label><h2>Search</h2><input id="search" type="search" autocomplete="off"></label>
<ul id="found"></ul><p id="word" aria-live="polite"></p><ol id="near"></ol></div></div>
"""


def word_places(vectors: npt.ArrayLike, seed: int = 0) -> np.ndarray:
    """Computes a position on a map for each vector with t-SNE, which needs scikit-learn.

    References:
        - [van der Maaten and Hinton, 2008](https://jmlr.org/papers/v9/vandermaaten08a.html).

    Args:
        vectors: At least five unit vectors `(N, D)`, so that distances correspond to cosines.
        seed: Seed of t-SNE.

    Returns:
        The positions, float64 `(N, 2)`, from 0 to 1 along the longer side of the map.

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If there are fewer than five vectors.

    Example:

    >>> word_places(np.eye(6)).shape
    (6, 2)
    """
    vectors = np.asarray(vectors, "float32")
    if len(vectors) < 5:
        raise ValueError(f"Expected at least five words for a map. Received: {len(vectors)}.")
    with needed("A map of words"):
        from sklearn.manifold import TSNE
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    start = "pca" if min(vectors.shape) > 1 else "random"
    found = TSNE(2, perplexity=perplexity, init=start, random_state=seed).fit_transform(vectors)
    found = found.astype("float64") - found.min(axis=0)
    return found / max(float(found.max()), 1e-12)


def word_map_page(
    space: WordSpace,
    words: int | Sequence[str] = 1000,
    *,
    top_k: int = 10,
    places: npt.ArrayLike | None = None,
    title: str = "Words",
    seed: int = 0,
) -> str:
    """Returns a self-contained HTML page with a map of words, in which similar words are near.

    Args:
        space: A `keras_attn.metrics.WordSpace`.
        words: The words on the map, or a number n for the first n words.
        top_k: Number of nearest neighbours, among all words of the space, that a click on a word
            shows.
        places: Positions of the N distinct words, numbers from 0 to 1, `(N, 2)`; computed by
            `word_places` if None.
        title: Heading of the page.
        seed: Seed of `word_places`.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ImportError: If `places` is None, and scikit-learn is not installed.
        ValueError: If a word has no vector, `places` has the wrong shape, or `places` is None and
            there are fewer than five words.

    Example:

    >>> space = WordSpace(list("abcdef"), np.eye(6))
    >>> page = word_map_page(space, top_k=2, places=np.zeros((6, 2)))
    >>> "t-SNE" in page, "http://" in page.replace("http://www.w3.org/2000/svg", "")
    (True, False)
    """
    if isinstance(words, int):
        shown = list(range(min(words, len(space))))
    else:
        found = [space.place(word) for word in words]
        missing = [w for w, place in zip(words, found, strict=True) if place is None]
        if missing:
            raise ValueError(
                f"Expected words with vectors. Received: {missing[:8]}, which have no vector."
            )
        shown = list(dict.fromkeys(place for place in found if place is not None))
    if places is None:
        places = word_places(space.units[shown], seed)
    places = np.asarray(places, "float64")
    if places.shape != (len(shown), 2):
        raise ValueError(
            f"Expected places of shape ({len(shown)}, 2), one for each word. Received: shape "
            f"{places.shape}."
        )
    number = {space.words[place]: i for i, place in enumerate(shown)}
    near = [
        [
            [number.get(n.word, drawable(n.word)), round(n.similarity, 4)]
            for n in space.near(space.units[place], top_k, [place])
        ]
        for place in shown
    ]
    data = {
        "words": [drawable(space.words[place]) for place in shown],
        "x": (40 + 920 * places[:, 0]).round(1).tolist(),
        "y": (40 + 720 * places[:, 1]).round(1).tolist(),
        "near": near,
    }
    style = page_files("viewer.css", "words.css")
    script = f'(() => {{\n"use strict";{page_files("words.js")}}})();\n'
    return web_page(
        title,
        _CONTENT,
        style,
        f"style-src {source_hash(style)}; script-src {source_hash(script)}",
        f'\n<script type="application/json" id="data">{json_for_page(data)}</script>\n'
        f"<script>{script}</script>",
    )
