"""The weights of a text's tokens, as a page of HTML."""

import html
from collections.abc import Iterable

from keras_attn.visualize.text_segments import (
    ShadedText,
    TextSegment,
    TextWeights,
    drawable,
    percent,
)

_STRONGEST = 8
_MOST_CLASSES = 6
_FAINT = 0.1
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
.ka{background:#fff;color:#1a1a1a;font:16px/1.5 system-ui,sans-serif;text-align:left;
 border:1px solid #d5d5d5;border-radius:8px;padding:14px 18px;margin:0 0 18px;max-width:54em}
.ka *{box-sizing:border-box}
.ka .head{display:flex;flex-wrap:wrap;gap:2px 14px;align-items:baseline;margin:0 0 10px}
.ka .label{font-weight:650;font-size:18px;overflow-wrap:anywhere}
.ka .method,.ka .scale,.ka .classes,.ka .top{color:#555;font-size:13px}
.ka .text{white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.9;margin:0 0 12px}
.ka .text span,.ka .top span{border-radius:3px;padding:2px 0}
.ka .text .minus,.ka .top .minus{text-decoration:underline dotted #1f5f8b 2px;
 text-underline-offset:4px}
.ka .text .unread{color:#767676}
.ka .text .token{font:12px monospace;border:1px solid #bbb;padding:1px 4px;margin:0 3px}
.ka .text [tabindex]{position:relative}
.ka .text [tabindex]:focus-visible{outline:2px solid #1a1a1a}
.ka .text [tabindex]:focus-visible::after{content:attr(data-weight);position:absolute;left:0;
 bottom:100%;z-index:1;background:#1a1a1a;color:#fff;font:12px/1.5 monospace;padding:1px 6px;
 border-radius:3px;white-space:pre;direction:ltr}
.ka .scale{display:flex;flex-wrap:wrap;gap:4px 8px;align-items:center;margin:0 0 10px}
.ka .bar{display:inline-block;width:150px;height:12px;border-radius:3px;border:1px solid #ccc}
.ka .classes{display:grid;grid-template-columns:minmax(0,max-content) minmax(60px,220px) auto;
 gap:2px 10px;align-items:center;margin:0 0 10px;justify-content:start}
.ka .classes bdi{overflow-wrap:anywhere}
.ka .meter{height:9px;background:#ededed;border-radius:3px;overflow:hidden}
.ka .meter i{display:block;height:100%;background:#666}
.ka .top{margin:0}
.ka .top bdi{color:#1a1a1a;white-space:pre-wrap;overflow-wrap:anywhere}
"""
_PAGE_STYLE = """
:root{color-scheme:light}
body{margin:0;padding:26px;background:#f4f4f4;color:#1a1a1a;font:16px/1.5 system-ui,sans-serif}
main{max-width:54em;margin:auto}
h1{font-size:22px;margin:0 0 18px;overflow-wrap:anywhere}
"""


def text_weights_html(
    explanations: TextWeights | Iterable[TextWeights], title: str = "What decided"
) -> str:
    """Writes a page that shows texts with their tokens shaded by weight.

    One file without scripts that fetches nothing: it can be mailed, and opened without a network.
    Texts and labels are escaped. The deepest colour is the text's largest weight, which the scale
    tells. A piece under the pointer, or one that the tab key came to, tells its weight; the
    strongest are listed, too. Weights below zero, which spoke against the class, are blue with a
    dotted line; what no token covers, because the text was cut, is grey.

    Args:
        explanations: One `Explanation` or several, a card each.
        title: Heading of the page.

    Returns:
        A string of HTML, to be written as UTF-8.

    Example:

    >>> from keras_attn.tasks import Explanation
    >>> explanation = Explanation("<b>bad", ["<b>", "bad"], [(0, 3), (3, 6)], [0.1, 0.8])
    >>> page = text_weights_html(explanation)
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    if hasattr(explanations, "offsets"):
        explanations = [explanations]
    heading = html.escape(drawable(title))
    cards = "\n".join(_card(explanation) for explanation in explanations)
    return (
        '<!DOCTYPE html>\n<html lang="und"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{heading}</title><style>{_PAGE_STYLE}{_STYLE}</style></head>\n"
        f'<body><main><h1 dir="auto">{heading}</h1>\n{cards}\n</main></body></html>\n'
    )


def text_weights_fragment(explanation: TextWeights) -> str:
    """Writes one card of `text_weights_html`, for a notebook or a page of one's own.

    Args:
        explanation: An `Explanation`.

    Returns:
        A string of HTML: a style sheet, which touches the card only, and the card.

    Example:

    >>> from keras_attn.tasks import Explanation
    >>> explanation = Explanation("good", ["good"], [(0, 4)], [0.5])
    >>> text_weights_fragment(explanation).startswith("<style>")
    True
    """
    return f"<style>{_STYLE}</style>{_card(explanation)}"


def _card(explanation: TextWeights) -> str:
    shaded = ShadedText(explanation)
    head = f'<bdi class="label">{_escaped(shaded.title)}</bdi>' if shaded.title else ""
    if explanation.method:
        head += f'<span class="method">{_escaped(explanation.method)}</span>'
    pieces = "".join(_piece(segment, shaded) for segment in shaded.segments)
    return (
        f'<div class="ka" dir="ltr">{f"<div class=head>{head}</div>" if head else ""}'
        f'<div class="text" dir="auto">{pieces}</div>'
        f"{_scale(shaded)}{_classes(explanation)}{_strongest(shaded)}</div>"
    )


def _piece(segment: TextSegment, shaded: ShadedText) -> str:
    text = _escaped(segment.text)
    if segment.weight is None:
        return text if segment.text.isspace() else f'<span class="unread">{text}</span>'
    number = _number(segment.weight, shaded)
    token = " token" * (segment.start == segment.end)
    return (
        f'<span class="{_sign(segment.weight, shaded)}{token}" tabindex="0" title="{number}" '
        f'data-weight="{number}" style="background:{_css(shaded.color(segment.weight))}">'
        f"{text}</span>"
    )


def _scale(shaded: ShadedText) -> str:
    """The colours and what they stand for."""
    colors = ",".join(map(_css, shaded.scale()))
    lowest = _number(-shaded.largest, shaded) if shaded.signed else "0"
    notes = ["dotted line: against"] if shaded.signed else []
    if any(s.weight is None and not s.text.isspace() for s in shaded.segments):
        notes.append("grey: not read")
    note = "".join(f"<span>&middot; {note}</span>" for note in notes)
    return (
        f'<div class="scale"><span>{lowest}</span><span class="bar" '
        f'style="background:linear-gradient(to right,{colors})"></span>'
        f"<span>{_number(shaded.largest, shaded)}</span>{note}</div>"
    )


def _classes(explanation: TextWeights) -> str:
    """Bars of the most probable classes."""
    ranked = sorted(
        explanation.probabilities.items(), key=lambda item: (-item[1], item[0] != explanation.label)
    )
    rows = [
        f'<bdi>{_escaped(name)}</bdi><span class="meter">'
        f'<i style="width:{100 * p:.1f}%"></i></span><span>{_escaped(percent(p))}</span>'
        for name, p in ranked[:_MOST_CLASSES]
    ]
    if len(ranked) > _MOST_CLASSES:
        rows.append(f"<span>and {len(ranked) - _MOST_CLASSES} more</span>")
    return f'<div class="classes">{"".join(rows)}</div>' if rows else ""


def _strongest(shaded: ShadedText) -> str:
    """A list of the pieces of most weight."""
    weighed = [(segment.text, segment.weight) for segment in shaded.segments if segment.weight]
    weighed.sort(key=lambda item: -abs(item[1]))
    names = [
        f'<bdi><span class="{_sign(weight, shaded)}" '
        f'style="background:{_css(shaded.color(weight))}">'
        f"{_escaped(text.strip() or text)}</span></bdi> {_number(weight, shaded)}"
        for text, weight in weighed[:_STRONGEST]
    ]
    return f'<p class="top">Strongest: {", ".join(names)}</p>' if names else ""


def _sign(weight: float, shaded: ShadedText) -> str:
    """A class of the style sheet. Lines under what is next to nothing would be noise."""
    return "minus" if weight < -_FAINT * shaded.largest else "plus"


def _escaped(text: str) -> str:
    return html.escape(drawable(text))


def _css(color: tuple[int, int, int]) -> str:
    return "rgb({},{},{})".format(*color)


def _number(weight: float, shaded: ShadedText) -> str:
    return f"{weight:+.3g}" if shaded.signed else f"{weight:.3g}"
