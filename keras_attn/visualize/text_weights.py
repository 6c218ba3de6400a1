"""HTML page of texts with their token weights."""

from collections.abc import Iterable
from typing import cast

from keras_attn.visualize.display import percent
from keras_attn.visualize.shaded_text import ShadedText, TextWeights
from keras_attn.visualize.text_segments import TextSegment, strongest_pieces
from keras_attn.visualize.web_page import escaped, page_files, web_page

_STRONGEST = 8
_MOST_CLASSES = 6
_FAINT = 0.1
_POLICY = "style-src 'unsafe-inline'"


def text_weights_html(
    explanations: TextWeights | Iterable[TextWeights], title: str = "What decided"
) -> str:
    """Returns an HTML page of texts whose tokens are shaded by weight.

    The page is a single file without scripts or external resources, so it can be sent by mail and
    opened offline. Texts and labels are escaped. The deepest colour stands for the largest absolute
    weight of the explanation; a scale shows its value. Hovering over a piece, or reaching it with
    the tab key, shows its weight. The strongest pieces are listed. The marked range of an
    explanation, such as the answer to a question, has a frame. Negative weights, which speak
    against the class, are blue with a dotted line. Text that was truncated is grey.

    Args:
        explanations: One or several `Explanation`s, each of which becomes a card.
        title: Heading of the page.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Example:

    >>> from keras_attn.explain import Explanation
    >>> explanation = Explanation("<b>bad", ["<b>", "bad"], [(0, 3), (3, 6)], [0.1, 0.8])
    >>> page = text_weights_html(explanation)
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)
    """
    one = hasattr(explanations, "offsets")
    every = [cast(TextWeights, explanations)] if one else cast(Iterable[TextWeights], explanations)
    cards = "".join(f"{_card(explanation)}\n" for explanation in every)
    style = page_files("text_weights_page.css", "text_weights_card.css")
    return web_page(title, cards, style, _POLICY)


def text_weights_fragment(explanation: TextWeights) -> str:
    """Returns a text with its tokens shaded by weight, as in `text_weights_html`, as a fragment.

    Args:
        explanation: An `Explanation`.

    Returns:
        An HTML string for a notebook or your own page: a card, and a style sheet that applies only
        to the card.

    Example:

    >>> from keras_attn.explain import Explanation
    >>> explanation = Explanation("good", ["good"], [(0, 4)], [0.5])
    >>> text_weights_fragment(explanation).startswith("<style>")
    True
    """
    return f"<style>{page_files('text_weights_card.css')}</style>{_card(explanation)}"


def _card(explanation: TextWeights) -> str:
    shaded = ShadedText(explanation)
    head = f'<bdi class="label">{escaped(shaded.title)}</bdi>' if shaded.title else ""
    if explanation.method:
        head += f'<span class="method">{escaped(explanation.method)}</span>'
    marks = [None] * (len(shaded.texts) - 1) + [getattr(explanation, "marked", None)]
    texts = [
        f'<div class="text" dir="auto">{_pieces(pieces, shaded, mark)}</div>'
        for pieces, mark in zip(shaded.texts, marks, strict=True)
    ]
    return (
        f'<div class="ka" dir="ltr">{f"<div class=head>{head}</div>" if head else ""}'
        f"{''.join(texts)}{_scale(shaded)}{_classes(explanation)}{_strongest(shaded)}</div>"
    )


def _pieces(pieces: list[TextSegment], shaded: ShadedText, mark: tuple[int, int] | None) -> str:
    """The pieces of a text, with a frame around marked ones."""
    parts, inside = [], False
    for piece in pieces:
        marked = mark is not None and piece.start < mark[1] and piece.end > mark[0]
        if marked != inside:
            parts.append("<mark>" if marked else "</mark>")
        parts.append(_piece(piece, shaded))
        inside = marked
    return "".join([*parts, *["</mark>"] * inside])


def _piece(segment: TextSegment, shaded: ShadedText) -> str:
    text = escaped(segment.text)
    if segment.weight is None:
        return text if segment.text.isspace() else f'<span class="unread">{text}</span>'
    number = _number(segment.weight, shaded)
    token = " token" * (segment.start == segment.end)
    return (
        f'<span class="{_sign(segment.weight, shaded)}{token}" tabindex="0" title="{number}" '
        f'data-weight="{number}" style="--v:{shaded.share(segment.weight):.2f}">'
        f"{text}</span>"
    )


def _scale(shaded: ShadedText) -> str:
    """The colours and their meaning."""
    lowest = _number(-shaded.largest, shaded) if shaded.signed else "0"
    notes = ["dotted line: against"] if shaded.signed else []
    if any(s.weight is None and not s.text.isspace() for s in shaded.segments):
        notes.append("grey: not read")
    if not any(s.weight is not None and s.start < s.end for s in shaded.segments):
        notes.append("no word was read")
    note = "".join(f"<span>&middot; {note}</span>" for note in notes)
    return (
        f'<div class="scale"><span>{lowest}</span>'
        f'<span class="bar{" signed" * shaded.signed}"></span>'
        f"<span>{_number(shaded.largest, shaded)}</span>{note}</div>"
    )


def _classes(explanation: TextWeights) -> str:
    """Bars of the most probable classes."""
    ranked = sorted(
        explanation.probabilities.items(), key=lambda item: (-item[1], item[0] != explanation.label)
    )
    rows = [
        f'<bdi>{escaped(name)}</bdi><span class="meter">'
        f'<i style="width:{100 * p:.1f}%"></i></span><span>{escaped(percent(p))}</span>'
        for name, p in ranked[:_MOST_CLASSES]
    ]
    if len(ranked) > _MOST_CLASSES:
        rows.append(f"<span>and {len(ranked) - _MOST_CLASSES} more</span>")
    return f'<div class="classes">{"".join(rows)}</div>' if rows else ""


def _strongest(shaded: ShadedText) -> str:
    """A list of the pieces with the largest weights."""
    names = [
        f'<bdi><span class="{_sign(weight, shaded)}" '
        f'style="--v:{shaded.share(weight):.2f}">'
        f"{escaped(text)}</span></bdi> {_number(weight, shaded)}"
        for text, weight in strongest_pieces(shaded.segments)[:_STRONGEST]
        if weight
    ]
    return f'<p class="top">Strongest: {", ".join(names)}</p>' if names else ""


def _sign(weight: float, shaded: ShadedText) -> str:
    """CSS classes of a weight; tiny weights get no line."""
    side = "against" if weight < 0 else "for"
    return f"{side} minus" if weight < -_FAINT * shaded.largest else side


def _number(weight: float, shaded: ShadedText) -> str:
    return f"{weight:+.3g}" if shaded.signed else f"{weight:.3g}"
