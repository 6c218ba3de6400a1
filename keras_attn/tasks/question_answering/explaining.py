"""Which words spoke for the answer to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_attn.explain import Explanation
from keras_attn.explain.word_weights import weighted_words
from keras_attn.tasks.families.windowed import row_lists
from keras_attn.text.offsets import ids_and_places

Tensor = Any


def explain_answers(
    answerer: Any,
    pairs: Sequence[tuple[str, str]],
    answers: Sequence[Any],
    found: Mapping[str, Any],
    batch_size: int,
) -> list[Explanation]:
    """Explains answers by gradient times input of their scores.

    Args:
        answerer: A `QuestionAnswerer`. Its own `explain` calls this.
        pairs: Questions with their texts.
        answers: The answers that its `found` returned for them.
        found: The arrays that it returned.
        batch_size: Windows computed at a time.

    Returns:
        An `Explanation` of each pair, with a weight for each word in the window of the answer. The
        parts of a word inside and outside the answer have weights of their own.

    Example:

    >>> from keras_attn.tasks import QuestionAnswerer
    >>> pairs = [("Who codes?", "Ada codes.")]
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> data = {"vocabulary_size": 40, "max_length": 32, "max_question_length": 8}
    >>> answerer = QuestionAnswerer.create([(*pairs[0], ["Ada"])], data=data, model=sizes)
    >>> found = answerer.found(pairs, 1, 1, 0.0, 8)
    >>> explain_answers(answerer, pairs, *found, 8)[0].tokens
    ('Who', 'codes', '?', 'Ada', 'codes', '.')
    """
    if not answers:
        return []
    taken, every = found["window"], row_lists(found)
    rows = [every[row] for row in taken]
    seconds, starts = found["row_seconds"][taken], found["window_start"][taken]
    places = np.stack([found["first_piece"], found["last_piece"]], 1) + (seconds - starts)[:, None]
    index = np.where(found["refused"][:, None], 0, places)
    weights = answerer.gradients(rows, span_score, index, batch_size)
    encoded = ids_and_places(answerer.tokenizer, [question for question, _ in pairs])[1]
    begins = found["begins"] + starts
    of_pieces = np.stack([found["piece_starts"], found["piece_ends"]], 1)
    explanations = []
    for (question, text), answer, (ids, begin), of_row, asked, count, first in zip(
        pairs, answers, rows, weights, encoded, found["questions"], begins, strict=True
    ):
        marked = (answer.start, answer.end) if answer.start < answer.end else None
        kept = asked[:count]
        read = of_pieces[first : first + len(ids) - begin - 1].tolist()
        words = weighted_words(question, kept, of_row[1:])
        of_text = weighted_words(text, read, of_row[begin:], marked)
        explanations.append(
            Explanation(
                question,
                [word.text for word in (*words, *of_text)],
                [word.place for word in (*words, *of_text)],
                np.array([word.weight for word in (*words, *of_text)], "float64"),
                answer.text or "no answer",
                _probabilities(answer, answerer.unanswerable or not answer.candidates),
                "gradient x input, for the answer",
                text,
                [0] * len(words) + [1] * len(of_text),
                marked,
            )
        )
    return explanations


def span_score(logits: Mapping[str, Tensor], index: Tensor) -> Tensor:
    """Picks the score of a span of each row.

    Args:
        logits: `{"spans": (B, T, 2)}`.
        index: Its first and last token, int `(B, 2)`.

    Returns:
        `(B,)`.

    Example:

    >>> logits = {"spans": ops.array([[[1.0, 2.0], [4.0, 8.0]]])}
    >>> ops.convert_to_numpy(span_score(logits, ops.array([[0, 1]]))).tolist()
    [9.0]
    """
    picked = ops.take_along_axis(logits["spans"], index[:, :, None], axis=1)  # (B, 2, 2)
    return picked[:, 0, 0] + picked[:, 1, 1]


def _probabilities(answer: Any, none: bool) -> dict[str, float]:
    """The probabilities of the best answers; of those that read alike, with their places."""
    found: dict[str, float] = {}
    for span in answer.candidates:
        name = span.text if span.text not in found else f"{span.text} (at {span.start})"
        found[name] = min(span.probability, 1.0)
    return {**found, "no answer": min(answer.no_answer, 1.0)} if none else found
