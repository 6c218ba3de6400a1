"""Which words spoke for the answer to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keras import ops

from keras_attn.explain import Explanation
from keras_attn.explain.word_weights import weighted_words
from keras_attn.text.offsets import ids_and_places

Tensor = Any


def explain_answers(
    answerer: Any, pairs: Sequence[tuple[str, str]], found: Sequence[Any], batch_size: int
) -> list[Explanation]:
    """Explains answers by gradient times input of their scores.

    Args:
        answerer: A `QuestionAnswerer`. Its own `explain` calls this.
        pairs: Questions with their texts.
        found: What its `found` returned for them.
        batch_size: Windows computed at a time.

    Returns:
        An `Explanation` of each pair, with a weight for each word in the window of the answer. The
        parts of a word inside and outside the answer have weights of their own.

    Example:

    >>> from keras_attn.tasks import QuestionAnswerer
    >>> pairs = [("Who codes?", "Ada codes.")]
    >>> sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "intermediate_dim": 32}
    >>> data = {"vocabulary_size": 40, "max_length": 32, "max_question_length": 8}
    >>> answerer = QuestionAnswerer.create([(*pairs[0], ["Ada"])], data, sizes)
    >>> found = answerer.found(pairs, 1, 1, 0.0, 8)
    >>> explain_answers(answerer, pairs, found, 8)[0].tokens
    ('Who', 'codes', '?', 'Ada', 'codes', '.')
    """
    rows, index = [], []
    for one in found:
        row = answerer.row(one.passage, one.window, answerer.windows(len(one.passage.question)))
        rows.append(row)
        first = row[1] - one.window
        index.append((0, 0) if one.first is None else (one.first + first, one.last + first))
    weights = answerer.gradients(rows, span_score, index, batch_size)
    encoded = ids_and_places(answerer.tokenizer, [question for question, _ in pairs])[1]
    explanations = []
    for (question, text), one, (ids, begin), of_row, asked in zip(
        pairs, found, rows, weights, encoded, strict=True
    ):
        answer = one.answer
        marked = (answer.start, answer.end) if answer.start < answer.end else None
        kept = asked[: len(one.passage.question)]
        read = one.passage.places[one.window : one.window + len(ids) - begin - 1]
        words = weighted_words(question, kept, of_row[1:])
        of_text = weighted_words(text, read, of_row[begin:], marked)
        columns = list(zip(*words, *of_text, strict=True)) or [(), (), ()]
        explanations.append(
            Explanation(
                question,
                *columns,
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
