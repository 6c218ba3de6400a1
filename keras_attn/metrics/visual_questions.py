"""Scores of answers to questions about images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

_AGREE = 3  # people who must agree with an answer that is wholly right


def agreement(answer: str, answers: Sequence[str]) -> float:
    """Scores an answer by comparing it with the answers of several people (Antol et al., 2015).

        score = mean over the people i of min(1, number of other people who gave this answer / 3)

    With the answer of only one person, the score is always 0. This is the score of the VQA data
    set. The official evaluation also removes articles and punctuation, and writes numbers as
    digits; here, answers are only lower-cased.

    Args:
        answer: The answer.
        answers: The answers of people, at least one.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: If there are no answers.

    Example:

    >>> people = ["red"] * 3 + ["pink"] * 7
    >>> round(agreement("red", people), 4), agreement("pink", people), agreement("blue", people)
    (0.9, 1.0, 0.0)
    """
    if not answers:
        raise ValueError("`answers` must have at least one answer of a person. Received: none.")
    same = [other.lower() == answer.lower() for other in answers]
    scores = [min(1.0, (sum(same) - own) / _AGREE) for own in same]
    return sum(scores) / len(scores)


def visual_question_scores(
    said: Sequence[str],
    expected: Sequence[str],
    answers: Sequence[Sequence[str]] = (),
    kinds: Sequence[str] = (),
) -> dict[str, float]:
    """Scores answers to questions about images.

    Args:
        said: The predicted answer to each question.
        expected: The right answer to each question.
        answers: The answers of several people to each question, if available.
        kinds: The kind of each question, such as "yes/no"; `""` for a question without a kind.

    Returns:
        A dict with `accuracy`, the fraction of predicted answers that equal the right answer;
        `vqa_accuracy`, the mean of `agreement`, if each question has answers of several people; and
        `accuracy of KIND` for each kind.

    Raises:
        ValueError: If there are no questions, or the arguments differ in length.

    Example:

    >>> visual_question_scores(["yes", "red"], ["yes", "blue"], kinds=["yes/no", "color"])
    {'accuracy': 0.5, 'accuracy of color': 0.0, 'accuracy of yes/no': 1.0}
    """
    lengths = {len(said), len(expected), len(answers) or len(said), len(kinds) or len(said)}
    if len(lengths) != 1 or not said:
        raise ValueError(
            "Expected lists of equal length, with at least one question. Received: "
            f"{len(said)} answers, {len(expected)} right answers, {len(answers)} lists of "
            f"people's answers and {len(kinds)} kinds."
        )
    right = [a == b for a, b in zip(said, expected, strict=True)]
    found = {"accuracy": sum(right) / len(right)}
    if answers and all(answers):
        pairs = zip(said, answers, strict=True)
        found["vqa_accuracy"] = sum(agreement(a, people) for a, people in pairs) / len(said)
    for kind, count in sorted(Counter(kinds).items()):
        if kind:
            hits = sum(r for r, k in zip(right, kinds, strict=True) if k == kind)
            found[f"accuracy of {kind}"] = hits / count
    return found


def majority_answers(
    train: Sequence[tuple[str, str]], questions: Sequence[str]
) -> list[str]:  # fmt: skip
    """Answers each question with its most frequent training answer, as a baseline.

    Images are ignored. A question that does not occur in the training pairs gets the most frequent
    answer overall. Among equally frequent answers, the first in alphabetical order is used.

    Args:
        train: Training pairs (question, answer).
        questions: The questions.

    Returns:
        An answer to each question.

    Raises:
        ValueError: If there are no pairs.

    Example:

    >>> train = [("a cat?", "yes"), ("a cat?", "yes"), ("a cat?", "no"), ("a dog?", "no")]
    >>> majority_answers(train, ["a cat?", "a dog?", "a bird?"])
    ['yes', 'no', 'no']
    """
    if not train:
        raise ValueError("Expected (question, answer) pairs. Received: none.")
    counts: dict[str, Counter[str]] = {}
    for question, answer in train:
        counts.setdefault(question, Counter())[answer] += 1
    every = Counter(answer for _, answer in train)
    best = {q: min(c, key=lambda a: (-c[a], a)) for q, c in counts.items()}
    common = min(every, key=lambda a: (-every[a], a))
    return [best.get(question, common) for question in questions]


def attention_share(
    weights: np.ndarray, box: tuple[int, int, int, int], image_size: tuple[int, int]
) -> tuple[float, float]:
    """Computes the fraction of an attention map that lies on an object.

        share = sum of the weights of the regions that the object's box touches / sum of all

    Args:
        weights: Attention map `(rows, columns)`, whose regions divide the image evenly.
        box: Box of the object in pixels: its first row, its first column, the row after its last
            row, and the column after its last column.
        image_size: Rows and columns of the image, in pixels.

    Returns:
        A tuple of the fraction for `weights` and the fraction for a map of equal weights; each from
        0 to 1.

    Raises:
        ValueError: If the box is empty or the map does not have two dimensions.

    Example:

    >>> weights = np.array([[0.7, 0.1], [0.1, 0.1]])
    >>> [round(share, 2) for share in attention_share(weights, (1, 1, 4, 6), (8, 8))]
    [0.8, 0.5]
    """
    weights = np.asarray(weights, "float64")
    top, left, bottom, right = box
    if weights.ndim != 2 or top >= bottom or left >= right:
        raise ValueError(
            "Expected a map (rows, columns) and a box with pixels. Received: a map of shape "
            f"{weights.shape} and the box {box}."
        )
    touched = []
    for count, size, first, behind in zip(
        weights.shape, image_size, (top, left), (bottom, right), strict=True
    ):
        edges = np.arange(count + 1) * size / count
        touched.append((edges[:-1] < behind) & (edges[1:] > first))
    on = np.outer(*touched)
    return float(weights[on].sum() / weights.sum()), float(on.mean())
