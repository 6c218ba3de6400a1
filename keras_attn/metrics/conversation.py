"""Scores of answers in conversations, including their diversity."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.reports import json_safe
from keras_attn.metrics.word_characters import word_characters
from keras_attn.packages import needed


class Vectors(Protocol):
    """A mapping from words to vectors, such as a dict."""

    def __contains__(self, word: str, /) -> bool: ...

    def __getitem__(self, word: str, /) -> ArrayLike: ...


@functools.cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"\w[{word_characters()}]*|[^\w\s]")


def answer_words(text: str) -> list[str]:
    """Splits a text into lower-case words and punctuation marks, in Unicode's form NFC.

    Args:
        text: A string.

    Example:

    >>> answer_words("I don't know.")
    ['i', 'don', "'", 't', 'know', '.']
    >>> answer_words("हिन्दी भाषा")
    ['हिन्दी', 'भाषा']
    """
    return _word().findall(unicodedata.normalize("NFC", text.lower()))


def distinct(texts: Sequence[str], n: int) -> float:
    """Computes distinct-n, the diversity of texts (Li et al., 2016).

        distinct-n = number of different n-grams / number of all n-grams

    The n-grams are counted over all texts, which are split by `answer_words`. The score tends to
    decrease with the number of texts, so compare only equal numbers of texts.

    References:
        - [Li et al., 2016](https://arxiv.org/abs/1510.03055): distinct-1 and distinct-2.

    Args:
        texts: The texts.
        n: Number of words (including punctuation marks) in an n-gram.

    Returns:
        A number from 0 to 1; 0 if there are no n-grams.

    Example:

    >>> distinct(["I know.", "I do."], 1)  # i, know, do and . of 6
    0.6666666666666666
    """
    grams = Counter(
        gram
        for words in map(answer_words, texts)
        for gram in zip(*(words[i:] for i in range(n)), strict=False)
    )
    return len(grams) / grams.total() if grams else 0.0


def commonest_share(texts: Sequence[str]) -> float:
    """Returns the fraction of texts that equal the most frequent text.

    Texts with the same `answer_words` are equal.

    Args:
        texts: The texts, at least one.

    Example:

    >>> commonest_share(["I don't know.", "i don't know .", "Yes.", "No."])
    0.5
    """
    return Counter(tuple(answer_words(text)) for text in texts).most_common(1)[0][1] / len(texts)


def embedding_average(answers: Sequence[str], references: Sequence[str], vectors: Vectors) -> float:
    """Computes the embedding average, a semantic similarity of answers (Liu et al., 2016).

        v(text) = mean of the vectors of its words
        score   = mean over pairs of cos(v(answer), v(reference))

    Texts are split by `answer_words`, and words without a vector are skipped. If an answer or
    its reference has no word with a vector, the pair counts as 0.

    References:
        - [Liu et al., 2016](https://arxiv.org/abs/1603.08023): how not to evaluate a dialogue
          system; embedding average.

    Args:
        answers: The generated answers, at least one.
        references: The reference for each answer.
        vectors: A mapping from words to vectors with `in` and `[]`, such as
            `keras_attn.interop.WordVectors`.

    Returns:
        A number from -1 to 1.

    Raises:
        ValueError: If the numbers of answers and references differ.

    Example:

    >>> vectors = {"red": np.array([1.0, 0.0]), "blue": np.array([0.0, 1.0])}
    >>> round(embedding_average(["red blue", "what?"], ["red", "red"], vectors), 4)
    0.3536
    """
    total = 0.0
    for pair in zip(answers, references, strict=True):
        sides = []
        for text in pair:
            known = [np.asarray(vectors[w], "float64") for w in answer_words(text) if w in vectors]
            mean = np.mean(known, axis=0) if known else np.zeros(1)
            length = np.linalg.norm(mean)
            if length:
                sides.append(mean / length)
        if len(sides) == 2:
            total += float(sides[0] @ sides[1])
    return total / len(answers)


def answer_scores(
    answers: Sequence[str], references: Sequence[str], vectors: Vectors | None = None
) -> tuple[dict[str, float], str]:
    """Scores answers by their similarity to references and by their diversity.

    Args:
        answers: The answers, at least one.
        references: The reference for each answer.
        vectors: A mapping from words to vectors, for `embedding_average`; if None, that score is
            left out.

    Returns:
        A tuple of a dict of scores and sacrebleu's signature. The dict has `BLEU` (corpus BLEU, 0
        to 100), `distinct_1`, `distinct_2`, `commonest` (the fraction of answers that equal the
        most frequent answer) and, with vectors, `embedding_average`.

    Raises:
        ImportError: If sacrebleu is not installed.
        ValueError: If there are no answers, or the numbers of answers and references differ.

    Example:

    >>> scores, signature = answer_scores(["a b c d"], ["a b c d"])
    >>> round(scores["BLEU"]), scores["distinct_1"], "version:" in signature
    (100, 1.0, True)
    """
    with needed("BLEU"):
        import sacrebleu

    if not answers or len(answers) != len(references):
        raise ValueError(
            "Expected at least one answer, and a reference for each. Received: "
            f"{len(answers)} answers and {len(references)} references."
        )
    bleu = sacrebleu.BLEU()
    scores = {
        "BLEU": bleu.corpus_score(list(answers), [list(references)]).score,
        "distinct_1": distinct(answers, 1),
        "distinct_2": distinct(answers, 2),
        "commonest": commonest_share(answers),
    }
    if vectors is not None:
        scores["embedding_average"] = embedding_average(answers, references, vectors)
    return scores, str(bleu.get_signature())


def nearest_answers(
    contexts: Sequence[str], train_contexts: Sequence[str], train_answers: Sequence[str]
) -> list[str]:
    """Returns the answer of the nearest training context for each context, as a baseline.

    The nearest training context has the greatest cosine of TF-IDF vectors, which scikit-learn
    computes over `answer_words`. Among equally near contexts, the first one is chosen.

    Args:
        contexts: The contexts: the turns before an answer, joined to one text.
        train_contexts: The training contexts, at least one.
        train_answers: The answer to each training context.

    Returns:
        A list with an answer for each context.

    Raises:
        ImportError: If scikit-learn is not installed.

    Example:

    >>> nearest_answers(["A red car?"], ["A car.", "Tea, please."], ["Which?", "Milk?"])
    ['Which?']
    """
    with needed("A search for the nearest contexts"):
        from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(answer_words, train_contexts)):
        return [train_answers[0]] * len(contexts)
    words: Callable = answer_words
    vectorizer = TfidfVectorizer(analyzer=words)
    table = vectorizer.fit_transform(train_contexts).T.tocsr()
    found = []
    for i in range(0, len(contexts), 256):
        similar = vectorizer.transform(contexts[i : i + 256]) @ table
        found += [train_answers[j] for j in np.asarray(similar.todense()).argmax(axis=1)]
    return found


def random_answers(train_answers: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Draws training answers at random, with replacement, as a baseline.

    Args:
        train_answers: The training answers.
        count: Number of answers to draw.
        seed: Seed of the random numbers.

    Returns:
        A list of `count` answers.

    Example:

    >>> random_answers(["Yes."], 2)
    ['Yes.', 'Yes.']
    """
    drawn = np.random.default_rng(seed).integers(len(train_answers), size=count)
    return [train_answers[i] for i in drawn]


_COLUMNS = ("BLEU", "distinct_1", "distinct_2", "commonest", "embedding_average")
_DIGITS = {"BLEU": 2, "commonest": 3}


class ConversationScores(NamedTuple):
    """Scores of a model's answers and of the answers of baselines.

    Example:

    >>> scores = {"BLEU": 1.5, "distinct_1": 0.1, "distinct_2": 0.2, "commonest": 0.25}
    >>> print(ConversationScores(8.0, {"model": scores}, "BLEU|...", ["Yes."], 4))
    4 answers, perplexity 8.00 of a token, BLEU|...
    answers              BLEU distinct_1 distinct_2  commonest
    model                1.50     0.1000     0.2000      0.250
    No embedding average: it needs a file of word vectors.
    """

    perplexity: float
    """`exp(-1/N sum log p(token))` over the N tokens of all right answers, including end tokens."""
    scores: dict[str, dict[str, float]]
    """The scores of `keras_attn.metrics.answer_scores` for `"model"`, `"random training answer"`
    and `"answer of the nearest training context"`."""
    bleu_signature: str
    """Sacrebleu's signature, which states its version and settings."""
    answers: list[str]
    """The answers of the model."""
    exchanges: int
    """Number of answers."""

    def __str__(self) -> str:
        columns = [name for name in _COLUMNS if name in self.scores["model"]]
        width = max(16, *(len(row) + 1 for row in self.scores))
        lines = [
            f"{self.exchanges:,} answers, perplexity {self.perplexity:.2f} of a token, "
            f"{self.bleu_signature}",
            "answers".ljust(width) + " ".join(f"{name:>10}" for name in columns),
        ]
        for row, scores in self.scores.items():
            figures = (f"{scores[name]:{10}.{_DIGITS.get(name, 4)}f}" for name in columns)
            lines.append(row.ljust(width) + " ".join(figures))
        if "embedding_average" not in columns:
            lines.append("No embedding average: it needs a file of word vectors.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields, keyed by their names, as a dict for JSON, with None for NaN and
        infinity."""
        return {name: json_safe(value) for name, value in self._asdict().items()}


def score_conversation(
    rows: Mapping[str, Sequence[str]],
    references: Sequence[str],
    perplexity: float,
    vectors: Vectors | None = None,
) -> ConversationScores:
    """Scores the answers in each of `rows`, such as those of `model` and of baselines."""
    scored = {name: answer_scores(texts, references, vectors) for name, texts in rows.items()}
    return ConversationScores(
        perplexity,
        {name: scores for name, (scores, _) in scored.items()},
        scored["model"][1],
        list(rows["model"]),
        len(references),
    )
