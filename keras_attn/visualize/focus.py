"""Initial selection of the attention viewer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.visualize.display import DisplayedToken, displayed_tokens

MEAN = "mean"


@dataclasses.dataclass(frozen=True)
class Focus:
    """The initial selection of the attention viewer.

    Fields that are None are chosen so that the viewer opens on the strongest link: the largest
    weight between two words in the layers and heads that the other fields allow. Links from and to
    special tokens such as `[CLS]` are ignored, unless `word` or `on` selects the token or there are
    no other tokens. In self-attention with `on=None`, links of a token to itself and to its
    neighbours are also ignored if there are other links, because some heads attend to them in every
    text.

    Args:
        word: The query word, in upper or lower case, or the index of its token, from 0.
        on: The key word, in upper or lower case, or the index of its token, from 0.
        layer: Index of the layer (negative indices count from the end), or `"mean"` for the mean
            over all layers and heads.
        head: Index of the head (negative indices count from the end), or `"mean"`. It is ignored
            with `layer="mean"`.
        part: Index of the part of the view, from 0.

    Example:

    >>> tokens = ["a", "b", "c", "d"]
    >>> weights = np.array([np.eye(4), np.eye(4)[::-1]])
    >>> AttentionView([AttentionPart("self", tokens, tokens, [weights])], focus=Focus("d", on="a"))
    <AttentionView 'a b c d': self>
    """

    word: str | int | None = None
    on: str | int | None = None
    layer: int | str | None = None
    head: int | str | None = None
    part: int = 0


def find_focus(parts: Sequence[Any], focus: Focus | None) -> dict[str, int]:
    """Finds the part, layer, head and word on which the viewer opens.

    Args:
        parts: The `AttentionPart`s of an `AttentionView`.
        focus: A `Focus`, such as `view.focus`. If None, the strongest link is chosen.

    Returns:
        A dict of indices from 0: `part`, `layer`, `head` and `query` (the token of the query word).
        A layer or head of -1 stands for the mean.

    Raises:
        ValueError: If the view does not have the part, layer, head or word.

    Example:

    >>> tokens = ["a", "b", "c", "d"]
    >>> weights = np.array([np.eye(4), np.eye(4)[::-1]])
    >>> view = AttentionView([AttentionPart("self", tokens, tokens, [weights])])
    >>> find_focus(view.parts, Focus("d", on="a"))
    {'part': 0, 'layer': 0, 'head': 1, 'query': 3}
    """
    focus = focus or Focus()
    if not 0 <= focus.part < len(parts):
        raise ValueError(f"`part` must be one of the {len(parts)} parts. Received: {focus.part!r}.")
    part = parts[focus.part]
    shown = displayed_tokens(part.queries)
    queries = _allowed(focus.word, shown, "word")
    keys = np.ones(part.weights[0].shape[2], bool)
    if part.keys is not None:
        keys = _allowed(focus.on, displayed_tokens(part.keys), "on")
    elif focus.on is not None:
        keys = _allowed(focus.on, [DisplayedToken("", False, False)] * len(keys), "on")
    links = queries[:, None] & keys
    if part.keys == part.queries and focus.on is None:
        distances = np.abs(np.subtract.outer(np.arange(len(queries)), np.arange(len(keys))))
        links = links & (distances > 1) if (links & (distances > 1)).any() else links
    layers = _numbers(focus.layer, len(part.weights), "layer")
    best = (-1.0, layers[0], -1, int(np.flatnonzero(queries)[0]))
    for layer in layers:
        weights = part.weights[layer] if layer >= 0 else None
        heads = [-1] if weights is None else _numbers(focus.head, len(weights), "head")
        for head in heads:
            if weights is None:
                table = np.mean([layer.mean(axis=0) for layer in part.weights], axis=0)
            else:
                table = weights[head] if head >= 0 else weights.mean(axis=0)
            table = np.where(links, table, 0)
            most = float(table.max())
            if most > best[0]:
                best = (most, layer, head, int(table.max(axis=1).argmax()))
    _, layer, head, query = best
    if not links[query].any() or best[0] <= 0:
        query = int(np.flatnonzero(queries)[0])
    return {"part": focus.part, "layer": layer, "head": head, "query": query}


def _allowed(
    wanted: str | int | None, shown: Sequence[DisplayedToken], argument: str
) -> np.ndarray:
    """Which tokens may be chosen."""
    if wanted is None:
        words = np.array([not token.special for token in shown])
        return words if words.any() else ~words
    place = wanted if isinstance(wanted, int) else place_of(shown, wanted)
    if place is None or not 0 <= place < len(shown):
        raise ValueError(
            f"`{argument}` must be a word of the text, or a number below {len(shown)}. Received: "
            f"{wanted!r}; the tokens are {[token.text for token in shown][:30]}."
        )
    return np.arange(len(shown)) == place


def _numbers(wanted: int | str | None, count: int, argument: str) -> list[int]:
    if wanted is None:
        return list(range(count))
    if wanted == MEAN:
        return [-1]
    if isinstance(wanted, str) or not -count <= wanted < count:
        raise ValueError(
            f"`{argument}` must be a number below {count}, or {MEAN!r}. Received: {wanted!r}."
        )
    return [wanted % count]


def place_of(shown: Sequence[DisplayedToken], word: str) -> int | None:
    """Returns the first token of the first occurrence of a word, ignoring case; None if missing."""
    words: list[tuple[int, str]] = []
    for i, token in enumerate(shown):
        if token.joined and words:
            words[-1] = (words[-1][0], words[-1][1] + token.text)
        else:
            words.append((i, token.text))
    return next((place for place, text in words if text.lower() == word.lower()), None)
