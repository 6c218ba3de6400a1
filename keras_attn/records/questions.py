"""Questions about texts, from SQuAD's JSON or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

from keras_attn.inputs import flattened, listed
from keras_attn.records.items import Records
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.problems import PROBLEMS, LineProblem, many
from keras_attn.records.reading import (
    LineReading,
    Location,
    ending,
    existing,
    is_blank,
    is_unicode,
)
from keras_attn.records.splitting import check_share, split_by_hash


class TextAnswer(NamedTuple):
    """An answer that is a span of a text.

    Example:

    >>> TextAnswer("Oslo", 4).start
    4
    """

    text: str
    """The answer."""
    start: int
    """Index of the answer's first character in the text."""


class AnsweredQuestion(NamedTuple):
    """A question about a text, with its answers.

    Example:

    >>> AnsweredQuestion("Where?", "It is in Oslo.", (TextAnswer("Oslo", 9),)).answers[0].text
    'Oslo'
    """

    question: str
    """The question."""
    text: str
    """The text to search for the answer."""
    answers: tuple[TextAnswer, ...]
    """The right answers; empty if the text does not answer the question."""
    title: str = ""
    """Title of the article that the text is from."""
    name: str = ""
    """Id of the question."""


_Row = tuple[int, Any, Any, str, str]
"""Number, JSON object and text of a question, with its title and its name."""


@dataclass(frozen=True)
class AnsweredQuestions(Records[AnsweredQuestion]):
    """The questions of a file with their answers, and the problems of questions left out.

    Example:

    >>> question = AnsweredQuestion("Where?", "In Oslo.", (TextAnswer("Oslo", 3),), "Norway")
    >>> AnsweredQuestions([question], "a.json").summary()
    'a.json: 1 question about 1 text of 1 article'
    """

    kinds = {  # noqa: RUF012
        **PROBLEMS,
        "type": "with a value of another type",
        "empty": "with an empty question or answer",
        "place": "with an answer that starts outside of its text",
        "answer": "with an answer that is not in its text",
    }

    questions: list[AnsweredQuestion]
    """The questions."""
    where: str = "given"
    """The file, for messages."""
    moved: int = 0
    """Number of answers whose wrong position in the file was corrected."""
    skipped: int = 0
    """Number of questions that were left out."""
    problems: list[LineProblem] = field(default_factory=list, repr=False)
    """The problems of questions that were left out."""

    def summary(self) -> str:
        """Returns the numbers of questions, texts, articles, questions without an answer, corrected
        answers and skipped questions, as text."""
        texts = len({q.text for q in self.questions})
        articles = len({q.title for q in self.questions})
        facts = (
            f"{self.where}: {many(len(self.questions), 'question')} about {many(texts, 'text')} of "
            f"{many(articles, 'article')}"
        )
        without = sum(not q.answers for q in self.questions)
        notes = [
            (without, "without an answer"),
            (self.moved, "answers stood elsewhere in their text"),
            (self.skipped, "bad questions were left out"),
        ]
        return "; ".join([facts, *(f"{count:,} {words}" for count, words in notes if count)])


class _Reading(LineReading):
    kinds = AnsweredQuestions.kinds
    moved = 0

    def question(self, row: _Row) -> AnsweredQuestion | None:
        """A question with its answers; None, with a problem noted, if it is bad."""
        number, record, text, title, name = row

        def problem(kind: str, what: str) -> AnsweredQuestion | None:
            self.problem(number, kind, f"question {name!r} {what}")
            return None

        if not isinstance(record, dict) or not isinstance(text, str):
            return problem("type", "has no text")
        question, given = record.get("question"), record.get("answers", [])
        if isinstance(given, dict) and isinstance(given.get("text"), list):  # columns of `datasets`
            columns = [*given.values()]
            lists = all(isinstance(x, Sized) and not isinstance(x, str) for x in columns)
            if not lists or len(set(map(len, columns))) > 1:
                return problem("type", "has answers whose columns are not lists of one length")
            given = [dict(zip(given, row, strict=True)) for row in zip(*columns, strict=True)]
        if not isinstance(question, str) or not isinstance(given, list):
            return problem("type", "is not a string with a list")
        if is_blank(question):
            return problem("empty", "has no words")
        if not is_unicode(question + text):
            return problem("encoding", "has half a surrogate pair")
        answers, moved = [], 0
        for answer in [] if record.get("is_impossible") else given:
            words, start = answer, None
            if isinstance(answer, dict):
                words = answer.get("text")
                start = answer.get("start", answer.get("answer_start"))
            start = int(start) if isinstance(start, Integral) else start  # also NumPy's
            if not isinstance(words, str) or not isinstance(start, int | None):
                of = f"text of type {type(words).__name__} and a start of type"
                return problem("type", f"has an answer with a {of} {type(start).__name__}")
            if is_blank(words):
                return problem("empty", "has an empty answer")
            if start is not None and not 0 <= start < len(text):
                what = f"{words[:60]!r} at {start}, in a text of {len(text)} characters"
                return problem("place", f"has the answer {what}")
            place = _nearest(text, words, start or 0)
            if place is None:
                return problem("answer", f"has the answer {words[:60]!r}, which is not in its text")
            moved += start not in (None, place)
            answers.append(TextAnswer(words, place))
        self.moved += moved
        return AnsweredQuestion(question, text, tuple(answers), title, name)


def read_questions(path: Location, on_error: str = "error") -> AnsweredQuestions:
    """Reads questions about texts with their answers.

    | file | questions |
    |---|---|
    | `*.jsonl`, `*.ndjson`, Parquet, `Rows` | a JSON object on each line (or row): `question`, `text` (or `context`), and `answers`, a list of objects with `text` and `start` (or `answer_start`), or of strings; an empty list if there is none; optionally `title`, the article (the text itself by default), and `id` |
    | `*.json` | SQuAD 1.1 or 2.0: articles in `data`, their `paragraphs`, and the questions of each paragraph in `qas` |

    If an answer is not at the given position, its nearest occurrence in the text is used, and the
    answer is counted in `moved`. An answer without a position gets its first occurrence.

    Args:
        path: The file; a text file is in UTF-8, or in UTF-16 with a byte order mark, plain or
            gzipped (`*.gz`).
        on_error: `"error"` raises an error for bad questions; `"skip"` leaves them out, counts them
            in `skipped`, and lists them in `problems`.

    Returns:
        An `AnsweredQuestions`, a sequence of `AnsweredQuestion`s.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        ValueError: If no question is left, or a `*.json` file is not like SQuAD. With
            `on_error="error"`, also if a line has another format, if a question or an answer is
            empty, or if an answer is not in its text or starts outside of the text.

    Example:

    >>> import pathlib
    >>> import tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "some.jsonl")
    >>> _ = path.write_text('{"question": "Where?", "text": "In Oslo.", "answers": ["Oslo"]}')
    >>> read_questions(path)[0].answers
    (TextAnswer(text='Oslo', start=3),)
    """  # noqa: E501  a table
    where = existing(path, "a file of questions with answers")
    reading = _Reading(where, on_error)
    with open_lines(path) as lines:
        squad = ending(path) == ".json"
        rows = _of_squad(lines, reading) if squad else _of_lines(lines, reading)
        questions = [question for row in rows if (question := reading.question(row))]
    reading.refuse(len(questions), "questions with answers in their texts", "question")
    return AnsweredQuestions(
        questions, reading.where, reading.moved, len(reading.problems), reading.problems
    )


def _of_lines(lines: Iterator[bytes], reading: _Reading) -> Iterator[_Row]:
    for number, record in reading.records(lines):
        key = "text" if "text" in record else "context"
        missing = [k for k in ("question", key, "answers") if k not in record]
        if missing:
            reading.no_key(number, record, missing[0])
            continue
        # Questions about the same text are of one article, whether it has a title or not.
        title = record[key] if record.get("title") is None else record["title"]
        yield number, record, record[key], str(title), str(record.get("id", f"line {number}"))


def _of_squad(lines: Iterator[bytes], reading: _Reading) -> Iterator[_Row]:
    def parse(content: dict[str, Any]) -> list[tuple[Any, Any, str]]:
        return [
            (qa, paragraph["context"], str(i if article.get("title") is None else article["title"]))
            for i, article in enumerate(content["data"])
            for paragraph in article["paragraphs"]
            for qa in paragraph["qas"]
        ]

    expected = "SQuAD's JSON, data with paragraphs with qas"
    every = reading.whole(lines, parse, expected, "question", "an object")
    for number, (qa, text, title) in enumerate(every, start=1):
        name = qa.get("id", number) if isinstance(qa, dict) else number
        yield number, qa, text, title, str(name)


def _nearest(text: str, words: str, wanted: int) -> int | None:
    """The occurrence of some words that is nearest to a position."""
    places = (match.start() for match in re.finditer(f"(?={re.escape(words)})", text))
    return min(places, key=lambda place: abs(place - wanted), default=None)


def _is_right(question: AnsweredQuestion) -> bool:
    """Whether the strings of a question have words, and its answers are where they say."""
    texts = isinstance(question.question, str) and isinstance(question.text, str)
    if not texts or not isinstance(question.answers, tuple) or is_blank(question.question):
        return False
    return is_unicode(question.question + question.text) and all(
        isinstance(answer, TextAnswer)
        and isinstance(answer.text, str)
        and isinstance(answer.start, Integral)
        and answer.start >= 0
        and not is_blank(answer.text)
        and question.text.startswith(answer.text, answer.start)
        for answer in question.answers
    )


def checked_questions(examples: Iterable[object]) -> list[AnsweredQuestion]:
    """Checks `AnsweredQuestion`s, or tuples ((question, text), answers).

    The answers of a tuple are strings or (string, start) pairs.
    """
    questions = []
    reading = _Reading("given")
    read = "keras_attn.records.read_questions(path)"
    for i, example in enumerate(listed(examples, "questions with texts and answers", 3, read)):
        title = name = str(i)
        if isinstance(example, AnsweredQuestion):
            if _is_right(example):  # as those of `read_questions` are
                questions.append(example)
                continue
            *parts, title, name = example
        else:
            parts = flattened(example)
        texts = [isinstance(part, str) for part in parts]
        if texts != [True, True, False] or not isinstance(parts[2], Iterable):
            raise TypeError(
                "Expected tuples of a question with its text, and a list of answers: ((question, "
                f"text), answers). Received: {example!r:.100} as example {i}."
            )
        question, text, answers = parts
        given = [
            {"text": a[0], "start": a[1]} if isinstance(a, tuple) and len(a) == 2 else a
            for a in answers
        ]
        record = {"question": question, "answers": given}
        checked = reading.question((i, record, text, title, name or str(i)))
        if checked is None:
            raise ValueError(
                "Expected questions with answers that are in their texts. Received: "
                f"{reading.problems[0].what}. Correct it, or leave the question out."
            )
        questions.append(checked)
    return questions


def split_questions(
    questions: Sequence[AnsweredQuestion], share: float | int, seed: int = 0
) -> tuple[list[AnsweredQuestion], list[AnsweredQuestion]]:
    """Splits questions at random into two sets, without dividing articles.

    Args:
        questions: The questions.
        share: Approximate fraction of the articles that go to the second set, or, if it is an
            integer, their number. If there are at least two articles, each set gets at least one.
        seed: Seed of the split, an integer of at least 0. Articles are sorted by the SHA-256 of the
            seed and their title, and the first articles go to the second set.

    Returns:
        A tuple of two lists, each in the order of the questions.

    Raises:
        ValueError: If `share` is a fraction that is not between 0 and 1, or a number that is not
            between 0 and the number of articles; or if `seed` is out of range.

    Example:

    >>> some = [AnsweredQuestion("?", "a", (), str(n // 5)) for n in range(100)]
    >>> first, second = split_questions(some, 0.3)
    >>> len(first) + len(second), {q.title for q in first} & {q.title for q in second}
    (100, set())
    >>> [len(side) for side in split_questions(some, 4)]
    [80, 20]
    """
    titles = [question.title for question in questions]
    count = len(set(titles))
    if isinstance(share, int) and not 0 < share < count:
        raise ValueError(
            f"Expected a number of articles above 0 and below {count}. Received: {share}."
        )
    if not isinstance(share, int):
        check_share(share)
    return split_by_hash(questions, titles, share, seed)
