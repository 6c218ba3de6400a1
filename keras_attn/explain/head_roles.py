"""Roles of attention heads: attention to neighbours, special tokens or the whole text."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_attn.explain.attention_rows import Maps, TextAttention, attention_of_texts, row_entropy
from keras_attn.visualize import head_roles_fragment, head_roles_html

MIXED = "mixed"
SPREAD = "spread"
SHARES = ("previous", "next", "same", "special")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HeadRoles:
    """The role of each head of each layer, from `head_roles`.

    `print(roles)` prints a table. Notebooks display coloured tables.

    Args:
        values: The five measures of each head in the order of `measures`, numbers from 0 to 1,
            `(layers, heads, 5)`.
        tokens: Number of tokens over which the values are averaged.
        texts: Number of texts that contain these tokens.

    Raises:
        ValueError: If the values do not have the shape `(layers, heads, 5)`, or are not from 0 to
            1.

    Example:

    >>> roles = HeadRoles([[[0.9, 0.0, 0.1, 0.0, 0.2], [0.1, 0.3, 0.1, 0.2, 0.7]]], tokens=4)
    >>> roles.role_of(0, 0), roles.role_of(0, 1), roles.role_of(0, 1, threshold=0.3)
    ('previous', 'mixed', 'next')
    >>> print(roles)
    layer  head  previous  next  same  special  other  spread  role
        0     0      0.90  0.00  0.10     0.00   0.00    0.20  previous
        0     1      0.10  0.30  0.10     0.20   0.30    0.70  mixed
    """

    measures = (*SHARES, SPREAD)
    """Names of the measures: four shares of attention, and the spread of the attention."""

    values: np.ndarray
    """The measures of each head, float64 `(layers, heads, 5)`."""
    tokens: int
    texts: int = 1

    def __post_init__(self) -> None:
        values = np.asarray(self.values, "float64")
        if values.ndim != 3 or values.shape[2] != len(self.measures) or 0 in values.shape:
            raise ValueError(
                f"Expected `values` (layers, heads, {len(self.measures)}). Received: shape "
                f"{values.shape}."
            )
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(
                f"Expected `values` from 0 to 1. Received: {values.min()} to {values.max()}."
            )
        object.__setattr__(self, "values", values)

    @property
    def other(self) -> np.ndarray:
        """The share of attention to other words, 1 minus the four shares, `(layers, heads)`."""
        return np.clip(1 - self.values[..., : len(SHARES)].sum(axis=2), 0, 1)

    def role_of(
        self, layer: int, head: int, threshold: float = 0.5, spread_threshold: float = 0.9
    ) -> str:
        """Returns the role of a head.

        Args:
            layer: Index of the layer, from 0.
            head: Index of the head, from 0.
            threshold: Minimum share of attention for the roles `"previous"`, `"next"`, `"same"` and
                `"special"`.
            spread_threshold: Minimum spread for the role `"spread"`.

        Returns:
            If the greatest share is at least `threshold`, the name of this share: `"previous"`,
            `"next"`, `"same"` or `"special"`. Otherwise, `"spread"` if the spread is at least
            `spread_threshold`, or else `"mixed"`.

        Example:

        >>> HeadRoles([[[0.1, 0.1, 0.1, 0.1, 0.95]]], tokens=4).role_of(0, 0)
        'spread'
        """
        *shares, spread = self.values[layer, head]
        most = int(np.argmax(shares))
        if shares[most] >= threshold:
            return SHARES[most]
        return SPREAD if spread >= spread_threshold else MIXED

    def strongest(self, measure: str, count: int = 5) -> list[tuple[int, int, float]]:
        """Lists the heads with the largest values of a measure.

        Args:
            measure: One of `measures`.
            count: Maximum number of heads.

        Returns:
            A list of tuples (layer, head, value), the greatest value first.

        Raises:
            ValueError: If `measure` is not one of `measures`.

        Example:

        >>> values = [[[0.9, 0.0, 0.1, 0.0, 0.2], [0.1, 0.3, 0.1, 0.2, 0.7]]]
        >>> HeadRoles(values, tokens=4).strongest("next", 1)
        [(0, 1, 0.3)]
        """
        if measure not in self.measures:
            raise ValueError(f"`measure` must be one of {self.measures}. Received: {measure!r}.")
        table = self.values[..., self.measures.index(measure)]
        order = np.argsort(-table, axis=None, kind="stable")[:count]
        places = [divmod(int(place), table.shape[1]) for place in order]
        return [(layer, head, float(table[layer, head])) for layer, head in places]

    def to_dict(self) -> dict[str, Any]:
        """Returns a dict for JSON of the values and the role of each head.

        Returns:
            A dict with `tokens`, `texts`, and `heads`, a list with a dict for each head. The dict
            has `layer`, `head`, the value of each measure keyed by its name, `other`, and `role`,
            the result of `role_of` with its default thresholds.

        Example:

        >>> HeadRoles([[[0.5, 0.0, 0.5, 0.0, 0.4]]], tokens=4).to_dict()["heads"][0]["role"]
        'previous'
        """
        layers, heads, _ = self.values.shape
        return {
            "tokens": self.tokens,
            "texts": self.texts,
            "heads": [
                {
                    "layer": layer,
                    "head": head,
                    **dict(zip(self.measures, self.values[layer, head].tolist(), strict=True)),
                    "other": float(self.other[layer, head]),
                    "role": self.role_of(layer, head),
                }
                for layer in range(layers)
                for head in range(heads)
            ],
        }

    def html(self, title: str = "What the heads look at") -> str:
        """Returns an HTML page with coloured tables of the roles and measures of all heads.

        The page is made by `keras_attn.visualize.head_roles_html`.

        Args:
            title: Heading of the page.

        Returns:
            The page as an HTML string; write it as UTF-8.

        Example:

        >>> "previous" in HeadRoles([[[0.5, 0.0, 0.5, 0.0, 0.4]]], tokens=4).html()
        True
        """
        return head_roles_html(self, title=title)

    def _repr_html_(self) -> str:
        return head_roles_fragment(self)

    def __str__(self) -> str:
        names = (*SHARES, "other", SPREAD)
        lines = ["layer  head  " + "  ".join(names) + "  role"]
        for row in self.to_dict()["heads"]:
            numbers = "  ".join(f"{row[name]:{len(name)}.2f}" for name in names)
            lines.append(f"{row['layer']:5}  {row['head']:4}  {numbers}  {row['role']}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        layers, heads, _ = self.values.shape
        return f"<HeadRoles of {layers} x {heads} heads, {self.tokens} tokens>"


def head_roles(
    maps: Maps, padding_mask: npt.ArrayLike | None = None, special_mask: npt.ArrayLike | None = None
) -> HeadRoles:
    """Measures where each head of an encoder attends, in one or more texts.

    For a word q (a token that is neither padding nor special) and the attention weights w of one
    head over the n tokens of its text:

        special  = sum of w[k] over the special tokens k
        same     = w[q]
        previous = w[q - 1], or 0 if that token is special or there is none
        next     = w[q + 1], or 0 if that token is special or there is none
        spread   = -sum_k w[k] log w[k] / log n, or 0 if n = 1

    The four shares do not overlap; the remaining share is attention to other words. The spread is 1
    if a head attends uniformly to all n tokens, and 0 if it attends to a single token. Each number
    is the mean over the words of all texts, so long texts count more than short texts.

    Clark et al. (2019) and Kovaleva et al. (2019) found heads of BERT that attend to the previous
    token, the next token or `[SEP]`, and heads that spread their attention widely. Attention shows
    where a head looks, but not what the model uses the head for.

    References:
        - [Clark et al., 2019](https://arxiv.org/abs/1906.04341): What Does BERT Look At?
        - [Kovaleva et al., 2019](https://arxiv.org/abs/1908.08593): Revealing the Dark Secrets of
          BERT.

    Args:
        maps: Result of `attention_maps(model, inputs)`, of which only self-attention is used, or an
            array `(B, N, T, T)` for each layer, with B texts, N heads and T tokens.
        padding_mask: `(B, T)`, True for tokens. If None, there is no padding.
        special_mask: `(B, T)`, True for special tokens such as `[CLS]` and `[SEP]`. If None, there
            are none.

    Returns:
        A `HeadRoles`.

    Raises:
        ValueError: If there is no self-attention, the shapes of maps and masks do not match, a
            weight is negative or not finite, a token attends to padding, or there is no word.

    Example:

    >>> looks_back = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> roles = head_roles([looks_back[None, None]])
    >>> roles.values[0, 0].round(2).tolist()
    [0.67, 0.0, 0.33, 0.0, 0.0]
    """
    total: Any = 0
    tokens = texts = 0
    for text in attention_of_texts(maps, padding_mask, special_mask):
        if text.words.any():
            total = total + np.stack([_sums(layer, text) for layer in text.layers])
            tokens += int(text.words.sum())
            texts += 1
    if not tokens:
        raise ValueError(
            "Expected at least one token that is neither padding nor special. Received: none."
        )
    return HeadRoles(np.clip(total / tokens, 0, 1), tokens, texts)


def _sums(weights: np.ndarray, text: TextAttention) -> np.ndarray:
    """The measures of one layer, summed over the words of a text: `(N, 5)`."""
    words = text.words
    count = len(words)
    both = words[1:] & words[:-1]
    spread = row_entropy(weights[:, words]) / (np.log(count) if count > 1 else 1)
    sums = {
        "previous": np.diagonal(weights, -1, 1, 2)[:, both],
        "next": np.diagonal(weights, 1, 1, 2)[:, both],
        "same": np.diagonal(weights, 0, 1, 2)[:, words],
        "special": weights[:, words][:, :, text.special].sum(axis=2),
        SPREAD: spread,
    }
    return np.stack([sums[name].sum(axis=1) for name in HeadRoles.measures], axis=1)
