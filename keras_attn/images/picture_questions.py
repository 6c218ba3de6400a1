"""Pictures with questions, and what came of reading a file of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

from keras_attn.images.image_problems import (
    IMAGE_PROBLEMS,
    ImageProblem,
    describe_image_problems,
    refuse_image_problems,
)
from keras_attn.images.loading import image_problem
from keras_attn.images.pictures import Picture, check_picture
from keras_attn.inputs import flattened, listed
from keras_attn.records.items import Items
from keras_attn.records.problems import many
from keras_attn.records.reading import check_on_error, is_blank
from keras_attn.white_space import normalize_white_space

QUESTION_PROBLEMS = {
    **IMAGE_PROBLEMS,
    "missing": "of pictures that are not there",
    "broken": "of files that are no whole pictures",
    "empty": "with an empty picture, question or answer",
    "unknown": "without the other half",
    "twice": "given twice",
}


class PictureQuestion(NamedTuple):
    """A question about a picture, and its answer.

    Args:
        picture: The picture's file; the bytes of one, or an array, if it is not read from files.
        question: The question.
        answer: Its answer, one of the classes.
        answers: What several people answered, if the data have it.
        kind: What kind of question it is, if the data say; scores are given for each kind.

    Example:

    >>> PictureQuestion("1.png", "What color is the cat?", "black").answer
    'black'
    """

    picture: Any
    question: str
    answer: str
    answers: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class PictureQuestions(Items[PictureQuestion]):
    """The questions of a file, in its order, and an account of what was left out.

    It is a sequence of `PictureQuestion`.

    Args:
        questions: The questions with their pictures and answers.
        where: The file they were read from, for messages.
        entries: Number of questions that the file has.
        problems: What is wrong with those that were left out.

    Example:

    >>> questions = PictureQuestions([PictureQuestion("1.png", "A cat?", "yes")], "a.csv", 1)
    >>> print(questions.summary())
    a.csv: 1 question of 1, 1 picture, 1 different answer.
    """

    questions: list[PictureQuestion]
    where: str = "questions"
    entries: int = 0
    problems: list[ImageProblem] = field(default_factory=list)

    @property
    def answer_counts(self) -> dict[str, int]:
        """The number of questions with each answer, the most common answer first."""
        return dict(Counter(question.answer for question in self.questions).most_common())

    def summary(self) -> str:
        """The counts in words, with the lines and names of the first bad pictures."""
        pictures = len({question.picture for question in self.questions})
        text = (
            f"{self.where}: {many(len(self.questions), 'question')} of {self.entries:,}, "
            f"{many(pictures, 'picture')}, {many(len(self.answer_counts), 'different answer')}."
        )
        kinds = Counter(question.kind for question in self.questions)
        if set(kinds) - {""}:
            named = ", ".join(f"{kind or 'none'} {n:,}" for kind, n in sorted(kinds.items()))
            text += f" Kinds: {named}."
        if self.problems:
            text += f" Left out: {describe_image_problems(self.problems, QUESTION_PROBLEMS)}."
        return text


class QuestionChecks(TypedDict, total=False):
    """Settings that all readers of questions have; `read_question_table` describes them."""

    on_error: str
    check_pictures: bool


class QuestionReading:
    """Collects the questions and the problems of one reading."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        image_dir: str | os.PathLike[str] | None,
        on_error: str = "error",
        check_pictures: bool = True,
    ):
        check_on_error(on_error)
        self.where = os.fspath(path)
        self.folder = Path(path).parent if image_dir is None else Path(image_dir)
        self.on_error = on_error
        self.check_pictures = check_pictures
        self.entries = 0
        self.questions: list[PictureQuestion] = []
        self.problems: list[ImageProblem] = []
        self._of_pictures: dict[str, ImageProblem | None] = {}
        if check_pictures and not self.folder.is_dir():
            raise NotADirectoryError(
                f"Expected `image_dir` to be the pictures' folder. Received: {self.folder}, which "
                "is none."
            )

    def problem(self, where: str, kind: str, what: str) -> None:
        """Note what is wrong with a line or an entry."""
        self.problems.append(ImageProblem(where, kind, what))

    def texts(self, where: str, **values: Any) -> list[str] | None:
        """Values that must be strings with something in them, tidied; else None and a problem."""
        found = []
        for name, value in values.items():
            if not isinstance(value, str):
                self.problem(where, "type", f"the {name} is of type {type(value).__name__}")
                continue
            text = normalize_white_space(value)
            if is_blank(text):
                self.problem(where, "empty", f"the {name} is empty")
            elif text.encode("utf-8", "replace").decode() != text:
                self.problem(where, "encoding", f"the {name} has half a surrogate pair")
            else:
                found.append(text)
        return found if len(found) == len(values) else None

    def add(
        self,
        where: str,
        name: object,
        question: object,
        answer: object,
        answers: Sequence[str] = (),
        kind: str = "",
    ) -> None:
        """A question of a line or an entry, about the picture of a file name."""
        self.entries += 1
        texts = self.texts(where, picture=name, question=question, answer=answer)
        if texts is None:
            return
        path = os.fspath(self.folder / cast(str, name).strip())
        if self.check_pictures:
            if path not in self._of_pictures:  # each picture is read once
                self._of_pictures[path] = image_problem(path)
            problem = self._of_pictures[path]
            if problem is not None:
                self.problem(f"{where}, {name}", problem.kind, problem.what)
                return
        self.questions.append(PictureQuestion(path, texts[1], texts[2], tuple(answers), kind))

    def finish(self) -> PictureQuestions:
        """Returns the questions; raises an error that lists all problems."""
        if self.on_error == "error":
            expected = "questions about whole pictures, with answers"
            refuse_image_problems(
                self.where, expected, self.entries, self.problems, QUESTION_PROBLEMS
            )
        if not self.questions:
            described = describe_image_problems(self.problems, QUESTION_PROBLEMS)
            raise ValueError(
                f"{self.where}: expected at least one question about a picture. Received: none of "
                f"{self.entries:,}{': ' * bool(described)}{described}."
            )
        return PictureQuestions(self.questions, self.where, self.entries, self.problems)


Asked = PictureQuestion | tuple[Picture, str, str]


def checked_questions(examples: Iterable[Any], answered: bool = True) -> list[PictureQuestion]:
    """Checks `PictureQuestion`s, or tuples ((picture, question), answer).

    If they are not `answered`, (picture, question) pairs are accepted too.

    >>> checked_questions([(("1.png", "A cat?"), "yes")])[0].answer
    'yes'
    """
    parts = ("picture", "question", "answer")[: 2 + answered]
    form = "((picture, question), answer) tuples" if answered else "(picture, question) tuples"
    read = "keras_attn.images.read_question_table(path)"
    found = []
    for i, example in enumerate(listed(examples, form, len(parts), read)):
        values = flattened(example)
        if len(values) < len(parts) or not all(isinstance(x, str) for x in values[1:3]):
            raise ValueError(
                f"Expected {form}, with questions and answers that are "
                f"strings. Received: {example!r:.100} at position {i}."
            )
        check_picture(values[0], i)
        found.append(PictureQuestion(*(values if len(values) > 2 else (*values, ""))))
    return found
