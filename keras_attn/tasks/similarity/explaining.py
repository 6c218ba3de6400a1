"""Which words made two texts similar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attn.arrays import unit_length
from keras_attn.explain import Explanation
from keras_attn.explain.word_weights import weighted_words
from keras_attn.text.offsets import ids_and_places

Tensor = Any


def explain_scores(
    scorer: Any,
    pairs: Sequence[tuple[str, str]],
    scores: Sequence[float],
    batch_size: int,
    together: bool = False,
    spread: float = 1.0,
) -> list[Explanation]:
    """Explains scores by gradient times input.

    Args:
        scorer: A `SimilarityScorer` or an `AnswerSelector`. Their own `explain` calls this.
        pairs: Pairs of texts.
        scores: Their scores.
        batch_size: Rows computed at a time.
        together: Whether both texts are read at once. If not, the score is the cosine of vectors.
        spread: How much greater a score is than the number that the model computes.

    Returns:
        An `Explanation` of each pair, with a weight for each word of both texts, in the units of
        the scores.

    Example:

    >>> from keras_attn.tasks import SimilarityScorer
    >>> pairs = [("a dog", "a hound")]
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> data = {"vocabulary_size": 30, "max_length": 16, "lowest": 0.0, "highest": 5.0}
    >>> scorer = SimilarityScorer.create([(pairs[0], 5.0)], data=data, model=sizes)
    >>> explain_scores(scorer, pairs, scorer.predict(pairs), 8, spread=5.0)[0].tokens
    ('a', 'dog', 'a', 'hound')
    """
    if not pairs:
        return []
    sides = ([pair[side] for pair in pairs] for side in (0, 1))
    ids, places = zip(*(ids_and_places(scorer.tokenizer, texts) for texts in sides), strict=True)
    explain = _together if together else _alone
    weights, kept = explain(scorer, pairs, ids, batch_size)
    found = []
    for i, (pair, score) in enumerate(zip(pairs, scores, strict=True)):
        words = [
            weighted_words(
                pair[side],
                places[side][i][: kept[side][i]],
                weights[side][i] * spread,
            )
            for side in (0, 1)
        ]
        every = [*words[0], *words[1]]
        found.append(
            Explanation(
                pair[0],
                [word.text for word in every],
                [word.place for word in every],
                np.array([word.weight for word in every], "float64"),
                f"score {score:.2f}",
                {},
                "gradient x input, for the score",
                pair[1],
                [0] * len(words[0]) + [1] * len(words[1]),
            )
        )
    return found


def cosine(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Computes the cosines of vectors and others.

    Args:
        logits: `{"vectors": (B, D)}`.
        index: The others, `(B, D)`, of length 1.

    Returns:
        `(B,)`.

    Example:

    >>> float(cosine({"vectors": ops.array([[0.0, 2.0]])}, ops.array([[0.0, 1.0]]))[0])
    1.0
    """
    return ops.sum(unit_length(ops, logits["vectors"]) * index, axis=-1)


def only_class(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Picks the number of a head with one class.

    Args:
        logits: `{"classes": (B, 1)}`.
        index: Ignored.

    Returns:
        `(B,)`.

    Example:

    >>> float(only_class({"classes": ops.array([[0.5]])}, None)[0])
    0.5
    """
    return logits["classes"][:, 0]


def _alone(scorer: Any, pairs: Sequence, ids: Sequence, batch_size: int) -> tuple[list, list]:
    """Weights of the pieces of both sides, each read alone, and how many pieces were read."""
    # The cosine is linear in each of the vectors of length 1: the gradient of one leaves the other.
    others = [
        scorer.embed([pair[1 - side] for pair in pairs], batch_size, normalize=True)
        for side in (0, 1)
    ]
    weights, kept = [], []
    for side in (0, 1):
        rows = scorer.field.rows(ids[side])
        found = scorer.gradients(rows, cosine, others[side], batch_size)
        weights.append([row[1:-1] for row in found])
        kept.append([len(row[0]) - 2 for row in rows])
    return weights, kept


def _together(scorer: Any, pairs: Sequence, ids: Sequence, batch_size: int) -> tuple[list, list]:
    """The same of pairs that are read at once."""
    rows = scorer.field.rows(*ids)
    found = scorer.gradients(rows, only_class, np.zeros(len(rows), "int32"), batch_size)
    begins, between = [begin for _, begin in rows], len(scorer.field.between)
    lengths = [len(row) for row, _ in rows]
    first = [row[1 : begin - between] for row, begin in zip(found, begins, strict=True)]
    second = [row[begin:-1] for row, begin in zip(found, begins, strict=True)]
    kept = [
        [begin - 1 - between for begin in begins],
        [n - begin - 1 for n, begin in zip(lengths, begins, strict=True)],
    ]
    return [first, second], kept
