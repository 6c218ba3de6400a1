"""Answers to questions: the best spans of all windows of a text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple

import numpy as np

from keras_attn.arrays import (
    Array,
    ArrayModule,
    BestSpans,
    best_spans,
    log_sum,
    spans_of_texts,
    window_numbers,
)
from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import METHODS
from keras_attn.fields import (
    ODD_TEXTS,
    Numbers,
    PartRows,
    PlaceRows,
    QuestionRows,
    Signature,
    checked_texts,
)
from keras_attn.fields.question_rows import windows_of
from keras_attn.fields.signature import OutputField
from keras_attn.inputs import listed
from keras_attn.tasks.base.checks import check_count
from keras_attn.tasks.families.encoder_task import EncoderLearned
from keras_attn.tasks.families.windowed import WindowedTask
from keras_attn.tasks.question_answering.explaining import explain_answers
from keras_attn.tasks.question_answering.settings import QuestionAnsweringData, QuestionAnsweringUse


class AnswerSpan(NamedTuple):
    """A part of a text that may be the answer.

    Example:

    >>> AnswerSpan("Oslo", 13, 17, 0.9).text
    'Oslo'
    """

    text: str
    """The part, as it stands in the text."""
    start: int
    """Place of its first character."""
    end: int
    """Place behind its last character."""
    probability: float
    """Its probability."""


class Answer(NamedTuple):
    """The answer to a question.

    Example:

    >>> Answer("Oslo", 13, 17, 0.9, [AnswerSpan("Oslo", 13, 17, 0.9)], 0.0).text
    'Oslo'
    """

    text: str
    """The best answer; `""` if there is none."""
    start: int
    """Place of its first character in the text; 0 if there is none."""
    end: int
    """Place behind its last character."""
    probability: float
    """Its probability; if there is none, that of no answer."""
    candidates: list[AnswerSpan]
    """The best answers, the best first."""
    no_answer: float
    """Probability that the text does not answer the question."""


@dataclass(frozen=True)
class AnswerLearned(EncoderLearned):
    """What question answering learned: its tokenizer, and whether a text may have no answer.

    Example:

    >>> AnswerLearned(WordTokenizer.train(["a b"])).unanswerable
    False
    """

    unanswerable: bool = False


class AnswerPredictions(WindowedTask):
    """The predictions of question answering: a base class of `QuestionAnswerer`."""

    data: QuestionAnsweringData
    learned: AnswerLearned
    of_rows = "row_seconds", "window_start", "window_size", "window_first", "window_behind"

    @property
    def max_question_length(self) -> int:
        """Largest number of tokens of a question; the rest is cut off."""
        return self.data.max_question_length

    @property
    def overlap(self) -> int:
        """Tokens that two neighbouring windows share."""
        return self.data.overlap

    @property
    def unanswerable(self) -> bool:
        """Whether it has learned that a text may not answer a question."""
        return self.learned.unanswerable

    @property
    def pairs(self) -> QuestionRows:
        """From questions and texts to the rows that the model reads."""
        between = len(self.field.between)
        return QuestionRows(
            self.tokenizer, self.max_length, self.max_question_length, self.overlap, between
        )

    def signatures(self, use: QuestionAnsweringUse) -> dict[str, Signature]:
        """Returns what the SavedModel takes and gives, by the name of its signature.

        `serving_default` takes `question` and `text: string (B,)` and gives, equal to what this
        object gives,

            answer          string (B,)     the best answer, `""` for none
            probability     float32 (B,)    its probability, or that of no answer
            answers         string (B, N)   the N best, `""` if there are fewer
            probabilities   float32 (B, N)
            starts, ends    int32 (B, N)    their places in bytes
            start_characters, end_characters  int32 (B, N)
            no_answer       float32 (B,)    probability that there is none

        Bytes that are not UTF-8 are read as U+FFFD, and places are those in the text so made.

        Args:
            use: Settings `Use`.
        """
        outputs: dict[str, OutputField] = {
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
        return {"serving_default": Signature(("question", "text"), self.pairs, outputs)}

    def rows(self, xp: ArrayModule, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Makes the rows that the model reads, see `QuestionRows.rows`."""
        return self.pairs.rows(xp, tensors)

    def scores(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Computes the scores of each token as the first and as the last one of an answer."""
        return {"tokens": self.logits(inputs)["spans"]}

    def read_off(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: QuestionAnsweringUse
    ) -> dict[str, Array]:
        """Finds the best spans of windows, the sum of all, and the score of no answer."""
        starts = xp.expand_dims(tensors["token_starts"], 1)  # (R, 1)
        seconds, start, size, first, behind = (
            xp.expand_dims(tensors[name], 1) for name in self.of_rows
        )
        columns = xp.expand_dims(xp.arange(xp.max(size, initial=1), dtype="int32"), 0)  # (1, K)
        inside = columns < size
        places = xp.where(inside, starts + seconds + columns, starts)
        logits = xp.take(tensors["tokens"], places, axis=0)  # (R, K, 2)
        logits = xp.where(xp.expand_dims(inside, 2), logits, float("-inf"))
        at = start + columns  # places in the text
        begin = (at >= first) & (at < behind)
        spans = best_spans(
            xp, logits[..., 0], logits[..., 1], begin, use.max_answer_length, use.n_best
        )
        none = xp.sum(xp.take(tensors["tokens"], tensors["token_starts"], axis=0), axis=1)
        found = {"scores": spans.scores, "first": spans.first + start, "last": spans.last + start}
        return {**found, "whole": spans.whole, "none": none}

    def run(
        self, xp: ArrayModule, tensors: Mapping[str, Array], use: QuestionAnsweringUse
    ) -> dict[str, Array]:
        """Finds the best answers of texts among those of their windows, and their places."""
        windows = windows_of(tensors)
        spans = BestSpans(*(tensors[name] for name in ("scores", "first", "last", "whole")))
        found = spans_of_texts(xp, spans, tensors["none"], windows)
        best, none = found.best, found.none
        whole = best.whole
        if self.unanswerable:
            whole = log_sum(xp, xp.stack([whole, none], axis=1))
        there = best.scores > float("-inf")  # (B, n)
        whole = xp.where(whole > float("-inf"), whole, 0.0)
        p = xp.where(there, xp.exp(best.scores - xp.expand_dims(whole, 1)), 0.0)
        p_none = xp.exp(none - whole) if self.unanswerable else xp.zeros_like(none)
        margin = none - best.scores[:, 0]
        refused = ~there[:, 0]
        if self.unanswerable:
            refused = refused | (margin > use.threshold)

        begins = xp.expand_dims(tensors["begins"], 1)
        start, end = (
            xp.where(there, xp.take(xp.pad(tensors[name], [[0, 1]]), places, axis=0), 0)
            for name, places in (
                ("piece_starts", xp.where(there, begins + best.first, 0)),
                ("piece_ends", xp.where(there, begins + best.last, 0)),
            )
        )
        first = xp.where(there, best.first, 0)
        number = window_numbers(
            xp, first[:, 0], tensors["pieces"], tensors["rooms"], tensors["margins"]
        )
        return {
            "answer_start": xp.where(refused, 0, start[:, 0]),
            "answer_end": xp.where(refused, 0, end[:, 0]),
            "probability": xp.where(refused, p_none, p[:, 0]),
            "probabilities": p,
            "starts": start,
            "ends": end,
            "no_answer": p_none,
            # For explanations and reports:
            "there": there,
            "refused": refused,
            "margin": margin,
            "window": xp.where(refused, found.doubtful, windows.rows + number),
            "first_piece": first[:, 0],
            "last_piece": xp.where(there, best.last, 0)[:, 0],
        }

    def predict(
        self,
        pairs: Any,
        n_best: int = QuestionAnsweringUse.n_best,
        max_answer_length: int = QuestionAnsweringUse.max_answer_length,
        threshold: float = QuestionAnsweringUse.threshold,
        batch_size: int = QuestionAnsweringUse.batch_size,
    ) -> Any:
        """Answers questions.

        Args:
            pairs: A tuple (question, text), or a list of them.
            n_best: Number of candidates.
            max_answer_length: Largest number of tokens of an answer.
            threshold: By how much the score of no answer must be above that of the best answer for
                the answer to be none; for a task that has learned it.
            batch_size: Windows computed at a time.

        Returns:
            An `Answer` for a tuple, a list of them for a list.

        Raises:
            TypeError: If an input is not a pair of strings.
        """
        one = isinstance(pairs, tuple)
        given = [pairs] if one else pairs
        answers, _ = self.found(given, n_best, max_answer_length, threshold, batch_size)
        return answers[0] if one else answers

    def found(
        self,
        pairs: Iterable[Any],
        n_best: int,
        max_answer_length: int,
        threshold: float,
        batch_size: int,
    ) -> tuple[list[Answer], dict[str, Any]]:
        """Answers questions, and says where the answers were found.

        Args:
            pairs: Questions with their texts.
            n_best: As in `predict`.
            max_answer_length: As in `predict`.
            threshold: As in `predict`.
            batch_size: As in `predict`.

        Returns:
            The answers, and what `QuestionRows.encode`, `rows` and `run` return.

        Raises:
            TypeError: If an input is not a pair of strings.
        """
        check_count("n_best", n_best)
        check_count("max_answer_length", max_answer_length)
        given = _as_pairs(pairs)
        if not given:
            return [], {}
        use = QuestionAnsweringUse(
            n_best=index(n_best),
            max_answer_length=index(max_answer_length),
            threshold=float(np.nan_to_num(threshold)),  # infinity is no setting
            batch_size=index(batch_size),
        )
        texts = [text for _, text in given]
        tensors = self.pairs.encode([question for question, _ in given], texts)
        tensors |= self.computed(tensors, use)
        names = "starts", "ends", "probabilities", "there", "refused", "no_answer"
        columns = zip(texts, *(tensors[name] for name in names), strict=True)
        return [_answer(*row) for row in columns], tensors

    def explain(
        self,
        pairs: Any,
        method: str = QuestionAnsweringUse.method,
        n_best: int = QuestionAnsweringUse.n_best,
        max_answer_length: int = QuestionAnsweringUse.max_answer_length,
        threshold: float = QuestionAnsweringUse.threshold,
        batch_size: int = QuestionAnsweringUse.batch_size,
    ) -> EncoderStudy | Explanation | list[Explanation]:
        """Shows which words spoke for an answer, or what each head of the encoder looks at.

        Args:
            pairs: A tuple (question, text), or a list of them.
            method: `"gradient"` for gradient times input of the score of the answer, the logits of
                its first and last token together (of no answer, those of `[CLS]`); `"attention"`
                for what the heads look at in questions and the start of texts. The other arguments
                belong to `"gradient"`.
            n_best: Number of answers whose probabilities are shown.
            max_answer_length: As in `predict`.
            threshold: As in `predict`.
            batch_size: As in `predict`.

        Returns:
            For `"gradient"` an `Explanation` of a tuple, or a list of them: the question, the text
            with the answer marked, and a weight for each word. Words of a long text that are not in
            the window of the answer have none. For `"attention"` an `EncoderStudy`. Its `html()` is
            a page.

        Raises:
            TypeError: If an input is not a pair of strings.
            ValueError: If the method is unknown.
        """
        one = isinstance(pairs, tuple)
        given = _as_pairs([pairs] if one else pairs)
        if method not in METHODS:
            raise ValueError(f"`method` must be one of {list(METHODS)}. Received: {method!r}.")
        if method == "attention":
            return study_texts(self.model, self.field, given)
        found = self.found(given, n_best, max_answer_length, threshold, batch_size)
        explanations = explain_answers(self, given, *found, batch_size)
        return explanations[0] if one else explanations

    page = staticmethod(explained_page)

    @staticmethod
    def readable(result: Answer) -> str:
        """Returns an answer as the command writes it: a JSON object."""
        found = result._asdict()
        found["candidates"] = [span._asdict() for span in result.candidates]
        return json.dumps(found, ensure_ascii=False)

    def export_examples(self) -> dict[str, Any]:
        """Returns odd questions and texts beside ordinary ones."""
        long = " ".join(f"{i} ships of {i % 17} ports sailed in {1500 + i}." for i in range(150))
        texts = [*ODD_TEXTS[:-1], "Ada lives in Oslo, Bob in Rome.", long]
        return {"question": [*texts[1:-1], "Where does Ada live?", "How many?"], "text": texts}


def _answer(
    text: str, starts: Array, ends: Array, p: Array, there: Array, refused: bool, p_none: float
) -> Answer:
    """The answer to a question."""
    places = zip(starts.tolist(), ends.tolist(), p.tolist(), there.tolist(), strict=True)
    candidates = [AnswerSpan(text[a:b], a, b, x) for a, b, x, real in places if real]
    best = AnswerSpan("", 0, 0, float(p_none)) if refused else candidates[0]
    return Answer(*best, candidates, float(p_none))


def _as_pairs(pairs: Any) -> list[tuple[str, str]]:
    given = listed(pairs, "(question, text) pairs", 2)
    return [_as_pair(pair) for pair in given]


def _as_pair(pair: Any) -> tuple[str, str]:
    if isinstance(pair, Iterable) and not isinstance(pair, str | bytes):
        parts = list(pair)
        if len(parts) == 2:
            question, text = checked_texts(parts)
            return question, text
    raise TypeError(
        f"Expected a pair of strings, a question and a text. Received: {pair!r:.100}. Lines of the "
        "command have a tab between the two."
    )
