"""HTML page that computes attention step by step with the numbers of a layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_attn.visualize.attention_steps import AttentionSteps
from keras_attn.visualize.display import displayed_tokens
from keras_attn.visualize.focus import place_of
from keras_attn.visualize.web_page import (
    escaped,
    json_for_page,
    page_files,
    source_hash,
    web_page,
)


def attention_steps_page(
    steps: AttentionSteps, query: str | int = 0, title: str = "Attention, step by step"
) -> str:
    """Returns an HTML page that shows how attention is computed for one query, step by step.

    The page is a single file without external resources. Its steps are: the query with all keys and
    values, the scores, the scale, the mask, the softmax and the weighted sum. Each step shows its
    formula with the numbers of the layer. Buttons and the arrow keys move between steps. Users can
    choose the query, and click a key to see the calculation of its weight.

    Args:
        steps: The result of `attention_steps`.
        query: The initial query: a word, in upper or lower case, or the index of its token.
        title: Heading of the page.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ValueError: If `query` is neither a word of the query text nor the index of a query token.

    Example:

    >>> layer = MultiHeadSelfAttention(num_heads=2)
    >>> steps = attention_steps(layer, keras.random.normal((1, 2, 8)), ["a", "dog"])
    >>> page = attention_steps_page(steps, "dog")
    >>> '"start":1' in page
    True
    """
    shown = displayed_tokens(steps.query_tokens)
    start = query if isinstance(query, int) else place_of(shown, query)
    if start is None or not 0 <= start < len(shown):
        raise ValueError(
            f"`query` must be a word of the text, or a number below {len(shown)}. Received: "
            f"{query!r}; the tokens are {[token.text for token in shown][:30]}."
        )
    data = {
        "start": start,
        "queries": [token.text for token in shown],
        "keys": [token.text for token in displayed_tokens(steps.key_tokens)],
        "scale": _numbers(steps.scale),
        "visible": steps.visible.astype(int).tolist(),
        **{
            name: _numbers(getattr(steps, name))
            for name in ("query", "key", "value", "products", "weights", "context")
        },
    }
    style = page_files("viewer.css", "steps.css")
    script = f'(() => {{\n"use strict";{page_files("steps.js")}}})();\n'
    place = f'<p class="hint">Layer {escaped(steps.path)}, head {steps.head}</p>'
    return web_page(
        title,
        place + page_files("steps.html")[1:],
        style,
        f"style-src {source_hash(style)}; script-src {source_hash(script)}",
        f'\n<script type="application/json" id="data">{json_for_page(data)}</script>\n'
        f"<script>{script}</script>",
    )


def _numbers(values: object) -> Any:
    """Numbers with six digits, as nested lists."""
    values = np.asarray(values)
    if not values.ndim:
        return float(f"{float(values):.6g}")
    return [_numbers(value) for value in values]
