"""Questions with right answers, for ranking candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from keras_attn.arrays import greatest
from keras_attn.inputs import listed
from keras_attn.records.columns import COLUMN_SUFFIXES, read_columns
from keras_attn.records.items import Records
from keras_attn.records.labelled_splits import split_alike
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.problems import PROBLEMS, LineProblem, many
from keras_attn.records.reading import LineReading, Location, ending, existing, is_blank
from keras_attn.records.scored_pairs import ScoredPair
from keras_attn.records.tables import Column
from keras_attn.text.checks import well_formed

_EXPECTED = (
    "(question, answer), (question, [answers]) or (question, [answers], [candidates]), with no "
    "empty text"
)


class SelectionQuestion(NamedTuple):
    """A question with its right answers and, optionally, the candidates to choose from.

    Example:

    >>> SelectionQuestion("Where is Oslo?", ("In Norway.",)).answers[0]
    'In Norway.'
    """

    question: str
    """The question."""
    answers: tuple[str, ...]
    """All right answers."""
    candidates: tuple[str, ...] = ()
    """Candidates for this question; if empty, the candidates of all questions are used."""


@dataclass(frozen=True)
class SelectionQuestions(Records[SelectionQuestion]):
    """The questions of a file, and the problems of the lines that were left out.

    Example:

    >>> print(SelectionQuestions([SelectionQuestion("a?", ("b", "c"))], "a.csv").summary())
    a.csv: 1 question, 2 different answers.
    """

    kinds = {  # noqa: RUF012
        **PROBLEMS,
        "empty": "with an empty text",
        "answer": "with an answer that is not among those to choose from",
    }

    questions: list[SelectionQuestion]
    where: str = "given"
    problems: list[LineProblem] = field(default_factory=list)
    answers: tuple[str, ...] = ()
    """All distinct candidates, in the order of their first occurrence; by default the answers of
    the questions."""

    def __post_init__(self) -> None:
        if not self.answers:
            own = dict.fromkeys(answer for x in self.questions for answer in x.answers)
            object.__setattr__(self, "answers", tuple(own))

    def summary(self) -> str:
        """Returns the numbers of questions and different answers, and the first bad lines, as
        text."""
        answers = len({answer for x in self.questions for answer in x.answers})
        text = f"{self.where}: {many(len(self.questions), 'question')}, "
        return f"{text}{many(answers, 'different answer')}{self._left_out()}."


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
    r"""Reads questions with right answers, one question and one answer per line.

    A question with several right answers has a line for each of them. The formats are CSV,
    tab-separated, JSON lines and Parquet, inferred from the file name. If both columns are given by
    number rather than by name, the file is read without a header.

    Args:
        path: The file, or `Rows`. A text file may be gzipped.
        question: Name or number (from 0) of the column of the questions; key of the JSON object.
        answer: Column or key of the answers.
        format: `"auto"`, `"csv"`, `"tsv"` or `"json_lines"`.
        delimiter: The single character between cells. By default, one of `,`, `;`, `|` and tab is
            inferred from the header; without a header, it is a comma in `"csv"` and a tab in
            `"tsv"`.
        on_error: `"error"` raises one ValueError for all bad lines. `"skip"` leaves bad lines out,
            and lists them in `problems`.
        answers: The allowed answers; a line with any other answer is bad. None allows any answer.

    Returns:
        A `SelectionQuestions`, with the questions in the order of their first occurrence.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file does not exist or cannot be read.
        ValueError: If no question is left, a column is missing, or, with `on_error="error"`, a line
            is bad (the message has the line number).

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some.csv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("question,answer\nWhere?,In Oslo.\nWhere?,In Norway.\n")
    >>> read_selection_questions(path)[0].answers
    ('In Oslo.', 'In Norway.')
    """
    where = existing(path, "a file of questions with answers")
    reading = LineReading(where, on_error, SelectionQuestions.kinds)
    known = None if answers is None else set(answers)
    right: dict[str, list[str]] = {}
    different: dict[str, None] = {}
    columns = {"question": question, "answer": answer}
    for number, row in read_columns(path, columns, reading, format, delimiter):
        asked = reading.text(number, "question", row["question"])
        said = reading.text(number, "answer", row["answer"])
        if asked is None or said is None:
            continue
        if known is not None and said not in known:
            reading.problem(number, "answer", f"{said!r:.80}")
            continue
        right.setdefault(asked, []).append(said)
        different[said] = None
    reading.refuse(len(right), "a question and its answer on each line", "pair")
    questions = [SelectionQuestion(q, tuple(dict.fromkeys(a))) for q, a in right.items()]
    found = SelectionQuestions(questions, reading.where, reading.problems, tuple(different))
    return found.in_units(reading.unit)


def read_candidates(
    path: Location,
    answer: Column = "answer",
    format: str = "auto",
    *,
    delimiter: str | None = None,
    on_error: str = "error",
) -> list[str]:
    r"""Reads candidate answers from a table, JSON lines, Parquet or a plain text file.

    Tables, JSON lines and Parquet are recognized by the file name. If `answer` is a number, a table
    is read without a header. Any other file has an answer on each line; blank lines are skipped.

    Args:
        path: The file, or `Rows`. A text file may be gzipped.
        answer: Name or number (from 0) of the column of the answers; key of the JSON object.
        format: `"auto"`, `"csv"`, `"tsv"`, `"json_lines"` or `"lines"`.
        delimiter: The single character between cells; inferred by default, as in
            `read_selection_questions`.
        on_error: `"error"` raises one ValueError for all bad lines. `"skip"` leaves bad lines out.

    Returns:
        The distinct answers, in the order of their first occurrence.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file does not exist or cannot be read.
        ValueError: If there is no answer, a column is missing, or, with `on_error="error"`, a line
            is bad.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "answers.txt")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("In Oslo.\nIn Rome.\n\nIn Oslo.\n")
    >>> read_candidates(path)
    ['In Oslo.', 'In Rome.']
    """
    where = existing(path, "a file of answers")
    reading = LineReading(where, on_error, SelectionQuestions.kinds)
    answers: dict[str, None] = {}
    if format == "lines" or (format == "auto" and ending(path) not in COLUMN_SUFFIXES):
        with open_lines(path) as lines:
            for _, line in reading.texts(lines):
                if line is not None and not is_blank(line):
                    answers[line.strip()] = None
    else:
        for number, row in read_columns(path, {"answer": answer}, reading, format, delimiter):
            text = reading.text(number, "answer", row["answer"])
            if text is not None:
                answers[text] = None
    reading.refuse(len(answers), "an answer on each line", "answer")
    return list(answers)


def checked_selection_questions(examples: Iterable[object]) -> list[SelectionQuestion]:
    """Checks `SelectionQuestion`s, or tuples of a question, its answers and optional candidates.

    If a question has candidates, its right answers must be among them.
    """
    questions = []
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
                "Expected right answers that are among the candidates of their question. "
                f"Received: {missing[0]!r:.80} at position {i}, which is not a candidate."
            )
        questions.append(SelectionQuestion(parts[0], answers, candidates))
    if not questions:
        raise ValueError("Expected at least one question. Received: none.")
    return questions


def split_selection_questions(
    examples: Sequence[SelectionQuestion], dev: int | float = 0.1, seed: int = 0, apart: bool = True
) -> tuple[list[SelectionQuestion], list[SelectionQuestion]]:
    """Splits questions at random into two sets.

    An answer may occur in both sets, because answers are the candidates that a model ranks.

    Args:
        examples: The questions.
        dev: Number of questions in the second set, or their fraction if it is below 1.
        seed: Seed of the split, any integer.
        apart: Whether equal and nearly equal questions are kept together, as in `split_labelled`.
            If False, they may be in different sets, which causes a warning.

    Returns:
        The training questions and the development questions, as two lists.

    Raises:
        ValueError: If `dev` is out of range, or there are too few questions.

    Example:

    >>> some = [SelectionQuestion(f"word {chr(97 + i)}?", ("b",)) for i in range(20)]
    >>> [len(side) for side in split_selection_questions(some, 0.2)]
    [16, 4]
    """
    return split_alike(examples, lambda x: (x.question, None), dev, seed, apart)


def check_answers(examples: Sequence[SelectionQuestion], answers: Mapping[str, int]) -> bool:
    """Checks that right answers are among the candidates; returns whether questions have their own
    candidates."""
    own = [x.candidates for x in examples]
    if any(own) != all(own):
        raise ValueError(
            "Expected candidates with every example, or with no example. Received: "
            f"{sum(map(bool, own))} of {len(own)} examples with candidates."
        )
    for x in [] if all(own) else examples:
        missing = [answer for answer in x.answers if answer not in answers]
        if missing:
            raise ValueError(
                "Expected right answers that are among the possible answers. Received: "
                f"{missing[0]!r:.80} for {x.question!r:.80}, which is not among them. Add it "
                "to `answers`, or give each question candidates of its own."
            )
    return all(own)


def pairs_of_answers(
    examples: Sequence[SelectionQuestion],
    searched: Iterable[tuple[Sequence[str], np.ndarray]],
    negatives: int,
) -> list[ScoredPair]:
    """Creates training pairs: right answers get score 1, and the `negatives` highest-ranked wrong
    answers get score 0.
    """
    right_of: dict[str, set[str]] = {}  # of a question, in several examples too
    for x in examples:
        right_of.setdefault(x.question, set()).update(x.answers)
    pairs = []
    for x, (texts, scores) in zip(examples, searched, strict=True):
        pairs += [ScoredPair(x.question, answer, 1.0) for answer in x.answers]
        right = right_of[x.question]
        count = negatives * len(x.answers)
        ordered = [texts[i] for i in greatest(np, scores, count + len(right))]
        wrong = [text for text in ordered if text not in right][:count]
        pairs += [ScoredPair(x.question, text, 0.0) for text in wrong]
    return list(dict.fromkeys(pairs))
