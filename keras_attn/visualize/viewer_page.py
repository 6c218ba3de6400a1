"""The attention viewer: a page in which attention can be explored."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from keras_attn.visualize.display import displayed_tokens, drawable
from keras_attn.visualize.pictures import image_address
from keras_attn.visualize.web_page import page_files, web_page


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
    def parts(self) -> Sequence[Any]:
        """The `AttentionPart`s."""


def attention_viewer(views: View | Sequence[View], title: str = "Where it looked") -> str:
    """Writes a page in which attention can be explored. It is one file and fetches nothing.

    A word under the pointer shows where it looked, and so does a word that was clicked, tapped or
    reached with the arrow keys. The words it looked at are shaded; a picture is bright where it
    looked. Pointing at what was looked at shows which words looked there. Readers choose the view,
    the kind of attention, the layer and the head, or means over layers and heads. The deepest
    colour is the greatest weight of what is shown; the scale gives its value. In the maps of whole
    heads the colour is the square root of the weight.

    The page holds the weights as bytes. The greatest weight of each query is 255, so each weight is
    within 1 / 510 of that weight. 12 layers of 12 heads over 128 tokens take 3.3 MB. Tokens and
    titles are always shown as text. The page runs its own script and no other.

    Args:
        views: An `AttentionView`, or several.
        title: Heading of the page.

    Returns:
        The page as a string of HTML, to be written as UTF-8.

    Raises:
        ValueError: If there is no view.

    Example:

    >>> part = AttentionPart("cross-attention", ["</script>"], ["Hund"], [np.ones((1, 1, 1))])
    >>> page = attention_viewer(AttentionView([part]))
    >>> page.count("</script>"), "\\\\u003c/script\\\\u003e" in page
    (2, True)
    """
    return page_with_viewer(views, title)


def page_with_viewer(
    views: View | Sequence[View],
    title: str,
    *,
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
    style = page_files("viewer.css", *styles)
    code = page_files("viewer_showing.js", "viewer_choosing.js", *scripts)
    script = f'(() => {{\n"use strict";{code}}})();\n'
    return web_page(
        title,
        above + page_files("viewer.html")[1:] + below,
        style,
        f"img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
        f'\n<script type="application/json" id="data">{_json(every)}</script>\n'
        f"<script>{script}</script>",
    )


def encode_weights(layers: Iterable[np.ndarray]) -> dict[str, Any]:
    """Encodes weights as bytes."""
    rows, greatest, heads = [], [], []
    for layer in layers:
        most = layer.max(axis=2, keepdims=True)
        rows.append(np.rint(layer * (255 / np.where(most > 0, most, 1))).astype("uint8").tobytes())
        greatest.append(most.astype("<f4").tobytes())
        heads.append(len(layer))
    return {
        "heads": heads,
        "weights": _base64(b"".join(rows)),
        "greatest": _base64(b"".join(greatest)),
    }


def _json(views: list[View]) -> str:
    data = {"views": [_view(view) for view in views]}
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    # Nothing in it may end the script element, or begin a comment.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _view(view: View) -> dict[str, Any]:
    return {
        "title": drawable(view.title),
        "image": None if view.image is None else image_address(view.image),
        "grid": view.grid,
        "parts": [
            {
                "name": drawable(part.name),
                "queryName": drawable(part.query_name),
                "keyName": drawable(part.key_name),
                "queries": displayed_tokens(part.queries),
                "keys": None if part.keys is None else displayed_tokens(part.keys),
                **encode_weights(part.weights),
            }
            for part in view.parts
        ],
    }


def _hash(content: str) -> str:
    return f"'sha256-{_base64(hashlib.sha256(content.encode()).digest())}'"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
