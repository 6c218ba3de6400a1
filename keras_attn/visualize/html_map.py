"""Attention weights as an HTML table."""

from collections.abc import Sequence

import numpy.typing as npt

from keras_attn.visualize.checks import checked_weights
from keras_attn.visualize.web_page import escaped

_LABEL = "font:12px/1.2 monospace;font-weight:normal;white-space:pre;padding:2px 6px;border:0;"
_ACROSS = _LABEL + "text-align:right"
_UPWARDS = _LABEL + "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left"
_CELL = "min-width:18px;height:18px;padding:0;border:1px solid rgba(128,128,128,.2)"


def attention_html(
    weights: npt.ArrayLike, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> str:
    """Returns attention weights as an HTML heat map for notebooks and web pages.

    Rows are queries (target tokens), and columns are keys (source tokens). The strongest colour
    means 1, and weights below 0.005 have no colour. Hovering over a coloured cell shows its weight.
    The table needs no scripts, style sheets or external resources. Tokens are escaped.

    Args:
        weights: Attention weights `(T, S)`.
        source_tokens: The S source tokens, as labels.
        target_tokens: The T target tokens, as labels.

    Returns:
        The table as an HTML string.

    Raises:
        ValueError: If the shape of the weights does not match the numbers of tokens.

    Example:

    >>> table = attention_html([[0.9, 0.1]], ["<b>", "Hund"], ["a"])
    >>> "&lt;b&gt;" in table, "<b>" in table
    (True, False)
    """
    weights = checked_weights(weights, source_tokens, target_tokens)
    source = [escaped(token) for token in source_tokens]
    target = [escaped(token) for token in target_tokens]
    head = "".join(
        f'<th scope="col" dir="auto" style="{_UPWARDS}">{token}</th>' for token in source
    )
    rows = [f'<tr style="background:none"><td style="border:0"></td>{head}</tr>']
    for label, row in zip(target, weights, strict=True):
        cells = "".join(
            _cell(float(weight), label, token) for weight, token in zip(row, source, strict=True)
        )
        head = f'<th scope="row" dir="auto" style="{_ACROSS}">{label}</th>'
        rows.append(f'<tr style="background:none">{head}{cells}</tr>')
    return (
        '<table dir="ltr" style="border-collapse:collapse;width:auto;margin:0">'
        f"{''.join(rows)}</table>"
    )


def _cell(weight: float, target: str, source: str) -> str:
    if not weight >= 0.005:  # NaN is not, either
        return f'<td style="{_CELL}"></td>'
    share = f"{min(weight, 1):.2f}"
    blue = f"background:light-dark(rgba(8,81,156,{share}),rgba(120,185,255,{share}))"
    return f'<td title="{target} &#8592; {source}: {weight:.2f}" style="{_CELL};{blue}"></td>'
