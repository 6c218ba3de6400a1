"""HTML page of an encoder: tokens, attention and head roles."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from keras_attn.visualize.attention_view import AttentionView
from keras_attn.visualize.coloured_tokens import tokens_card
from keras_attn.visualize.focus import Focus, find_focus
from keras_attn.visualize.head_tables import RolesOfHeads, pairs_card, roles_card
from keras_attn.visualize.viewer_page import page_with_viewer
from keras_attn.visualize.web_page import escaped


class LookAt(Protocol):
    """A note on a text: a `LectureSentence`, or any object with the same fields."""

    @property
    def query(self) -> str:
        """The word whose attention the viewer shows."""

    @property
    def note(self) -> str:
        """What the text demonstrates."""


def encoder_page(
    views: AttentionView | Sequence[AttentionView],
    roles: RolesOfHeads | None = None,
    divergence: npt.ArrayLike | None = None,
    *,
    ids: Sequence[Sequence[int]] | None = None,
    notes: Sequence[LookAt | None] | None = None,
    title: str = "What the encoder looks at",
) -> str:
    """Returns an HTML page of an encoder's attention for a set of texts.

    The page is a single file without external resources. It begins with the coloured tokens of each
    text, as in `coloured_tokens_html`. If a text has a note, a button shows the word of the note in
    the attention viewer, in the head in which the word has its strongest link (if the note has a
    field `on`, the strongest link to this word). The attention viewer follows, and then, if given,
    the head roles and the map of head pairs, as in `head_roles_html`.

    Args:
        views: An `AttentionView` for each text, whose first part has the text's tokens as queries.
        roles: A `HeadRoles`. If None, the page has no roles.
        divergence: The result of `keras_attn.explain.head_divergence`. If None, the page has no map
            of pairs.
        ids: The ids of the tokens of each text, shown next to the tokens.
        notes: A note for each text: a `LectureSentence`, any object with a `query` (a word of the
            text) and a `note` (a string), or None. If None, there are no notes.
        title: Heading of the page.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ValueError: If there is no view; if the number of ids or notes does not match the views or
            their tokens; if `divergence` is given without `roles`, or does not match them; or if a
            text lacks the word of its note.

    Example:

    >>> tokens = ["[CLS]", "it", "[SEP]"]
    >>> view = AttentionView([AttentionPart("self", tokens, tokens, [np.full((2, 3, 3), 1 / 3)])])
    >>> page = encoder_page(view, notes=[LectureSentence("It", None, "it", "Who is it?")])
    >>> 'data-view="0" data-query="1">Show “it”</button>' in page
    True
    """
    views = [views] if isinstance(views, AttentionView) else list(views)
    rows: list[Sequence[int] | None] = [None] * len(views) if ids is None else list(ids)
    notes = [None] * len(views) if notes is None else list(notes)
    if not len(views) == len(rows) == len(notes):
        raise ValueError(
            f"Expected ids and a note for each of the {len(views)} views. Received: {len(rows)} "
            f"rows of ids, {len(notes)} notes."
        )
    if divergence is not None and roles is None:
        raise ValueError("`divergence` requires `roles` of the same heads. Received: None.")
    views = [
        dataclasses.replace(view, focus=Focus(note.query, getattr(note, "on", None)))
        if note and not view.focus
        else view
        for view, note in zip(views, notes, strict=True)
    ]
    cards = [
        tokens_card(view.parts[0].queries, row, _note(view, i, note))
        for i, (view, row, note) in enumerate(zip(views, rows, notes, strict=True))
    ]
    below = ""
    if roles is not None:
        below += roles_card(roles)
    if divergence is not None and roles is not None:
        below += pairs_card(divergence, *np.shape(roles.values)[:2])
    return page_with_viewer(
        views,
        title,
        above=f'<h2 class="section">Texts and their tokens</h2>{"".join(cards)}'
        '<h2 class="section">Attention</h2>',
        below=below and f'<h2 class="section">Heads</h2>{below}',
        styles=("levels.css", "tokens.css", "heads.css", "encoder.css"),
        scripts=("encoder.js",),
    )


def _note(view: AttentionView, index: int, note: LookAt | None) -> str:
    if note is None:
        return ""
    query = find_focus(view.parts[:1], Focus(note.query))["query"]
    return (
        f'<p class="note">{escaped(note.note)}</p><button class="go" type="button" '
        f'data-view="{index}" data-query="{query}">Show “{escaped(note.query)}”</button>'
    )
