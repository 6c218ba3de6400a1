"""Head roles and head divergence as coloured HTML tables."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from keras_attn.visualize.web_page import escaped, page_files, web_page

_POLICY = "style-src 'unsafe-inline'"
_LEVELS = 20
_MOST_PAIRS = 8
_MEANINGS = {
    "previous": "attention on the previous token",
    "next": "attention on the next token",
    "same": "attention on the token itself",
    "special": "attention on special tokens, such as [CLS] and [SEP]",
    "other": "attention on all other words",
    "spread": "entropy of the attention; 1 is even attention on all tokens",
}


class RolesOfHeads(Protocol):
    """A `keras_attn.explain.HeadRoles`, or any object with the same fields."""

    @property
    def measures(self) -> Sequence[str]:
        """Names of the measures."""

    @property
    def values(self) -> np.ndarray:
        """The measures of each head, `(layers, heads, measures)`."""

    @property
    def other(self) -> np.ndarray:
        """The share of attention to other words, `(layers, heads)`."""

    @property
    def tokens(self) -> int:
        """Number of tokens over which the measures are averaged."""

    @property
    def texts(self) -> int:
        """Number of texts over which the measures are averaged."""

    def role_of(self, layer: int, head: int) -> str:
        """Returns the name of the role of a head; `layer` and `head` are indices from 0."""


def head_roles_html(
    roles: RolesOfHeads,
    divergence: npt.ArrayLike | None = None,
    title: str = "What the heads look at",
) -> str:
    """Returns an HTML page with the role of each head and the divergence of heads.

    The page is a single file without scripts or external resources. In the table of roles, layers
    are rows and heads are columns. Each cell has the name and the colour of the role and, unless
    the role is `mixed`, its value; the colour is deeper for greater values. Tables with the numbers
    of all measures follow.

    In the map of head pairs, each row and each column is a head, ordered by layer. The cell of a
    pair is deep blue if both heads have the same attention weights, and has no colour if they never
    attend to the same token. Between these extremes, the colour follows the square root of the
    divergence, which is a distance. The most similar pairs are listed.

    Args:
        roles: A `HeadRoles`.
        divergence: The result of `keras_attn.explain.head_divergence` for these heads. If None, the
            page has no map of pairs.
        title: Heading of the page.

    Returns:
        The page as an HTML string; write it as UTF-8.

    Raises:
        ValueError: If the shape of the divergence does not match the number of heads, or a value is
            not from 0 to log 2.

    Example:

    >>> from keras_attn.explain import HeadRoles
    >>> roles = HeadRoles([[[0.9, 0.0, 0.1, 0.0, 0.2]]], tokens=4)
    >>> 'class="previous v18"' in head_roles_html(roles, [[0.0]])
    True
    """
    style = page_files("text_weights_page.css", "levels.css", "heads.css")
    cards = roles_card(roles)
    if divergence is not None:
        cards += pairs_card(divergence, *np.shape(roles.values)[:2])
    return web_page(title, cards, style + "main{max-width:none}", _POLICY)


def head_roles_fragment(roles: RolesOfHeads) -> str:
    """Returns the tables of head roles, as in `head_roles_html`, as an HTML fragment.

    Args:
        roles: A `HeadRoles`.

    Returns:
        An HTML string for a notebook or your own page: a card with the tables, and a style sheet
        that applies only to the card.

    Example:

    >>> from keras_attn.explain import HeadRoles
    >>> head_roles_fragment(HeadRoles([[[0, 0, 1, 0, 0]]], tokens=4)).count("<table")
    7
    """
    return f"<style>{page_files('levels.css', 'heads.css')}</style>{roles_card(roles)}"


def roles_card(roles: RolesOfHeads) -> str:
    """Returns the tables of roles in HTML, without `levels.css` and `heads.css`."""
    layers, heads, _ = roles.values.shape
    measures = {name: roles.values[..., i] for i, name in enumerate(roles.measures)}
    cells = []
    for layer in range(layers):
        for head in range(heads):
            role = roles.role_of(layer, head)
            numbers = {name: float(table[layer, head]) for name, table in measures.items()}
            told = ", ".join(f"{name} {number:.2f}" for name, number in numbers.items())
            value = f"<b>{numbers[role]:.2f}</b>" if role in numbers else ""
            cells.append(
                f'<td class="{role} v{_level(numbers.get(role, 0))}" '
                f'title="layer {layer}, head {head}: {told}">{role}{value}</td>'
            )
    tables = [_table(cells, layers, heads)]
    for name, table in {**measures, "other": roles.other}.items():
        values = [
            f'<td class="{escaped(name)} v{_level(value)}">{value:.2f}</td>'
            for value in np.ravel(table)
        ]
        tables.append(
            f"<details><summary>{escaped(name)} <small>{escaped(_MEANINGS.get(name, ''))}</small>"
            f"</summary>{_table(values, layers, heads)}</details>"
        )
    return (
        '<div class="kh" dir="ltr"><h2>Roles of the heads</h2><p class="soft">Rows are layers, '
        f"columns are heads. Each value is the mean over {_count(roles.tokens, 'token')} of "
        f"{_count(roles.texts, 'text')}, special tokens left out.</p>{''.join(tables)}</div>"
    )


def pairs_card(divergence: npt.ArrayLike, layers: int, heads: int) -> str:
    """Returns the map of all pairs of heads in HTML, without `levels.css` and `heads.css`."""
    table = np.asarray(divergence, "float64")
    count = layers * heads
    if table.shape != (count, count) or not ((table >= 0) & (table <= np.log(2) + 1e-6)).all():
        raise ValueError(
            f"`divergence` must have shape {(count, count)}, for {layers} layers of {heads} heads, "
            f"and values from 0 to log 2. Received: shape {table.shape}, with values from "
            f"{table.min(initial=np.inf)} to {table.max(initial=-np.inf)}."
        )
    names = [f"{layer}.{head}" for layer in range(layers) for head in range(heads)]
    top = "".join(
        f'<th scope="colgroup" colspan="{heads}">layer {layer}</th>' for layer in range(layers)
    )
    rows = [f"<tr><td></td>{top}</tr>"]
    for i, row in enumerate(table):
        head = f'<th scope="rowgroup" rowspan="{heads}">layer {i // heads}</th>'
        cells = "".join(
            f'<td class="v{_level(1 - np.sqrt(value / np.log(2)))}{" l" * (j % heads == 0)}" '
            f'title="{names[i]}, {names[j]}: {value:.2f}"></td>'
            for j, value in enumerate(row)
        )
        first = i % heads == 0
        rows.append(f"<tr{' class=first' * first}>{head * first}{cells}</tr>")
    pairs = [(float(table[i, j]), names[i], names[j]) for i in range(count) for j in range(i)]
    alike = "".join(
        f"<li>{other} and {name}: {value:.3f}</li>"
        for value, name, other in sorted(pairs)[:_MOST_PAIRS]
    )
    alike = f'<p class="soft">Most alike (layer.head):</p><ol>{alike}</ol>' if pairs else ""
    return (
        '<div class="kh" dir="ltr"><h2>How alike the heads are</h2><p class="soft">Jensen-Shannon '
        "divergence of what two heads look at: 0 (deepest blue) if they look at the same tokens "
        "with the same weights, 0.69 (no colour) if they never look at the same token. The colour "
        "follows its square root.</p>"
        f'<table class="pairs">{"".join(rows)}</table>{alike}</div>'
    )


def _table(cells: Sequence[str], layers: int, heads: int) -> str:
    top = "".join(f'<th scope="col">{head}</th>' for head in range(heads))
    rows = [
        f'<tr><th scope="row">layer {layer}</th>'
        f"{''.join(cells[layer * heads : (layer + 1) * heads])}</tr>"
        for layer in range(layers)
    ]
    return f'<table><tr><th scope="col">head</th>{top}</tr>{"".join(rows)}</table>'


def _level(value: float) -> int:
    """The number of the class in `levels.css`."""
    return round(_LEVELS * min(max(float(value), 0.0), 1.0))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
