"""Answers to questions: the best spans of all windows of a text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attn.explain import EncoderStudy, Explanation, study_texts
from keras_attn.explain.explained_page import explained_page
from keras_attn.explain.methods import METHODS
from keras_attn.fields import ODD_TEXTS, checked_texts
from keras_attn.fields.windows import Windows
from keras_attn.inputs import listed
from keras_attn.tasks.checks import check_count
from keras_attn.tasks.question_answering.explaining import explain_answers
from keras_attn.tasks.question_answering.settings import QuestionAnsweringUse
from keras_attn.text import byte_places
from keras_attn.text.offsets import ids_and_places


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


class Passage(NamedTuple):
    """A question and a text as ids.

    Example:

    >>> Passage([7], [8, 9], [(0, 2), (3, 5)]).places[1]
    (3, 5)
    """

    question: list[int]
    ids: list[int]
    places: list[tuple[int, int]]
    """The characters of the text that each id stands for."""


class Found(NamedTuple):
    """An answer, and where it was found.

    Example:

    >>> Found(Answer("", 0, 0, 0.0, [], 0.0), Passage([7], [], []), 0, None, None, -1.0).window
    0
    """

    answer: Answer
    """The answer."""
    passage: Passage
    """The question and the text."""
    window: int
    """First piece of the text in the window that gave the answer."""
    first: int | None
    """Its first piece; None for no answer."""
    last: int | None
    """Its last piece."""
    margin: float
    """By how much the score of no answer is above that of the best answer."""


class AnswerPredictions:
    """The predictions of question answering: a base class of `QuestionAnswerer`."""

    tokenizer: Any
    max_question_length: int
    unanswerable: bool
    windows: Any
    compute: Any
    model: Any
    field: Any

    def passages(self, pairs: Sequence[tuple[str, str]], cut: bool = True) -> list[Passage]:
        """Encodes questions and texts.

        Args:
            pairs: Questions with their texts.
            cut: Whether long questions are cut.
        """
        texts = list(dict.fromkeys(text for _, text in pairs))
        both = zip(*ids_and_places(self.tokenizer, texts), strict=True)
        encoded = dict(zip(texts, both, strict=True))
        most = self.max_question_length if cut else None
        questions = self.tokenizer.encode([question for question, _ in pairs])
        return [
            Passage(ids[:most], *encoded[text])
            for ids, (_, text) in zip(questions, pairs, strict=True)
        ]

    def row(self, passage: Passage, first: int, windows: Windows) -> tuple[list[int], int]:
        """Returns the row of a window, and where its second segment begins.

        Args:
            passage: Question and text.
            first: First piece of the text in the window.
            windows: The windows of the text.
        """
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        part = passage.ids[first : first + windows.room]
        head = [start, *passage.question, *self.field.between]
        return [*head, *part, end], len(head)

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
        found = self.found(given, n_best, max_answer_length, threshold, batch_size)
        answers = [each.answer for each in found]
        return answers[0] if one else answers

    def found(
        self,
        pairs: Iterable[Any],
        n_best: int,
        max_answer_length: int,
        threshold: float,
        batch_size: int,
    ) -> list[Found]:
        """Answers questions, and says where the answers were found.

        Args:
            pairs: Questions with their texts.
            n_best: As in `predict`.
            max_answer_length: As in `predict`.
            threshold: As in `predict`.
            batch_size: As in `predict`.

        Raises:
            TypeError: If an input is not a pair of strings.
        """
        check_count("n_best", n_best)
        check_count("max_answer_length", max_answer_length)
        given = _as_pairs(pairs)
        passages = self.passages(given)
        rows, owners = [], []
        for i, passage in enumerate(passages):
            windows = self.windows(len(passage.question))
            for number, first in enumerate(windows.starts(len(passage.ids))):
                rows.append(self.row(passage, first, windows))
                owners.append((i, number, first))
        found = self.compute(rows, batch_size)
        of_passages: list[list[Any]] = [[] for _ in passages]
        for (i, number, first), output in zip(owners, found, strict=True):
            of_passages[i].append((number, first, output["spans"]))
        return [
            self._answer(text, passage, some, n_best, max_answer_length, threshold)
            for (_, text), passage, some in zip(given, passages, of_passages, strict=True)
        ]

    def _answer(
        self,
        text: str,
        passage: Passage,
        windows: list[tuple[int, int, np.ndarray]],
        n_best: int,
        longest: int,
        threshold: float,
    ) -> Found:
        cut = self.windows(len(passage.question))
        before = len(passage.question) + 1 + len(self.field.between)
        pieces = len(passage.ids)
        scores, spans = [], []
        for number, first, logits in windows:
            inside = logits[before : before + min(pieces - first, cut.room)].astype("float32")
            table = span_scores(inside[:, 0], inside[:, 1], longest)  # (K, L)
            begin = first + np.arange(len(inside))
            table[cut.number(begin, pieces) != number] = -np.inf
            some = np.flatnonzero(table > -np.inf)
            scores.append(table.ravel()[some])
            spans.append(
                np.stack([begin[some // longest], (begin[some // longest] + some % longest)], 1)
            )
        every, places = np.concatenate(scores), np.concatenate(spans)
        none = min(float(logits[0].sum()) for *_, logits in windows)
        doubtful = min(windows, key=lambda window: float(window[2][0].sum()))[1]
        beside = [none] if self.unanswerable else []
        whole = _log_sum(np.concatenate([every, np.array(beside, "float32")]))
        order = np.argsort(-every, kind="stable")[:n_best]
        candidates = []
        for i in order:
            start, end = passage.places[places[i, 0]][0], passage.places[places[i, 1]][1]
            p = float(np.exp(every[i] - whole))
            candidates.append(AnswerSpan(text[start:end], start, end, p))
        p_none = float(np.exp(none - whole)) if self.unanswerable else 0.0
        best = every[order[0]] if len(order) else -np.inf
        margin = float(none - best)
        if not candidates or (self.unanswerable and margin > threshold):
            answer = Answer("", 0, 0, p_none, candidates, p_none)
            return Found(answer, passage, doubtful, None, None, margin)
        first, last = map(int, places[order[0]])
        window = next(begin for number, begin, _ in windows if number == cut.number(first, pieces))
        return Found(
            Answer(*candidates[0], candidates, p_none), passage, window, first, last, margin
        )

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
        explanations = explain_answers(self, given, found, batch_size)
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

    def expected(self, examples: Mapping[str, Any], use: Any) -> dict[str, dict[str, Any]]:
        """Returns what this object gives, as the SavedModel is to give it."""
        texts = examples["text"]
        pairs = list(zip(examples["question"], texts, strict=True))
        found = self.predict(pairs, use.n_best, use.max_answer_length, use.threshold)
        blank = AnswerSpan("", 0, 0, 0.0)
        rows = [[*a.candidates, *[blank] * (use.n_best - len(a.candidates))] for a in found]
        places = [
            (byte_places(t, [s.start for s in row]), byte_places(t, [s.end for s in row]))
            for t, row in zip(texts, rows, strict=True)
        ]
        return {
            "serving_default": {
                "answer": [a.text for a in found],
                "probability": np.array([a.probability for a in found], "float32"),
                "answers": [[span.text for span in row] for row in rows],
                "probabilities": np.array(
                    [[s.probability for s in row] for row in rows], "float32"
                ),
                "starts": np.array([start for start, _ in places], "int32"),
                "ends": np.array([end for _, end in places], "int32"),
                "start_characters": np.array([[s.start for s in row] for row in rows], "int32"),
                "end_characters": np.array([[s.end for s in row] for row in rows], "int32"),
                "no_answer": np.array([a.no_answer for a in found], "float32"),
            }
        }


def span_scores(starts: np.ndarray, ends: np.ndarray, longest: int) -> np.ndarray:
    """Adds up the scores of all spans of a window.

    Args:
        starts: Scores of first tokens, `(K,)`.
        ends: Scores of last tokens, `(K,)`.
        longest: Largest number L of tokens of a span.

    Returns:
        float32 `(K, L)`: the span that begins at k and has l + 1 tokens; minus infinity if it ends
        outside.

    Example:

    >>> span_scores(np.array([1.0, 2.0]), np.array([0.5, 0.25]), 2).tolist()
    [[1.5, 1.25], [2.25, -inf]]
    """
    padded = np.concatenate([ends, np.full(longest, -np.inf, "float32")]).astype("float32")
    places = np.arange(len(starts))[:, None] + np.arange(longest)
    return starts[:, None].astype("float32") + padded[places]


def _log_sum(scores: np.ndarray) -> float:
    if not len(scores):
        return 0.0
    highest = float(scores.max())
    return highest + float(np.log(np.exp(scores.astype("float64") - highest).sum()))


def _as_pairs(pairs: Any) -> list[tuple[str, str]]:
    given = listed(pairs, "(question, text) pairs", 2)
    return [_as_pair(pair) for pair in given]


def _as_pair(pair: Any) -> tuple[str, str]:
    if isinstance(pair, Iterable) and not isinstance(pair, str | bytes):
        parts = list(pair)
        if len(parts) == 2:
            return tuple(checked_texts(parts))
    raise TypeError(
        f"Expected a pair of strings, a question and a text. Received: {pair!r:.100}. Lines of the "
        "command have a tab between the two."
    )
