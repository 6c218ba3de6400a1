"""Alignments of source and target tokens by attention, and word links from them."""

import dataclasses
import itertools
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_attn.text.checks import well_formed
from keras_attn.text.readable import END
from keras_attn.visualize import attention_html, plot_attention
from keras_attn.visualize.web_page import escaped, web_page

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px sans-serif;margin:2em}section{margin:0 0 2.5em}"
)
_STYLE += "section{overflow-x:auto}h2{font-size:1em}"
_UNIT = re.compile(r"<0x([0-9A-F]{2})>|.", re.DOTALL)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """The attention weights from the tokens of a target text to the tokens of a source text.

    Notebooks display an alignment as a heat map, with target tokens as rows and source tokens as
    columns.

    Words are separated by white space, as in `str.split()`. A token belongs to the word that
    contains it; the space before a word belongs to that word. A token that covers several words is
    divided among these words in proportion to its bytes.

    Args:
        source_tokens: S readable tokens as returned by `BytePairTokenizer.tokens`, with `▁` for a
            space. If the last token is `</s>`, it is the end token.
        target_tokens: T readable tokens.
        weights: Attention weights `(T, S)`, such as the mean over the heads of one decoder block's
            cross-attention.
        source_text: The normalized text of the source tokens (`tokenizer.normalized(text)`), which
            defines the words. The tokens may end earlier if the text was truncated. If None, the
            text is reconstructed from the tokens, where a literal `▁` or `<0x41>` cannot be
            distinguished from a space or a byte.
        target_text: The normalized text of the target tokens, used in the same way as
            `source_text`.
        unit: `"token"`, or `"word"` if source and target tokens already are words.
        title: Title for figures and pages.

    Raises:
        ValueError: If the weights do not match the tokens, the tokens do not match a text, or
            `unit` is neither `"token"` nor `"word"`.

    Example:

    >>> weights = [[0.9, 0.0, 0.1, 0.0], [0.1, 0.4, 0.4, 0.1], [0.0, 0.1, 0.1, 0.8]]
    >>> alignment = Alignment(["a", "▁do", "g", "</s>"], ["ein", "▁Hund", "</s>"], weights)
    >>> alignment.by_words().source_tokens
    ['a', 'dog', '</s>']
    >>> alignment.to_pharaoh()
    '0-0 1-1'
    """

    source_tokens: list[str]
    target_tokens: list[str]
    weights: np.ndarray
    """Attention weights, float32 `(T, S)`."""
    source_text: str | None = None
    target_text: str | None = None
    unit: str = "token"
    title: str = ""

    def __post_init__(self) -> None:
        for name in ("source_tokens", "target_tokens"):
            object.__setattr__(self, name, list(getattr(self, name)))
        object.__setattr__(self, "weights", np.asarray(self.weights, "float32"))
        expected = (len(self.target_tokens), len(self.source_tokens))
        if self.weights.shape != expected:
            raise ValueError(
                "Expected `weights` with one row for each target token and one column for each "
                f"source token, shape {expected}. Received: shape {self.weights.shape}."
            )
        if self.unit not in ("token", "word"):
            raise ValueError(f'Expected `unit` "token" or "word". Received: {self.unit!r}.')
        for side in ("source", "target"):
            if self._text(side) is not None:
                self._check_text(side)

    def by_words(self) -> "Alignment":
        """Merges the tokens of each word.

        For source word i, target word j and their sets of tokens `W(i)`, `W(j)`:

            weights[j, i] = 1 / |W(j)| * sum_{t in W(j)} sum_{s in W(i)} weights[t, s]

        The attention to the tokens of a source word is summed, and averaged over the tokens of a
        target word. The end tokens keep their own row and column. Words that were truncated, and
        therefore have no tokens, have weights of 0.

        Returns:
            An `Alignment` with `unit="word"`, whose tokens are the words of each text and, if there
            are any, the end tokens. If the unit is already `"word"`, the alignment itself.

        Example:

        >>> weights = [[0.25, 0.25, 0.5], [0.75, 0.25, 0.0]]
        >>> words = Alignment(["a", "▁b", "c"], ["x", "y"], weights).by_words()
        >>> words.source_tokens, words.target_tokens, words.weights.tolist()
        (['a', 'bc'], ['xy'], [[0.5, 0.5]])
        """
        if self.unit == "word":
            return self
        source, target = self._words("source"), self._words("target")
        total = target[1].sum(axis=1, keepdims=True)
        mean = target[1] / np.where(total > 0, total, 1)
        weights = mean @ self.weights.astype("float64") @ source[1].T
        texts = (self.source_text, self.target_text)
        return Alignment(source[0], target[0], weights, *texts, unit="word", title=self.title)

    def word_links(self, threshold: float | None = None) -> list[tuple[int, int]]:
        """Links each target word to the source word that it attended to most.

        Args:
            threshold: Minimum weight of a link, from 0 to 1. A target word whose highest weight is
                lower has no link. If None, any weight above 0 gives a link.

        Returns:
            A list of tuples (source word, target word), indices from 0, in the order of the target
            words. The end tokens are not words, and attention to the end token is ignored.

        Example:

        >>> weights = [[0.1, 0.5, 0.4], [0.3, 0.2, 0.5]]
        >>> alignment = Alignment(["to", "▁go", "</s>"], ["gehen", "▁wir"], weights)
        >>> alignment.word_links(), alignment.word_links(threshold=0.4)
        ([(1, 0), (0, 1)], [(1, 0)])
        """
        words = self.by_words()
        weights = words.weights[: words._count("target"), : words._count("source")]
        if not weights.size:
            return []
        links = []
        for j, (i, weight) in enumerate(zip(weights.argmax(1), weights.max(1), strict=True)):
            if weight > 0 and (threshold is None or weight >= threshold):
                links.append((int(i), j))
        return links

    def to_pharaoh(self, threshold: float | None = None) -> str:
        """Returns the word links in the Pharaoh format of word aligners such as fast_align.

        Args:
            threshold: Minimum weight of a link, from 0 to 1; None for any weight above 0.

        Returns:
            A string such as `"0-0 2-1"`, which links source word 0 to target word 0, and source
            word 2 to target word 1.

        Example:

        >>> Alignment(["a", "▁b"], ["B", "▁A"], [[0.1, 0.9], [0.8, 0.2]]).to_pharaoh()
        '1-0 0-1'
        """
        return " ".join(f"{i}-{j}" for i, j in self.word_links(threshold))

    def plot(self, path: str | os.PathLike | None = None, title: str | None = None) -> Any:
        """Draws the alignment as a heat map with matplotlib, as `plot_attention` does.

        Args:
            path: File to write, if any.
            title: Title of the figure; the title of the alignment if None.

        Returns:
            A `matplotlib.figure.Figure`, which notebooks show.

        Raises:
            ImportError: If matplotlib is not installed.

        Example:

        >>> figure = Alignment(["dog"], ["Hund"], [[1.0]]).plot()
        >>> figure.axes[0].get_yticklabels()[0].get_text()
        'Hund'
        """
        source, target = self._labels()
        title = (self.title or None) if title is None else title
        return plot_attention(self.weights, source, target, path, title)

    def _repr_html_(self) -> str:
        return attention_html(self.weights, *self._labels())

    def __repr__(self) -> str:
        return (
            f"<Alignment of {len(self.target_tokens)} target {self.unit}s to "
            f"{len(self.source_tokens)} source {self.unit}s>"
        )

    def _tokens(self, side: str) -> list[str]:
        return self.source_tokens if side == "source" else self.target_tokens

    def _text(self, side: str) -> str | None:
        return self.source_text if side == "source" else self.target_text

    def _labels(self) -> tuple[list[str], list[str]]:
        """The tokens, or the words with control characters written as bytes."""
        if self.unit == "token":
            return self.source_tokens, self.target_tokens
        return [_shown(t) for t in self.source_tokens], [_shown(t) for t in self.target_tokens]

    def _check_text(self, side: str) -> None:
        """Raises a ValueError if the tokens or words are not from the text."""
        if self.unit == "token":
            self._spans(side)
        elif self._tokens(side)[: self._count(side)] != well_formed(self._text(side)).split():
            raise ValueError(
                f"Expected `{side}_tokens` to be the words of `{side}_text`. Received: "
                f"{self._tokens(side)} for {self._text(side)!r}. Pass `text.split()`."
            )

    def _count(self, side: str) -> int:
        """Number of tokens (or words) without the end token."""
        tokens, text = self._tokens(side), self._text(side)
        if self.unit == "word" and text is not None:
            return len(text.split())  # the last word may read as the end does
        return len(tokens) - (tokens[-1:] == [END])

    def _spans(self, side: str) -> tuple[bytes, list[tuple[int, int]]]:
        """The text as bytes, and the span of each token in it. The end token has none."""
        tokens, text = self._tokens(side), self._text(side)
        if text is None:
            pieces = [_bytes(token) for token in tokens[: self._count(side)]]
            borders = itertools.accumulate(map(len, pieces), initial=0)
            return b"".join(pieces), list(itertools.pairwise(borders))
        data = well_formed(text).encode("utf-8")
        spans: list[tuple[int, int]] = []
        start = 0
        for token in tokens:
            end = _match(token, data, start)
            if end is None:
                break
            spans.append((start, end))
            start = end
        # A text may be cut, but only tokens that are all there may lack an end.
        whole = len(spans) == len(tokens) and start == len(data)
        count = len(tokens) if whole else self._count(side)
        if len(spans) < count:
            raise ValueError(
                f"Expected `{side}_tokens` to be the tokens of `{side}_text`. Received: "
                f"token {len(spans)}, {tokens[len(spans)]!r}, where the text continues with "
                f"{data[start : start + 20].decode('utf-8', 'replace')!r}. Pass the normalized "
                "text (`tokenizer.normalized(text)`), or no text."
            )
        return data, spans[:count]

    def _words(self, side: str) -> tuple[list[str], np.ndarray]:
        """The words, then the end token, and the share of each token in each of them."""
        tokens = self._tokens(side)
        data, spans = self._spans(side)
        borders = _word_borders(data)
        words = [data[start:end].decode("utf-8", "replace") for start, end in borders]
        word_of = np.full(len(data), -1)
        for i, (start, end) in enumerate(borders):
            word_of[start:end] = i
        shares = np.zeros((len(words), len(tokens)))
        for t, (start, end) in enumerate(spans):
            inside = word_of[start:end]
            inside = inside[inside >= 0]
            if inside.size:
                shares[:, t] = np.bincount(inside, minlength=len(words)) / inside.size
            else:  # white space goes with the next word
                following = sum(first < end for first, _ in borders)
                shares[following : following + 1, t] = 1
        for t in range(len(spans), len(tokens)):
            words.append(tokens[t])
            shares = np.concatenate([shares, np.eye(len(tokens))[t : t + 1]])
        return words, shares


def _bytes(token: str) -> bytes:
    """The bytes that a readable token stands for."""
    parts = []
    for unit in _UNIT.finditer(token):
        if unit[1]:
            parts.append(bytes([int(unit[1], 16)]))
        else:
            parts.append(b" " if unit[0] == "▁" else unit[0].encode("utf-8", "replace"))
    return b"".join(parts)


def _match(token: str, data: bytes, start: int) -> int | None:
    """Returns the end of a readable token in `data`, or None; bytes tell `▁` from a space."""
    for unit in _UNIT.finditer(token):
        for piece in (unit[0].encode("utf-8", "replace"), _bytes(unit[0])):
            if data.startswith(piece, start):
                start += len(piece)
                break
        else:
            return None
    return start


def _word_borders(data: bytes) -> list[tuple[int, int]]:
    """First byte and byte after the last of each word, as `str.split()` finds them."""
    borders, start, position = [], None, 0
    for character in data.decode("utf-8", "surrogateescape"):  # one character for a wrong byte
        if character.isspace():
            if start is not None:
                borders.append((start, position))
            start = None
        elif start is None:
            start = position
        position += len(character.encode("utf-8", "surrogateescape"))
    return borders if start is None else [*borders, (start, position)]


def _shown(word: str) -> str:
    return "".join(
        c if c.isprintable() else "".join(f"<0x{byte:02X}>" for byte in c.encode("utf-8"))
        for c in word
    )


def alignment_page(alignments: Sequence[Alignment], title: str) -> str:
    """Returns an HTML page that shows each alignment as a heat map below its title."""
    maps = "".join(
        f"<section><h2>{escaped(alignment.title)}</h2>{alignment._repr_html_()}"
        f"{'' if alignment.weights.size else '<p>A text has no word to compare.</p>'}</section>"
        for alignment in alignments
    )
    return web_page(title, maps, _STYLE, "style-src 'unsafe-inline'")
