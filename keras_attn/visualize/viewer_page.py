"""Attention as a page of HTML to look around in."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_attn.visualize.pictures import image_address
from keras_attn.visualize.text_segments import drawable
from keras_attn.visualize.token_display import displayed_tokens
from keras_attn.visualize.viewer_script import SCRIPT
from keras_attn.visualize.viewer_style import STYLE

_BODY = """\
<noscript><p>This page needs JavaScript: it runs here and fetches nothing.</p></noscript>
<div class="bar" id="bar">
<label id="chooser">Shown <select id="views"></select></label>
<fieldset id="parts"><legend>Attention</legend></fieldset>
<fieldset id="layers"><legend>Layer</legend></fieldset>
<fieldset id="heads"><legend>Head</legend></fieldset>
</div>
<p class="hint" id="hint"></p>
<div class="stage" id="stage">
<section class="card" id="keys"><h2></h2><div class="text"></div></section>
<section class="card" id="queries"><h2></h2><div class="text"></div></section>
<div class="card told">
<p id="status" role="status" aria-live="polite"></p>
<p class="scale"><span>0</span><span class="ramp"></span><span id="most"></span></p>
</div>
<div class="maps" id="maps">
<section class="card" id="matrix"><h2></h2><div class="frame"><canvas></canvas><i></i></div>
</section>
<section class="card" id="all"><h2></h2><div class="grid" aria-hidden="true"></div></section>
</div>
</div>
"""


def attention_viewer(views: Any, title: str = "Where it looked") -> str:
    """Writes a page to look around in attention: one file that fetches nothing.

    A word under the pointer, or one that was clicked, tapped or reached by the arrow keys, shows
    where it looked: what it looked at is shaded, or the picture is bright there. Pointed at, what
    was looked at shows who looked. Layer, head, kind of attention and view are chosen; means over
    heads and layers, too. The deepest colour is the greatest weight of what is shown, which the
    scale tells; in the maps of whole heads the colour is the square root of the weight.

    The weights are in the page as bytes: of each query 255 is the greatest, so that a weight is
    right to 1 / 510 of it. 12 layers of 12 heads over 128 tokens are 3.3 MB. Tokens and titles are
    text whatever they are: the page runs its own script and no other.

    Args:
        views: An `AttentionView`, or several.
        title: Heading of the page.

    Returns:
        A string of HTML, to be written as UTF-8.

    Raises:
        ValueError: If there is no view.

    Example:

    >>> part = AttentionPart("cross-attention", ["</script>"], ["Hund"], [np.ones((1, 1, 1))])
    >>> page = attention_viewer(AttentionView([part]))
    >>> page.count("</script>"), "\\\\u003c/script\\\\u003e" in page
    (2, True)
    """
    views = [views] if hasattr(views, "parts") else list(views)
    if not views:
        raise ValueError("Expected at least one `AttentionView`. Received: none.")
    heading = html.escape(drawable(title))
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(STYLE)}; script-src {_hash(SCRIPT)}"
    )
    return (
        '<!DOCTYPE html>\n<html lang="und"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{heading}</title><style>{STYLE}</style></head>\n"
        f'<body><main><h1 dir="auto">{heading}</h1>\n{_BODY}</main>\n'
        f'<script type="application/json" id="data">{_json(views)}</script>\n'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def encode_weights(layers: Iterable[np.ndarray]) -> dict[str, Any]:
    """Makes bytes of weights.

    Args:
        layers: For each layer `(heads, T, S)`.

    Returns:
        `heads`: the number of heads of each layer; `weights`: base64 of bytes
        `round(255 w / greatest)`, layer by layer and head by head; `greatest`: base64 of
        little-endian float32, of each row.

    Example:

    >>> encoded = encode_weights([np.array([[[0.1, 0.2]]])])
    >>> list(base64.b64decode(encoded["weights"])), encoded["heads"]
    ([128, 255], [1])
    """
    rows, greatest, heads = [], [], []
    for layer in layers:
        most = layer.max(axis=2, keepdims=True)
        rows.append(np.rint(layer * (255 / np.where(most > 0, most, 1))).astype("uint8").tobytes())
        greatest.append(most.astype("<f4").tobytes())
        heads.append(len(layer))
    return {
        "heads": heads,
        "weights": base64.b64encode(b"".join(rows)).decode(),
        "greatest": base64.b64encode(b"".join(greatest)).decode(),
    }


def _json(views: list[Any]) -> str:
    data = {"views": [_view(view) for view in views]}
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    # Nothing in it may end the script element, or begin a comment.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _view(view: Any) -> dict[str, Any]:
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
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
