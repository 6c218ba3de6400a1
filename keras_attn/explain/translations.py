"""Several translations of a text, each with its alignment."""

import html
from typing import NamedTuple

import numpy as np

from keras_attn.explain.alignment import Alignment
from keras_attn.text import SentencePieceTokenizer
from keras_attn.text.readable import readable_tokens
from keras_attn.text.registry import PieceTokenizer


class NBestTranslations(NamedTuple):
    """The R best translations of one text, the best first."""

    translations: list[str]
    scores: list[float]
    """Log-probability divided by the length penalty `((5 + length) / 6) ** alpha`."""
    truncated: list[bool]
    """Whether a translation was cut at its greatest length, without an end."""
    source_truncated: bool
    """Whether the text was longer than `max_source_length`: the rest of it was not read."""
    alignments: list[Alignment]
    """Of each: the mean over the heads of the last cross-attention; zeros without attention."""

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        cells = "<td style='text-align:right'>{:.3f}</td><td style='text-align:left'>{}{}</td>"
        rows = [
            cells.format(score, html.escape(text), " <i>(cut)</i>" if cut else "")
            for text, score, cut in zip(self.translations, self.scores, self.truncated, strict=True)
        ]
        note = "<caption>The source was cut.</caption>" if self.source_truncated else ""
        head = "<tr><th>score</th><th style='text-align:left'>translation</th></tr>"
        return f"<table>{note}{head}<tr>{'</tr><tr>'.join(rows)}</tr></table>"


def aligned(
    source_tokenizer: PieceTokenizer,
    source: list[int],
    target_tokenizer: PieceTokenizer,
    target: list[int],
    weights: np.ndarray,
    text: str | None = None,
) -> Alignment:
    """Returns an alignment of ids by weights `(T, S)`; `text` gives the borders of source words."""
    translation = target_tokenizer.decode(target)
    # Bytes that are no text are not its tokens. Those of SentencePiece have a space in front, and
    # all of their text.
    broken = "\ufffd" in translation or isinstance(target_tokenizer, SentencePieceTokenizer)
    if isinstance(source_tokenizer, SentencePieceTokenizer):
        text = None
    return Alignment(
        readable_tokens(source_tokenizer, source),
        readable_tokens(target_tokenizer, target),
        weights,
        text,
        None if broken or text is None else translation,
    )
