"""Scores of extractive question answering: exact match and word F1."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from keras_attn.metrics.reports import Interval, Report, mean_interval
from keras_attn.metrics.word_characters import word_pattern

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerReport(Report):
    """Exact match and F1 of predicted answers, from `score_answers`. `print` shows them.

    Example:

    >>> print(score_answers(["In Oslo", ""], [["Oslo"], []], num_bootstrap=0))
    exact match 50.0 %, F1 83.3 % of 2 questions
    with an answer: exact match 0.0 %, F1 66.7 % of 1
    without an answer: 100.0 % right of 1
    """

    exact: float
    """Fraction of the questions whose normalized answer equals a right answer (EM)."""
    f1: float
    """Mean word F1 of the answer and the most similar right answer."""
    questions: int
    """Number of questions."""
    without: int = 0
    """Number of questions without an answer in their text."""
    without_right: float | None = None
    """Fraction of the questions without an answer for which no answer is predicted; None if every
    question has an answer."""
    interval: Interval | None = None
    """95 % interval of F1, from bootstrap samples of the questions."""
    exact_interval: Interval | None = None
    """95 % interval of the exact match."""
    with_exact: float | None = None
    """Exact match for questions with an answer; None if there are no such questions."""
    with_f1: float | None = None
    """F1 for questions with an answer; None if there are no such questions."""
    best_f1: float | None = None
    """F1 with `best_threshold`; None if no margins were given."""
    best_threshold: float | None = None
    """The threshold with the greatest F1 on these questions, if questions with a margin up to the
    threshold are answered; None if no margins were given."""

    def __str__(self) -> str:
        low = "" if self.interval is None else " ({:.1%} to {:.1%})".format(*self.interval)
        lines = [
            f"exact match {self.exact:.1%}, F1 {self.f1:.1%}{low} of {self.questions:,} "
            f"question{'s' * (self.questions != 1)}"
        ]
        if self.without_right is not None:
            if self.with_f1 is not None:
                lines.append(
                    f"with an answer: exact match {self.with_exact:.1%}, F1 {self.with_f1:.1%} of "
                    f"{self.questions - self.without:,}"
                )
            right = f"{self.without_right:.1%} right of {self.without:,}"
            lines.append(f"without an answer: {right}")
        if self.best_f1 is not None:
            lines.append(
                f"best F1 of these questions: {self.best_f1:.1%}, with threshold "
                f"{self.best_threshold:.4g}"
            )
        return "\n".join(lines).replace("%", " %")


def normalized_answer(text: str) -> str:
    """Normalizes an answer as SQuAD's official script does.

    The answer is lower-cased; ASCII punctuation and the words "a", "an" and "the" are removed; runs
    of white space become one space.

    Args:
        text: An answer.

    Example:

    >>> normalized_answer("The  U.S. Army!")
    'us army'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_MARKS)).split())


def answer_f1(found: str, right: str) -> float:
    """Computes the F1 of the words of two answers, normalized by `normalized_answer`.

    If a normalized answer has no words, F1 is 1 if the other answer has no words either, and 0
    otherwise.

    Args:
        found: The predicted answer.
        right: The right answer.

    Returns:
        A number from 0 to 1.

    Example:

    >>> answer_f1("in Oslo", "Oslo")
    0.6666666666666666
    """
    a, b = normalized_answer(found).split(), normalized_answer(right).split()
    if not a or not b:
        return float(a == b)
    common = sum((Counter(a) & Counter(b)).values())
    return 2 * common / (len(a) + len(b))


def score_answers(
    found: Sequence[str],
    right: Sequence[Sequence[str]],
    num_bootstrap: int = 1000,
    seed: int = 0,
    best: Sequence[str] | None = None,
    margins: Sequence[float] | None = None,
) -> AnswerReport:
    """Scores answers as SQuAD's official script does (Rajpurkar et al., 2016 and 2018).

    Questions with an answer and questions without an answer are also scored separately (HasAns and
    NoAns in the script). If `margins` is given, the report also has the best threshold for "no
    answer".

    Args:
        found: The predicted answer to each question; `""` for no answer.
        right: The right answers to each question; an empty list if there is no answer. Answers
            without words after normalization, such as "the", are ignored.
        num_bootstrap: Number of bootstrap samples of the questions; 0 for no interval.
        seed: Seed of the bootstrap samples.
        best: The best non-empty answer to each question; only used with `margins`.
        margins: For each question, the score of "no answer" minus the score of the best answer.

    Returns:
        An `AnswerReport`.

    Raises:
        TypeError: If the right answers of a question are a string.
        ValueError: If there is no question, the arguments differ in length, or only one of `best`
            and `margins` is given.

    Example:

    >>> score_answers(["the Oslo"], [["Bergen", "Oslo."]], num_bootstrap=0).exact
    1.0
    """
    if not len(found) or len(found) != len(right):
        raise ValueError(
            "Expected at least one question, and an answer to each question. Received: "
            f"{len(found)} answers to {len(right)} questions."
        )
    alone = [choices for choices in right if isinstance(choices, str)]
    if alone:
        raise TypeError(
            f"Expected a list of right answers for each question. Received: {alone[0]!r:.100}."
        )
    sizes = [None if values is None else len(values) for values in (best, margins)]
    if sizes not in ([None, None], [len(found)] * 2):
        raise ValueError(
            f"Expected `best` and `margins` for each of the {len(found)} questions, or "
            f"neither argument. Received: {sizes[0]} values of `best` and {sizes[1]} of "
            "`margins`."
        )
    exact, f1 = _marks(found, right)
    none = np.array([not any(map(normalized_answer, choices)) for choices in right])
    answered = ~none
    chosen: tuple[float | None, float | None] = (None, None)
    if best is not None and margins is not None:
        chosen = _best_threshold(best, margins, right, none)
    return AnswerReport(
        exact=float(exact.mean()),
        f1=float(f1.mean()),
        questions=len(f1),
        without=int(none.sum()),
        without_right=float(f1[none].mean()) if none.any() else None,
        interval=mean_interval(f1, num_bootstrap, seed),
        exact_interval=mean_interval(exact, num_bootstrap, seed),
        with_exact=float(exact[answered].mean()) if answered.any() else None,
        with_f1=float(f1[answered].mean()) if answered.any() else None,
        best_f1=chosen[0],
        best_threshold=chosen[1],
    )


def _marks(found: Sequence[str], right: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The exact match and F1 of each question."""
    marks = []
    for answer, choices in zip(found, right, strict=True):
        # Answers without a word, such as "the", count as no answer.
        choices = [c for c in choices if normalized_answer(c)] or [""]
        exact = max(normalized_answer(answer) == normalized_answer(c) for c in choices)
        marks.append((exact, max(answer_f1(answer, c) for c in choices)))
    exacts, f1s = np.array(marks, "float64").T
    return exacts, f1s


def _best_threshold(
    best: Sequence[str], margins: ArrayLike, right: Sequence[Sequence[str]], none: np.ndarray
) -> tuple[float, float]:
    """The greatest F1 over all thresholds, and its threshold.

    As in `find_best_thresh` of the official script, thresholds are tried in the order of the
    margins; questions with equal margins are answered together. Answering a question that has no
    answer costs the point for "no answer".
    """
    margins = np.asarray(margins, "float64")
    order = np.argsort(margins, kind="stable")
    gains = np.where(none, 0.0, _marks(best, right)[1]) - (none & np.array([bool(b) for b in best]))
    sums = none.sum() + np.cumsum(gains[order])
    ordered = margins[order]
    last = np.append(ordered[1:] != ordered[:-1], True) & np.isfinite(ordered)
    top = np.argmax(np.where(last, sums, -np.inf))
    if not last.any() or sums[top] <= none.sum():  # it is best to answer nothing
        finite = ordered[np.isfinite(ordered)]
        return float(none.mean()), float(finite[0] - 1 if len(finite) else 0.0)
    return float(sums[top] / len(margins)), float(ordered[top])


def common_words_answer(question: str, text: str, length: int = 8) -> str:
    """Answers a question from the part of a text that shares the most words with the question.

    Each window of `length` words is scored by its words that also occur in the question. Words of
    the question within `length` words before or after the window count half, and words that are
    rare in the text count more. The answer is the first run of words in the best window that do not
    occur in the question, or the whole window if all of its words occur in the question. The
    function is a baseline that learns nothing.

    Args:
        question: The question.
        text: The text.
        length: Number of words of a window.

    Returns:
        The answer, a part of `text`; `""` if the text has no words.

    Example:

    >>> text = "The fair opened in May. The first ship left Oslo in June and came back. It rained."
    >>> common_words_answer("When was the fair?", text, length=5)
    'opened in May'
    """
    words = [(m.group(), m.start(), m.end()) for m in word_pattern().finditer(text)]
    if not words:
        return ""
    asked = {w.lower() for w in word_pattern().findall(question)}
    lower = [w.lower() for w, _, _ in words]
    counts = Counter(lower)
    weights = np.array([1 / counts[w] if w in asked else 0.0 for w in lower])
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    first = np.arange(max(1, len(words) - length + 1))
    begin = np.maximum(first - length, 0)
    end = np.minimum(first + 2 * length, len(words))
    inside = sums[np.minimum(first + length, len(words))] - sums[first]
    best = int(np.argmax(sums[end] - sums[begin] + inside))
    window = range(best, min(best + length, len(words)))
    new = [i for i in window if lower[i] not in asked] or list(window)
    run = [new[0]]
    for i in new[1:]:  # the first words in a row that are not in the question
        if i != run[-1] + 1:
            break
        run.append(i)
    return text[words[run[0]][1] : words[run[-1]][2]]
