"""ROUGE of summaries, with intervals."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_attn.metrics.reports import Estimate, Report, mean_interval
from keras_attn.metrics.word_characters import word_pattern
from keras_attn.packages import needed
from keras_attn.text.sentences import split_sentences

FIGURES = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
"""The scores, named as in the package `rouge-score`."""
WORDS = ("english", "unicode")
"""The ways to split words: stemmed runs of `a-z0-9`, or words of any script."""


@dataclass(frozen=True)
class RougeReport(Report):
    """Mean ROUGE F1 of summaries (Lin, 2004). `print` shows a table.

    Example:

    >>> figures = [Estimate(0.5), Estimate(0.25), Estimate(0.5)]
    >>> print(RougeReport(*figures, lead=[0.4, 0.1, 0.4], summaries=["a b"], num_examples=1))
    1 pairs     summaries  lead sentence
    ROUGE-1    0.5000  0.4000
    ROUGE-2    0.2500  0.1000
    ROUGE-L    0.5000  0.4000
    """

    rouge1: Estimate
    """F1 of common words, 0 to 1."""
    rouge2: Estimate
    """F1 of common bigrams."""
    rougeL: Estimate
    """F1 of the longest common subsequence."""
    lead: list[float]
    """Mean ROUGE-1, ROUGE-2 and ROUGE-L of a baseline, the first sentence of each text."""
    summaries: list[str]
    """The summaries."""
    num_examples: int
    """Number of pairs of a text and its reference summary."""

    def __str__(self) -> str:
        lines = [f"{self.num_examples:,} pairs     summaries  lead sentence"]
        for (name, title), lead in zip(FIGURES.items(), self.lead, strict=True):
            lines.append(f"{title:<11}{getattr(self, name)}  {lead:.4f}")
        return "\n".join(lines)


def lead_sentence(text: str) -> str:
    """Returns the first sentence of a text, a strong baseline for news."""
    return next(iter(split_sentences(text)), "")


def rouge(references: Sequence[str], summaries: Sequence[str], words: str = "english") -> Any:
    """Computes ROUGE-1, ROUGE-2 and ROUGE-L of each summary with the package `rouge-score`.

    Args:
        references: The reference summaries.
        summaries: The summary for each reference.
        words: How texts are split into words: `"english"` for the lower-cased, stemmed words of
            `rouge-score`, which ignores all characters except a to z and 0 to 9; or `"unicode"` for
            lower-cased words of any script, without stemming.

    Returns:
        The F1 of ROUGE-1, ROUGE-2 and ROUGE-L of each summary, float64 `(n, 3)`, from 0 to 1.

    Raises:
        ImportError: If `rouge-score` is not installed.
        ValueError: If `words` is unknown, or the numbers of references and summaries differ.

    Example:

    >>> rouge(["the cat sat"], ["a cat sat"]).round(2).tolist()
    [[0.67, 0.5, 0.67]]
    """
    with needed("ROUGE"):
        from rouge_score.rouge_scorer import RougeScorer
    if words not in WORDS:
        raise ValueError(f"`words` must be one of {list(WORDS)}. Received: {words!r}.")
    if len(references) != len(summaries):
        raise ValueError(
            f"Expected a summary for each reference. Received: {len(summaries)} "
            f"summaries and {len(references)} references."
        )
    own = None if words == "english" else _UnicodeWords()
    scorer = RougeScorer([*FIGURES], use_stemmer=own is None, tokenizer=own)
    rows = []
    for reference, summary in zip(references, summaries, strict=True):
        found = scorer.score(reference, summary)
        rows.append([found[name].fmeasure for name in FIGURES])
    return np.array(rows, "float64").reshape(-1, len(FIGURES))


class _UnicodeWords:
    def tokenize(self, text: str) -> list[str]:
        return word_pattern().findall(unicodedata.normalize("NFC", text.casefold()))


def score_summaries(
    pairs: Sequence[tuple[str, str]],
    summaries: Sequence[str],
    words: str = "english",
    num_bootstrap: int = 1000,
    seed: int = 0,
) -> RougeReport:
    """Computes mean ROUGE of summaries and, as a baseline, of the first sentence of each text.

    Args:
        pairs: Tuples (text, reference summary) of strings.
        summaries: The generated summary of each text.
        words: How texts are split into words: `"english"` (stemmed words of the characters a to z
            and 0 to 9) or `"unicode"` (words of any script), as in `rouge`.
        num_bootstrap: Number of bootstrap samples of the pairs; 0 for no intervals.
        seed: Seed of the bootstrap samples.

    Returns:
        A `RougeReport`.

    Raises:
        ImportError: If `rouge-score` is not installed.
        ValueError: If there are no pairs, the numbers of pairs and summaries differ, or `words` is
            unknown.

    Example:

    >>> report = score_summaries([("It rained. Bad.", "rain")], ["rain"], num_bootstrap=0)
    >>> report.rouge1.value, report.lead[0]
    (1.0, 0.6666666666666666)
    """
    if not pairs:
        raise ValueError("Expected at least one (text, summary) pair. Received: none.")
    references = [summary for _, summary in pairs]
    found = rouge(references, summaries, words)
    lead = rouge(references, [lead_sentence(text) for text, _ in pairs], words)
    figures = [
        Estimate(
            float(column.mean()),
            *((mean_interval(column, num_bootstrap, seed) or ()) if num_bootstrap else ()),
        )
        for column in found.T
    ]
    means = [float(mean) for mean in lead.mean(axis=0)]
    rouge1, rouge2, rouge_l = figures
    return RougeReport(rouge1, rouge2, rouge_l, means, list(summaries), len(pairs))
