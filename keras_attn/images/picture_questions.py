"""Questions about images, and the result of reading them from a file."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict, Unpack

from keras_attn.images.image_problems import IMAGE_PROBLEMS, ImageProblem, describe_image_problems
from keras_attn.images.image_reading import ImageReading
from keras_attn.images.loading import image_problem
from keras_attn.images.pictures import Picture, check_picture, distinct_pictures
from keras_attn.inputs import flattened, listed
from keras_attn.records.items import Items
from keras_attn.records.problems import many
from keras_attn.records.reading import Location

QUESTION_PROBLEMS = {
    **IMAGE_PROBLEMS,
    "missing": "of pictures that are not there",
    "broken": "of files that are no whole pictures",
    "empty": "with an empty picture, question or answer",
    "unknown": "without the other half",
    "twice": "given twice",
}


class PictureQuestion(NamedTuple):
    """A question about an image, and its answer.

    Args:
        picture: The image: a path, the bytes of a file, or a uint8 array `(H, W, 3)`.
        question: The question.
        answer: The answer to the question, one of the classes.
        answers: Answers of several people, if available.
        kind: Kind of the question, if available; each kind is also scored separately.

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
    """The questions of a file, a sequence of `PictureQuestion`s, and the file's problems.

    Args:
        questions: The `PictureQuestion`s.
        where: Name of the file, for messages.
        entries: Number of questions in the file.
        problems: The `ImageProblem`s of the questions that were left out.

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
        """Returns the numbers of questions, images, answers and problems, the number of questions
        of each kind, and the first problems, as text."""
        pictures = len(distinct_pictures([question.picture for question in self.questions])[0])
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
    """Settings of all readers of questions, which `read_question_table` describes."""

    on_error: str
    check_pictures: bool


class QuestionReading(ImageReading[PictureQuestion]):
    """Collects the questions of a file about images, and its problems."""

    kinds = QUESTION_PROBLEMS
    expected = "questions about whole pictures, with answers"
    one = "question about a picture"

    def __init__(
        self, path: Location, image_dir: Location | None, **checks: Unpack[QuestionChecks]
    ):
        super().__init__(path, image_dir, **checks)
        self.picture_problem = functools.cache(image_problem)  # each picture is read once

    def bad_entry(self, where: str, kind: str, what: str) -> None:
        """Counts a line or an entry, and records its problem."""
        self.entries += 1
        self.problem(where, kind, what)

    def add(
        self,
        where: str,
        name: object,
        question: object,
        answer: object,
        answers: Sequence[str] = (),
        kind: str = "",
    ) -> None:
        """Adds a question about an image file, from a line or an entry."""
        self.entries += 1
        parts = {"picture": name, "question": question, "answer": answer}
        picture, asked, said = [
            self.text(where, value, f"the {part}") for part, value in parts.items()
        ]
        if picture is None or asked is None or said is None:
            return
        path = os.fspath(self.place(str(name).strip()))
        problem = self.picture_problem(path) if self.check else None
        if problem is not None:
            self.problem(f"{where}, {name}", problem.kind, problem.what)
            return
        self.found.append(PictureQuestion(path, asked, said, tuple(answers), kind))

    def finish(self) -> PictureQuestions:
        """Returns the `PictureQuestions`.

        Raises a ValueError if problems are errors, or if no question is left.
        """
        self.refuse()
        return PictureQuestions(self.found, self.where, self.entries, self.problems)


Asked = PictureQuestion | tuple[Picture, str, str]


def checked_questions(examples: Iterable[Any], answered: bool = True) -> list[PictureQuestion]:
    """Checks `PictureQuestion`s, or tuples ((image, question), answer).

    If `answered` is False, (image, question) pairs are also accepted.
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
