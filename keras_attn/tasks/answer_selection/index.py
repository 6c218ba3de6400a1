"""Answers that are searched: their scores by words, by vectors, and by both."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import numpy as np

from keras_attn.tasks.answer_selection.words import WordScores


class AnswerIndex:
    """Answers, with what is computed of them once, when it is first needed.

    Args:
        answers: Strings, all different.
        embed: Makes vectors of length 1 of strings.

    Example:

    >>> index = AnswerIndex(["in Oslo", "in Rome"], lambda texts: np.eye(2)[: len(texts)])
    >>> [scores.tolist() for scores in index.scores(["Rome?"], "words", 0.5)][0][0]
    0.0
    """

    def __init__(self, answers: Iterable[str], embed: Callable[[Sequence[str]], np.ndarray]):
        self.answers = list(answers)
        self._embed = embed
        self._weights = 0

    def read_by(self, model: keras.Model) -> None:
        """Forgets the vectors if a model has other weights than when this was last called.

        Args:
            model: The model whose vectors `embed` makes.
        """
        weights = weights_checksum(model)
        if weights != self._weights:
            vars(self).pop("vectors", None)
            self._weights = weights

    @functools.cached_property
    def vectors(self) -> np.ndarray:
        """Vectors of the answers, float32 `(n, D)`."""
        return self._embed(self.answers)

    @functools.cached_property
    def words(self) -> WordScores:
        """Their words."""
        return WordScores(self.answers)

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """Numbers of the answers."""
        return {answer: i for i, answer in enumerate(self.answers)}

    def scores(
        self,
        questions: Sequence[str],
        by: str,
        lexical_weight: float,
        members: Sequence[np.ndarray] | None = None,
        rows: int = 64,
    ) -> Iterator[np.ndarray]:
        """Scores answers.

        Args:
            questions: The questions.
            by: `"vectors"`, `"words"` or `"both"`.
            lexical_weight: Weight of the words in `"both"`.
            members: For each question the numbers of its candidates; all answers if None.
            rows: Questions whose products are computed at a time.

        Yields:
            For each question a score for each of its candidates.
        """
        words = self.words if by != "vectors" else None  # says first what is not installed
        asked = self._embed(questions) if by != "words" else None
        for start in range(0, len(questions), rows):
            products = None
            if asked is not None and members is None:
                products = asked[start : start + rows] @ self.vectors.T
            for i in range(start, min(start + rows, len(questions))):
                own = slice(None) if members is None else members[i]
                found = []
                if words is not None:
                    found.append(words(questions[i])[own])
                if products is not None:
                    found.append(products[i - start])
                elif asked is not None:
                    found.append(self.vectors[own] @ asked[i])
                if by == "both":
                    lexical, semantic = map(scaled, found)
                    found = [lexical_weight * lexical + (1 - lexical_weight) * semantic]
                yield found[0]


def weights_checksum(model: keras.Model) -> int:
    """Returns a number that changes with the weights of a model, and does not take long.

    Args:
        model: The model.

    Example:

    >>> dense = keras.layers.Dense(2)
    >>> dense.build((None, 3))
    >>> before = weights_checksum(dense)
    >>> dense.bias.assign([0.0, 1e-6])
    >>> weights_checksum(dense) == before
    False
    """
    found = 0
    for weight in model.weights:
        values = np.ascontiguousarray(keras.ops.convert_to_numpy(weight))
        found = zlib.crc32(values.reshape(-1).view("uint8").data, found)
    return found


def scaled(scores: np.ndarray) -> np.ndarray:
    """Scales scores to 0 to 1; equal ones are all 0.

    Args:
        scores: `(n,)`.

    Returns:
        `(scores - min) / (max - min)`.

    Example:

    >>> scaled(np.array([1.0, 3.0, 2.0])).tolist()
    [0.0, 1.0, 0.5]
    """
    if not len(scores):
        return scores
    lowest, spread = scores.min(), np.ptp(scores)
    return (scores - lowest) / spread if spread > 0 else np.zeros_like(scores)
