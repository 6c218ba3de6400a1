"""Problems of images and captions, and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from keras_attn.records.problems import count_problems

IMAGE_PROBLEMS = {
    "missing": "whose file is not there",
    "broken": "whose file is no whole picture",
    "no_caption": "without a caption",
    "empty": "with an empty caption",
    "type": "with a value of another type",
    "keys": "without the keys",
    "encoding": "not valid Unicode text",
    "twice": "given twice",
    "unknown": "not among the pictures",
    "columns": "with too few or too many columns",
    "csv": "that are no row of a table",
}

_SHOWN = 5


class ImageProblem(NamedTuple):
    """A problem of an image or its captions.

    Args:
        where: The path or name of the image; if it is unknown, the line or entry of the file.
        kind: One of "missing", "broken", "no_caption", "empty", "type", "keys", "encoding",
            "twice", "unknown", "columns", "csv".
        what: Description of the problem.

    Example:

    >>> ImageProblem("a.jpg", "missing", "there is no such file").kind
    'missing'
    """

    where: str
    kind: str
    what: str


def count_image_problems(problems: Sequence[ImageProblem]) -> dict[str, int]:
    """Returns the number of images or lines with each kind of problem."""
    return count_problems(problems, IMAGE_PROBLEMS)


def describe_image_problems(
    problems: Sequence[ImageProblem], kinds: Mapping[str, str] = IMAGE_PROBLEMS
) -> str:
    """Describes the number of problems of each kind, with the names of the first images."""
    parts = []
    for kind, count in count_image_problems(problems).items():
        first: dict[str, str] = {}
        for where, of_kind, what in problems:
            if of_kind == kind:
                first.setdefault(where, what)
        shown = [f"{where}: {what}" for where, what in list(first.items())[:_SHOWN]]
        more = f"; and {count - _SHOWN:,} more" if count > _SHOWN else ""
        parts.append(f"{count:,} {kinds[kind]} ({'; '.join(shown)}{more})")
    return ", ".join(parts)


def refuse_image_problems(
    where: str,
    expected: str,
    entries: int,
    problems: Sequence[ImageProblem],
    kinds: Mapping[str, str] = IMAGE_PROBLEMS,
) -> None:
    """Raises one error about all problems, if there are any."""
    if problems:
        bad = len({problem.where for problem in problems})
        raise ValueError(
            f"{where}: expected {expected}. Received: {bad:,} of {entries:,} that are not: "
            f"{describe_image_problems(problems, kinds)}. Correct them, or leave them out with "
            "on_error='skip' (--on-error skip)."
        )
