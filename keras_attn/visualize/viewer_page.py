"""The attention viewer, an interactive HTML page."""

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
    """Interface of `AttentionView`, or of any object with the same fields."""

    @property
    def title(self) -> str:
        """Name of the view."""

    @property
    def image(self) -> Any:
        """The image, uint8 `(H, W, 3)`, or None."""

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of the regions."""

    @property
    def focus(self) -> Focus | None:
        """The initial selection."""

    @property
    def outcomes(self) -> HeadOutcomes | None:
        """The predictions of the model without each head."""

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
    """Returns an HTML page for exploring attention interactively.

    The page is a single file without external resources. It shows attention as shaded words, as a
    matrix or as lines between words, for one head or for two heads side by side. Hovering over a
    query word, clicking it, or reaching it with the arrow keys shows the attention of that word.
    Hovering over a key shows which words attend to it. Users can choose the view, the kind of
    attention, the layer and the head, or means over layers and heads. Users can also download the
    current view as SVG or PNG, and copy a link that opens it. If a view has `outcomes`, users can
    switch off one head at a time and see the prediction of the model without this head.

    All views use the same colour scale: the intensity is the square root of the weight, and a
    weight of 1 has the deepest colour. In an image, regions with small weights are darker than the
    region with the greatest weight.

    The page stores the square roots of the weights, rounded to multiples of 1 / 255 and compressed.
    If the page would be larger than `max_megabytes`, it uses a coarser rounding and leaves out
    weights below a limit, which the page states. Tokens and titles are escaped. A content security
    policy allows only the page's own script.

    Args:
        views: One or several `AttentionView`s.
        title: Heading of the page.
        focus: A `Focus` or a query word: the initial selection of views that have no focus of their
            own. If None, these views open on the strongest link between two words, which `Focus`
            defines.
        max_megabytes: Maximum size of the page without images, in 10^6 bytes, estimated from a
            sample of the weights.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ImportError: If a view has an image, and Pillow is not installed.
        ValueError: If there is no view, or a view does not contain the focus.

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
    """Returns the page of the viewer, with additional content above and below the viewer."""
    one = hasattr(views, "parts")
    every = [cast(View, views)] if one else list(cast(Sequence[View], views))
    if not every:
        raise ValueError("Expected at least one `AttentionView`. Received: none.")
    content = above + page_files("viewer.html")[1:] + below
    style = page_files("viewer.css", *styles)
    code = page_files(*_SCRIPTS, *scripts)
    script = f'(() => {{\n"use strict";{code}}})();\n'
    parts = [part for view in every for part in view.parts]
    tokens = sum(
        len(json_for_page([displayed_tokens(part.queries), displayed_tokens(part.keys or ())]))
        for part in parts
    )
    most_bytes = 1e6 * max_megabytes - len(content) - len(style) - len(script) - tokens
    precision = choose_precision([part.weights for part in parts], most_bytes)
    focus = Focus(focus) if isinstance(focus, str) else focus
    data = {"least": precision.least, "views": [_view(view, focus, precision) for view in every]}
    return web_page(
        title,
        content,
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
    """The text and the formatted probability."""
    number = "" if outcome.probability is None else percent(outcome.probability)
    return [drawable(outcome.text), number]
