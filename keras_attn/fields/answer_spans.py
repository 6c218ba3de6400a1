"""Spans of texts as answers to questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from keras_attn.fields.outputs import Numbers
from keras_attn.fields.ragged_outputs import PartRows, PlaceRows
from keras_attn.fields.signature import OutputField


class AnswerSpan(NamedTuple):
    """A candidate answer, a span of a text.

    Attributes:
        text: The span, as written in the text.
        start: Index of the span's first character in the text.
        end: Index after the span's last character.
        probability: Probability of the span.

    Example:

    >>> AnswerSpan("Oslo", 13, 17, 0.9).text
    'Oslo'
    """

    text: str
    start: int
    end: int
    probability: float


class Answer(NamedTuple):
    """The answer to a question.

    Attributes:
        text: The best answer; `""` if there is none.
        start: Index of the answer's first character in the text; 0 if there is no answer.
        end: Index after the answer's last character; 0 if there is no answer.
        probability: Probability of the answer, or `no_answer` if there is no answer.
        candidates: The most probable answers, the best first.
        no_answer: Probability that the text does not answer the question.

    Example:

    >>> Answer("Oslo", 13, 17, 0.9, [AnswerSpan("Oslo", 13, 17, 0.9)], 0.0).text
    'Oslo'
    """

    text: str
    start: int
    end: int
    probability: float
    candidates: list[AnswerSpan]
    no_answer: float

    def probabilities(self, none: bool) -> dict[str, float]:
        """Returns the probability of each candidate, keyed by the candidate's text.

        If several candidates have the same text, all keys but the first include the position of
        the candidate, as in `"Oslo (at 13)"`.

        Args:
            none: Whether to include the probability that there is no answer, under the key
                `"no answer"`.
        """
        found: dict[str, float] = {}
        for span in self.candidates:
            name = span.text if span.text not in found else f"{span.text} (at {span.start})"
            found[name] = min(span.probability, 1.0)
        return {**found, "no answer": min(self.no_answer, 1.0)} if none else found


def answer_outputs() -> dict[str, OutputField]:
    """Returns the output fields of a SavedModel that answers questions, keyed by name."""
    return {
        "answer": PartRows("answer_start", "answer_end"),
        "probability": Numbers("probability"),
        "answers": PartRows("starts", "ends"),
        "probabilities": Numbers("probabilities"),
        "starts": PlaceRows("starts"),
        "ends": PlaceRows("ends"),
        "start_characters": PlaceRows("starts", characters=True),
        "end_characters": PlaceRows("ends", characters=True),
        "no_answer": Numbers("no_answer"),
    }


def read_answers(texts: Sequence[str], tensors: Mapping[str, Any]) -> list[Answer]:
    """Converts the arrays of `keras_attn.arrays.text_answers` to an `Answer` for each text."""
    names = "starts", "ends", "probabilities", "there", "refused", "no_answer"
    columns = (tensors[name].tolist() for name in names)
    answers = []
    for text, *places, refused, none in zip(texts, *columns, strict=True):
        rows = zip(*places, strict=True)
        spans = [AnswerSpan(text[a:b], a, b, p) for a, b, p, there in rows if there]
        best = AnswerSpan("", 0, 0, none) if refused else spans[0]
        answers.append(Answer(*best, spans, none))
    return answers
