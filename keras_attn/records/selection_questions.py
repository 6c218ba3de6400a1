"""Questions with the answers that are right, for the ranking of candidates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from keras_attn.inputs import listed
from keras_attn.records.columns import COLUMN_SUFFIXES, read_columns
from keras_attn.records.items import Items
from keras_attn.records.labelled_splits import split_labelled
from keras_attn.records.labelled_texts import LabelledText
from keras_attn.records.parallel import PROBLEMS, LineProblem, describe_problems, many
from keras_attn.records.reading import LineReading, Location, is_blank, open_lines
from keras_attn.records.tables import Column
from keras_attn.text.checks import well_formed

_EXPECTED = (
    "(question, answer), (question, [answers]) or (question, [answers], [candidates]), with no "
    "empty text"
)


class SelectionQuestion(NamedTuple):
    """A question with its right answers, which are to be found among candidates.

    Example:

    >>> SelectionQuestion("Where is Oslo?", ("In Norway.",)).answers[0]
    'In Norway.'
    """

    question: str
    """The question."""
    answers: tuple[str, ...]
    """All answers that are right."""
    candidates: tuple[str, ...] = ()
    """Candidates of this question alone; if empty, those of all questions."""


@dataclass(frozen=True)
class SelectionQuestions(Items[SelectionQuestion]):
    """The questions of a file, and an account of what was left out.

    Example:

    >>> print(SelectionQuestions([SelectionQuestion("a?", ("b", "c"))], "a.csv").summary())
    a.csv: 1 question, 2 different answers.
    """

    questions: list[SelectionQuestion]
    where: str = "given"
    problems: list[LineProblem] = field(default_factory=list)
    answers: tuple[str, ...] = ()
    """All different answers to choose from, in the order in which they are first there; those of
    the questions if none are given."""

    def __post_init__(self):
        if not self.answers:
            own = dict.fromkeys(answer for x in self.questions for answer in x.answers)
            object.__setattr__(self, "answers", tuple(own))

    def summary(self) -> str:
        """The numbers of questions and answers, with the first bad lines."""
        answers = len({answer for x in self.questions for answer in x.answers})
        text = f"{self.where}: {many(len(self.questions), 'question')}, "
        text += f"{answers:,} different answer{'s' * (answers != 1)}"
        if self.problems:
            text += f". Left out: {describe_problems(self.problems, kinds=_Reading.kinds)}"
        return f"{text}."


class _Reading(LineReading):
    kinds = {  # noqa: RUF012
        **PROBLEMS,
        "empty": "with an empty text",
        "answer": "with an answer that is not among those to choose from",
    }

    def texts(self, number: int, texts: dict[str, str | None]) -> list[str] | None:
        """The texts of a line, without white space at their ends; None if one is missing."""
        for name, text in texts.items():
            if text is not None and is_blank(text):
                self.problem(number, "empty", f"the {name} is empty")
        if any(text is None or is_blank(text) for text in texts.values()):
            return None
        return [text.strip() for text in texts.values()]


def read_selection_questions(
    path: Location,
    question: Column = "question",
    answer: Column = "answer",
    format: str = "auto",
    *,
    delimiter: str | None = None,
    on_error: str = "error",
    answers: Iterable[str] | None = None,
) -> SelectionQuestions:
    r"""Reads questions with right answers: a question and an answer on each line.

    A question with several right answers has several lines. The formats are CSV, tab-separated and
    JSON lines, guessed from the end of the file's name. If both columns are numbers, the file has
    no header.

    Args:
        path: The file, plain or gzipped.
        question: Name of the column of the questions, or its number (from 0); key of the JSON
            object.
        answer: The same of the answers.
        format: `"auto"`, `"csv"`, `"tsv"` or `"json_lines"`.
        delimiter: The one character between cells. Default: a comma in `"csv"`, a tab in `"tsv"`.
        on_error: `"error"`: lines that give no pair are a ValueError, one for all of them.
            `"skip"`: they are left out, and listed in `problems`.
        answers: The answers that may occur, which are those to choose from; a line with another one
            is bad. None: any.

    Returns:
        `SelectionQuestions`, in the order in which they are first there.

    Raises:
        OSError: If the file is not there or cannot be read.
        ValueError: If a line gives no pair, with its number.

    Example:

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some.csv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("question,answer\nWhere?,In Oslo.\nWhere?,In Norway.\n")
    >>> read_selection_questions(path)[0].answers
    ('In Oslo.', 'In Norway.')
    """
    reading = _opened(path, on_error, "a file of questions with answers")
    known = None if answers is None else set(answers)
    right: dict[str, list[str]] = {}
    different: dict[str, None] = {}
    columns = {"question": question, "answer": answer}
    for number, row in read_columns(path, columns, reading, format, delimiter):
        found = reading.texts(number, row)
        if found is None:
            continue
        if known is not None and found[1] not in known:
            reading.problem(number, "answer", f"{found[1]!r:.80}")
            continue
        right.setdefault(found[0], []).append(found[1])
        different[found[1]] = None
    reading.refuse(len(right), "a question and its answer on each line", "pair")
    questions = [SelectionQuestion(q, tuple(dict.fromkeys(a))) for q, a in right.items()]
    return SelectionQuestions(questions, reading.where, reading.problems, tuple(different))


def read_candidates(
    path: Location,
    answer: Column = "answer",
    format: str = "auto",
    *,
    delimiter: str | None = None,
    on_error: str = "error",
) -> list[str]:
    r"""Reads answers to choose from.

    A file whose name ends as that of a table or of JSON lines is read as such, any other has an
    answer on each line; blank lines are passed over.

    Args:
        path: The file, plain or gzipped.
        answer: Name of the column, or its number (from 0); key of the JSON object.
        format: As in `read_selection_questions`, or `"lines"`.
        delimiter: As in `read_selection_questions`.
        on_error: As in `read_selection_questions`.

    Returns:
        The different answers, in the order in which they are first there.

    Raises:
        OSError: If the file is not there or cannot be read.
        ValueError: If there is no answer, or a line gives none.

    Example:

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "answers.txt")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("In Oslo.\nIn Rome.\n\nIn Oslo.\n")
    >>> read_candidates(path)
    ['In Oslo.', 'In Rome.']
    """
    reading = _opened(path, on_error, "a file of answers")
    end = os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
    found: dict[str, None] = {}
    if format == "lines" or (format == "auto" and end not in COLUMN_SUFFIXES):
        with open_lines(os.path.expanduser(path)) as lines:
            for number, raw in enumerate(lines, start=1):
                reading.lines = number
                line = reading.decode(number, raw, "line")
                if line is not None and not is_blank(line):
                    found[line.strip()] = None
    else:
        for number, row in read_columns(path, {"answer": answer}, reading, format, delimiter):
            for text in reading.texts(number, row) or ():
                found[text] = None
    reading.refuse(len(found), "an answer on each line", "answer")
    return list(found)


def _opened(path: Location, on_error: str, expected: str) -> _Reading:
    if not os.path.isfile(os.path.expanduser(path)):
        raise FileNotFoundError(f"Expected {expected}. Received: {os.fspath(path)}, which is none.")
    return _Reading(os.fspath(path), on_error)


def checked_selection_questions(examples: Iterable[Any]) -> list[SelectionQuestion]:
    """Checks questions with right answers.

    Args:
        examples: `SelectionQuestion`s, or tuples of a question, an answer or a list of answers, and
            perhaps a list of candidates.

    Returns:
        A list of `SelectionQuestion`s.

    Raises:
        ValueError: If an example is something else or has no answer, a text is empty, a right
            answer is not among its candidates, or there is no example.

    Example:

    >>> checked_selection_questions([("Where?", "Here.")])
    [SelectionQuestion(question='Where?', answers=('Here.',), candidates=())]
    """
    found = []
    read = "keras_attn.records.read_selection_questions(path)"
    for i, example in enumerate(listed(examples, "questions with answers", 2, read)):
        parts = list(example) if isinstance(example, tuple | list) else []
        lists = [[x] if isinstance(x, str) else x for x in parts[1:]]
        kind = len(parts) in (2, 3) and all(isinstance(x, tuple | list) for x in lists)
        texts = [parts[0], *(text for x in lists for text in x)] if kind else []
        wrong = not texts or not lists[0] or not all(isinstance(text, str) for text in texts)
        if wrong or any(map(is_blank, texts)):
            raise ValueError(
                f"Expected questions with right answers, {_EXPECTED}. Received: "
                f"{example!r:.100} at position {i}."
            )
        answers, candidates = (tuple(dict.fromkeys(map(well_formed, x))) for x in [*lists, ()][:2])
        missing = [answer for answer in answers if candidates and answer not in candidates]
        if missing:
            raise ValueError(
                "Expected right answers that are among the candidates of their question. Received: "
                f"{missing[0]!r:.80}, which is not, at position {i}."
            )
        found.append(SelectionQuestion(parts[0], answers, candidates))
    if not found:
        raise ValueError("Expected at least one question. Received: none.")
    return found


def split_selection_questions(
    examples: Sequence[SelectionQuestion],
    dev: int | float = 0.1,
    seed: int = 0,
    apart: bool = True,
) -> tuple[list[SelectionQuestion], list[SelectionQuestion]]:
    """Parts questions at random; a question, and one nearly the same, is on one side.

    The answers may be on both sides: they are what is chosen from.

    Args:
        examples: The questions.
        dev: Number or share of the second side.
        seed: Any integer.
        apart: As in `split_labelled`.

    Returns:
        Both sides.

    Raises:
        ValueError: As in `split_labelled`.

    Example:

    >>> some = [SelectionQuestion(f"word {chr(97 + i)}?", ("b",)) for i in range(20)]
    >>> [len(side) for side in split_selection_questions(some, 0.2)]
    [16, 4]
    """
    # The number of the example stands for its group, by which it is found again.
    labelled = [LabelledText(x.question, "", str(i)) for i, x in enumerate(examples)]
    splits = split_labelled(labelled, dev, 0, seed, apart=apart)
    train, held_out = (
        [examples[int(x.group)] for x in side] for side in (splits.train, splits.dev)
    )
    return train, held_out
