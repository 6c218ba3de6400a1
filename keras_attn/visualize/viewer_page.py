"""The attention viewer: a page in which attention can be explored."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from keras_attn.visualize.display import displayed_tokens, drawable, percent
from keras_attn.visualize.focus import Focus, find_focus
from keras_attn.visualize.head_outcomes import HeadOutcomes, Outcome
from keras_attn.visualize.pictures import image_address
from keras_attn.visualize.web_page import json_for_page, page_files, source_hash, web_page
from keras_attn.visualize.weight_codes import Precision, choose_precision, encode_weights

_SCRIPTS = (
    "viewer_weights.js",
    "viewer_words.js",
    "viewer_maps.js",
    "viewer_choosing.js",
    "viewer_acting.js",
    "viewer_saving.js",
)


class View(Protocol):
    """An `AttentionView`, or an object with the same fields."""

    @property
    def title(self) -> str:
        """Name of the view."""

    @property
    def image(self) -> Any:
        """The picture, uint8 `(H, W, 3)`; None if there is none."""

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of its regions."""

    @property
    def focus(self) -> Focus | None:
        """What it opens on."""

    @property
    def outcomes(self) -> HeadOutcomes | None:
        """The answers of the model without its heads."""

    @property
    def parts(self) -> Sequence[Any]:
        """The `AttentionPart`s."""


def attention_viewer(
    views: View | Sequence[View],
    title: str = "Where it looked",
    *,
    focus: Focus | str | None = None,
    max_megabytes: float = 10.0,
) -> str:
    """Writes a page in which attention can be explored. It is one file and fetches nothing.

    The page shows attention as shaded words, as a matrix or as lines between words, of one head or
    of two heads beside each other. A word under the pointer shows where it looked, and so does a
    word that was clicked, tapped or reached with the arrow keys. Pointing at what was looked at
    shows which words looked there. Readers choose the view, the kind of attention, the layer and
    the head, or means over layers and heads. They can download a picture of what they see, as SVG
    or PNG, and copy a link that opens the same view. If a view has `outcomes`, they can switch
    heads off and read the answer of the model without them.

    Colours mean the same everywhere: the share of the deepest colour is the square root of the
    weight, and 1 is the deepest. A weight of 1 / n is therefore pale, whatever else the query
    looked at. In a picture, regions that were not looked at are darker than the region of the
    greatest weight.

    The page holds the square roots of the weights in steps of 1 / 255, compressed. If it would be
    larger than `max_megabytes`, it holds fewer steps, and it leaves out the weights below a limit,
    which the page names. Tokens and titles are always shown as text. The page runs its own script
    and no other.

    Args:
        views: An `AttentionView`, or several.
        title: Heading of the page.
        focus: A `Focus` or a word: what each view opens on, unless the view has a focus of its own.
            If None, the strongest link between two words, see `Focus`.
        max_megabytes: Limit of the size of the weights in the page, in 10^6 bytes.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ValueError: If there is no view, or a view does not have what the focus names.

    Example:

    >>> part = AttentionPart("cross-attention", ["</script>"], ["Hund"], [np.ones((1, 1, 1))])
    >>> page = attention_viewer(AttentionView([part]))
    >>> page.count("</script>"), "\\\\u003c/script\\\\u003e" in page
    (2, True)
    """
    return page_with_viewer(views, title, focus=focus, max_megabytes=max_megabytes)


def page_with_viewer(
    views: View | Sequence[View],
    title: str,
    *,
    focus: Focus | str | None = None,
    max_megabytes: float = 10.0,
    above: str = "",
    below: str = "",
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
) -> str:
    """Writes the viewer with something above and below it."""
    one = hasattr(views, "parts")
    every = [cast(View, views)] if one else list(cast(Sequence[View], views))
    if not every:
        raise ValueError("Expected at least one `AttentionView`. Received: none.")
    precision = choose_precision([p.weights for v in every for p in v.parts], 1e6 * max_megabytes)
    focus = Focus(focus) if isinstance(focus, str) else focus
    data = {"least": precision.least, "views": [_view(view, focus, precision) for view in every]}
    style = page_files("viewer.css", *styles)
    code = page_files(*_SCRIPTS, *scripts)
    script = f'(() => {{\n"use strict";{code}}})();\n'
    return web_page(
        title,
        above + page_files("viewer.html")[1:] + below,
        style,
        f"img-src data:; style-src {source_hash(style)}; script-src {source_hash(script)}",
        f'\n<script type="application/json" id="data">{json_for_page(data)}</script>\n'
        f"<script>{script}</script>",
    )


def _view(view: View, focus: Focus | None, precision: Precision) -> dict[str, Any]:
    return {
        "title": drawable(view.title),
        "image": None if view.image is None else image_address(view.image),
        "grid": view.grid,
        "focus": find_focus(view.parts, view.focus or focus),
        "whole": view.outcomes and _outcome(view.outcomes.whole),
        "parts": [
            {
                "name": drawable(part.name),
                "queryName": drawable(part.query_name),
                "keyName": drawable(part.key_name),
                "queries": displayed_tokens(part.queries),
                "keys": None if part.keys is None else displayed_tokens(part.keys),
                "without": view.outcomes
                and [
                    [_outcome(answer) for answer in view.outcomes.without.get(path, ())]
                    for path in part.paths
                ],
                **encode_weights(part.weights, precision),
            }
            for part in view.parts
        ],
    }


def _outcome(outcome: Outcome) -> list[str]:
    """The text and the probability as people read them."""
    number = "" if outcome.probability is None else percent(outcome.probability)
    return [drawable(outcome.text), number]
