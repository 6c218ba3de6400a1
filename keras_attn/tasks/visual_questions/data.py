"""Questions about pictures: read from files, split, and checked."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_attn.images import (
    PictureQuestion,
    PictureQuestions,
    read_easy_vqa,
    read_question_table,
    read_vqa,
)
from keras_attn.inputs import listed
from keras_attn.tasks.base.checks import check_formats
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.captioning.data import Picture, check_picture
from keras_attn.tasks.visual_questions.settings import VisualQuestionsData

Asked = PictureQuestion | tuple[Picture, str, str]
_OF_FORMATS = {
    ("image", "question", "answer", "kind", "delimiter"): ("csv",),
    ("image_name",): ("vqa",),
}


def read_questions(
    path: str,
    settings: VisualQuestionsData,
    side: str = "train",
    annotations: str = "",
    image_dir: str = "",
) -> PictureQuestions:
    """Reads questions about pictures of any format.

    Args:
        path: A table; a JSON file; or a folder of easy-VQA, of a side or of both.
        settings: `format`, the columns, `image_name`, and what is done with bad lines.
        side: `"train"` or `"test"`: the side of a folder that has both.
        annotations: Of `vqa`: the file of the answers.
        image_dir: Folder of the pictures.

    Returns:
        A `PictureQuestions`.

    Raises:
        OSError: If something is not there or cannot be read.
        ValueError: For bad lines and columns, and settings of another format.
    """
    kind = _format(path, bool(annotations), settings)
    check_formats(settings, _OF_FORMATS, {kind}, "questions")
    return _read(kind, path, settings, side, annotations, image_dir)


def _read(
    kind: str,
    path: str,
    settings: VisualQuestionsData,
    side: str,
    annotations: str,
    image_dir: str,
) -> PictureQuestions:
    s = settings
    path, annotations, image_dir = map(os.path.expanduser, (path, annotations, image_dir))
    if bool(annotations) != (kind == "vqa"):
        raise ValueError(
            "Expected a file of answers (`annotations`) with JSON of VQA's layout, and with no "
            f"other format. Received: {annotations or 'none'} with {path}, format {kind!r}."
        )
    if kind == "easy_vqa":
        if image_dir:
            raise ValueError("easy-VQA has its pictures in `images`. Received: `image_dir`.")
        inner = Path(path) / side
        return read_easy_vqa(inner if inner.is_dir() else path, on_error=s.on_error)
    if kind == "vqa":
        return read_vqa(
            path, annotations, image_dir or None, s.image_name, on_error=s.on_error
        )  # fmt: skip
    return read_question_table(
        path,
        s.image,
        s.question,
        s.answer,
        s.kind or None,
        image_dir or None,
        s.delimiter or None,
        on_error=s.on_error,
    )


def _format(given: str, annotated: bool, settings: VisualQuestionsData) -> str:
    if settings.format != "auto":
        return settings.format
    path = Path(given).expanduser()
    if path.is_dir():
        return "easy_vqa"
    if path.name.lower().removesuffix(".gz").endswith(".json"):
        return "vqa" if annotated or path.name != "questions.json" else "easy_vqa"
    return "csv"


def training_questions(settings: VisualQuestionsData) -> Examples:
    """Reads the questions of a run, and those by which its best weights are chosen.

    These are of `dev`, or about a share of the pictures, about which nothing else is learnt.

    Args:
        settings: Which questions, and how they are split.

    Returns:
        `Examples`.

    Raises:
        OSError: As `read_questions`.
        ValueError: As `read_questions`, for settings of `dev` without it, and for too few pictures.
    """
    s = settings
    alone = [name for name in ("dev_annotations", "dev_image_dir") if getattr(s, name)]
    if alone and not s.dev:
        raise ValueError(
            f"Expected `dev` with {' and '.join(f'`{name}`' for name in alone)}. Received: none."
        )
    kind = _format(s.train, bool(s.annotations), s)
    of_dev = _format(s.dev, bool(s.dev_annotations), s) if s.dev else kind
    check_formats(s, _OF_FORMATS, {kind, of_dev}, "questions")
    read = _read(kind, s.train, s, "train", s.annotations, s.image_dir)
    if s.dev:
        folder = s.dev_image_dir or s.image_dir
        dev = _read(of_dev, s.dev, s, "test", s.dev_annotations, folder)
        return Examples(list(read), list(dev), f"{read.summary()}\n{dev.summary()}")
    pictures = sorted({example.picture for example in read})
    if len(pictures) < 2:
        raise ValueError(
            "Expected questions about two pictures or more, to split them. Received: "
            f"{len(pictures)}. Give a file for development (--dev)."
        )
    random.Random(s.split_seed).shuffle(pictures)
    held = set(pictures[: max(1, round(s.dev_share * len(pictures)))])
    train = [example for example in read if example.picture not in held]
    return Examples(train, [x for x in read if x.picture in held], read.summary())


def checked_questions(examples: Iterable[Any], answered: bool = True) -> list[PictureQuestion]:
    """Checks questions about pictures.

    Args:
        examples: `PictureQuestion`s, or (picture, question, answer) tuples; if not `answered`,
            (picture, question) pairs too.
        answered: Whether they have answers.

    Returns:
        A list of `PictureQuestion`s.

    Raises:
        TypeError: If there is a path instead, or a picture is something else.
        ValueError: If one is something else; its position is named.

    Example:

    >>> checked_questions([("1.png", "A cat?", "yes")])[0].answer
    'yes'
    """
    parts = ("picture", "question", "answer")[: 2 + answered]
    read = "keras_attn.images.read_question_table(path)"
    found = []
    for i, example in enumerate(listed(examples, f"({', '.join(parts)}) tuples", len(parts), read)):
        values = tuple(example) if isinstance(example, tuple | list) else ()
        if len(values) < len(parts) or not all(isinstance(x, str) for x in values[1:3]):
            raise ValueError(
                f"Expected ({', '.join(parts)}) tuples, with questions and answers that are "
                f"strings. Received: {example!r:.100} at position {i}."
            )
        check_picture(values[0], i)
        found.append(PictureQuestion(*(values if len(values) > 2 else (*values, ""))))
    return found


def distinct_pictures(pictures: Sequence[Picture]) -> tuple[list[Picture], list[int]]:
    """Finds pictures that are given several times: the same path, bytes or array object.

    Args:
        pictures: Paths, bytes or arrays.

    Returns:
        The different ones, and for each given one its number among them.

    Example:

    >>> distinct_pictures(["a.png", "b.png", "a.png"])
    (['a.png', 'b.png'], [0, 1, 0])
    """
    numbers: dict[Any, int] = {}
    found: list[Picture] = []
    places = []
    for picture in pictures:
        key: Any = picture
        if isinstance(picture, os.PathLike):
            key = os.fspath(picture)
        elif not isinstance(picture, str | bytes):
            key = id(picture)
        if key not in numbers:
            numbers[key] = len(found)
            found.append(picture)
        places.append(numbers[key])
    return found, places
