"""Sort-of-CLEVR: drawn scenes of six objects, and questions about them in words."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from keras_attn.images import PictureQuestion
from keras_attn.records.reading import is_integer

COLORS = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 70, 220),
    "orange": (245, 150, 30),
    "gray": (120, 120, 120),
    "yellow": (235, 215, 40),
}
"""The colors of the objects, of which each picture has one each."""
SHAPES = ("circle", "square")
PLAIN, RELATIONAL = "not relational", "relational"
"""The kinds of the questions."""
_BACKGROUND = 250
_TRIES = 1000


class DrawnObject(NamedTuple):
    """An object of a scene.

    Example:

    >>> DrawnObject("red", "circle", 10, 20, 4).box
    (6, 16, 15, 25)
    """

    color: str
    shape: str
    row: int
    column: int
    radius: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """First row, first column, and those behind the last row and column."""
        row, column, radius = self.row, self.column, self.radius
        return row - radius, column - radius, row + radius + 1, column + radius + 1


class Scene(NamedTuple):
    """A drawn picture, its objects, and questions about it.

    Example:

    >>> scene = sort_of_clevr(1, questions=1)[0]
    >>> scene.picture.shape, len(scene.objects)
    ((64, 64, 3), 6)
    >>> scene.named("is the red object on the left ?").color
    'red'
    """

    picture: np.ndarray
    """uint8 `(size, size, 3)`."""
    objects: tuple[DrawnObject, ...]
    questions: tuple[PictureQuestion, ...]

    def named(self, question: str) -> DrawnObject:
        """Returns the object whose color is a word of a question."""
        words = question.split()
        (named,) = (thing for thing in self.objects if thing.color in words)
        return named


def sort_of_clevr(
    count: int, seed: int = 0, size: int = 64, questions: int = 10, radius: int = 4
) -> list[Scene]:
    """Draws scenes with questions in words, after Sort-of-CLEVR (Santoro et al., 2017).

    A scene has six objects of six colors, each a circle or a square, which do not touch. The
    questions are about the object of a color:

    | kind | question | answer |
    |---|---|---|
    | not relational | what is the shape of the red object ? | circle, square |
    | | is the red object on the left ?, on the top ? | yes, no |
    | relational | what is the shape of the object closest to, farthest from the red object ? | |
    | | how many objects have the shape of the red object ? | 1 to 6, itself included |

    The paper has codes for questions, and 75 x 75 pixels; here questions are sentences. What cannot
    be told is not asked: which of two objects at the same distance is closer.

    Args:
        count: Number of scenes.
        seed: Seed of the drawing. Scene i of a seed is the same for any `count`.
        size: Rows and columns of a picture.
        questions: Number of questions of each kind about a scene, at most 15.
        radius: Half of the width of an object.

    Returns:
        A list of `Scene`s.

    Raises:
        ValueError: If a number is out of range, or six objects do not fit.

    Example:

    >>> scene = sort_of_clevr(1, seed=3)[0]
    >>> len(scene.objects), len(scene.questions), scene.picture.shape
    (6, 20, (64, 64, 3))
    >>> scene.questions[0].question.split()[-1], scene.questions[-1].kind
    ('?', 'relational')
    """
    limits = {"count": (count, 1), "seed": (seed, 0), "size": (size, 8), "radius": (radius, 1)}
    for name, (value, least) in {**limits, "questions": (questions, 1)}.items():
        if not is_integer(value, least):
            raise ValueError(f"`{name}` must be an integer >= {least}. Received: {value!r}.")
    if questions > 15:
        raise ValueError(f"`questions` must be at most 15. Received: {questions}.")
    return [_scene(np.random.default_rng([seed, i]), size, questions, radius) for i in range(count)]


def _scene(rng: np.random.Generator, size: int, count: int, radius: int) -> Scene:
    objects: list[DrawnObject] = []
    for color in COLORS:
        for _ in range(_TRIES):
            row, column = (int(x) for x in rng.integers(radius, size - radius, 2))
            apart = (max(abs(row - o.row), abs(column - o.column)) for o in objects)
            if all(distance > 2 * radius + 1 for distance in apart):
                break
        else:
            raise ValueError(
                f"Six objects of radius {radius} do not fit into {size} x {size} pixels. Take a "
                "larger `size`."
            )
        shape = SHAPES[int(rng.integers(2))]
        objects.append(DrawnObject(color, shape, row, column, radius))
    picture = _drawn(objects, size)
    asked = []
    for kind, known in ((PLAIN, _plain(objects, size)), (RELATIONAL, _relations(objects))):
        for i in sorted(rng.permutation(len(known))[:count]):
            question, answer = known[i]
            asked.append(PictureQuestion(picture, question, answer, kind=kind))
    return Scene(picture, tuple(objects), tuple(asked))


def _drawn(objects: list[DrawnObject], size: int) -> np.ndarray:
    picture = np.full((size, size, 3), _BACKGROUND, "uint8")
    rows, columns = np.mgrid[:size, :size]
    for thing in objects:
        down, right = abs(rows - thing.row), abs(columns - thing.column)
        if thing.shape == "square":
            inside = np.maximum(down, right) <= thing.radius
        else:
            inside = np.hypot(down, right) <= thing.radius + 0.3
        picture[inside] = COLORS[thing.color]
    return picture


def _plain(objects: list[DrawnObject], size: int) -> list[tuple[str, str]]:
    """All questions that need one object, with their answers."""
    pairs = []
    for thing in objects:
        place = f"is the {thing.color} object on the"
        yes = {True: "yes", False: "no"}
        pairs += [
            (f"what is the shape of the {thing.color} object ?", thing.shape),
            (f"{place} left ?", yes[2 * thing.column + 1 < size]),
            (f"{place} top ?", yes[2 * thing.row + 1 < size]),
        ]
    return pairs


def _relations(objects: list[DrawnObject]) -> list[tuple[str, str]]:
    """All questions that need several objects, with their answers."""
    pairs = []
    for thing in objects:
        others = sorted(
            (math.hypot(o.row - thing.row, o.column - thing.column), o.shape)
            for o in objects
            if o is not thing
        )
        asked = f"what is the shape of the object {{}} the {thing.color} object ?"
        ends = {"closest to": others[:2], "farthest from": others[:-3:-1]}
        for relation, (one, other) in ends.items():
            if one[0] != other[0] or one[1] == other[1]:
                pairs.append((asked.format(relation), one[1]))
        same = sum(o.shape == thing.shape for o in objects)
        pairs.append((f"how many objects have the shape of the {thing.color} object ?", str(same)))
    return pairs


def questions_of(scenes: list[Scene]) -> list[PictureQuestion]:
    """Returns the questions about scenes, as `fit` of the task takes them.

    Args:
        scenes: What `sort_of_clevr` returned.

    Example:

    >>> len(questions_of(sort_of_clevr(2, questions=3)))
    12
    """
    return list(itertools.chain.from_iterable(scene.questions for scene in scenes))
