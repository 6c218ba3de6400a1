"""Several translations of a text, each with its alignment."""

import html
from typing import NamedTuple

import numpy as np

from keras_attn.explain.alignment import Alignment
from keras_attn.text import BytePairTokenizer
from keras_attn.text.readable import readable_tokens
from keras_attn.text.registry import TextTokenizer


class NBestTranslations(NamedTuple):
    """The best translations of one text, the highest score first, with their alignments."""

    translations: list[str]
    scores: list[float]
    """Log-probability of each translation, divided by the length penalty
    (`keras_attn.generation.length_penalty`)."""
    truncated: list[bool]
    """Whether a translation was cut at its maximum length, without an end token."""
    source_truncated: bool
    """Whether the text was longer than `max_source_length`, so that its end was not read."""
    alignments: list[Alignment]
    """The alignment of each translation: the mean over the heads of the last cross-attention; zeros
    if the model has no attention."""

    def _repr_html_(self) -> str:
        """Returns a table for notebooks."""
        cells = "<td style='text-align:right'>{:.3f}</td><td style='text-align:left'>{}{}</td>"
        rows = [
            cells.format(score, html.escape(text), " <i>(cut)</i>" if cut else "")
            for text, score, cut in zip(self.translations, self.scores, self.truncated, strict=True)
        ]
        note = "<caption>The source was cut.</caption>" if self.source_truncated else ""
        head = "<tr><th>score</th><th style='text-align:left'>translation</th></tr>"
        return f"<table>{note}{head}<tr>{'</tr><tr>'.join(rows)}</tr></table>"


def aligned(
    source_tokenizer: TextTokenizer,
    source: list[int],
    target_tokenizer: TextTokenizer,
    target: list[int],
    weights: np.ndarray,
    text: str | None = None,
) -> Alignment:
    """Creates an `Alignment` of S source ids and T target ids with attention weights `(T, S)`."""
    source_text, target_text = None, None
    if isinstance(source_tokenizer, BytePairTokenizer) and text is not None:
        source_text = source_tokenizer.normalized(text)
    if isinstance(target_tokenizer, BytePairTokenizer) and source_text is not None:
        translation = target_tokenizer.decode(target)
        # Bytes that are no text are not its tokens.
        target_text = None if "\ufffd" in translation else translation
    return Alignment(
        readable_tokens(source_tokenizer, source),
        readable_tokens(target_tokenizer, target),
        weights,
        source_text,
        target_text,
    )
