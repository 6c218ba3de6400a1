"""Drawn scenes: every answer again, from the pixels."""

import doctest
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2]))

from examples import sort_of_clevr as module
from examples.sort_of_clevr import COLORS, questions_of, sort_of_clevr


def read(picture):
    """Shape and centre of each object, by the pixels of its color."""
    found = {}
    for color, value in COLORS.items():
        rows, columns = np.nonzero((picture == value).all(axis=2))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        shape = "square" if len(rows) == height * width else "circle"
        found[color] = (shape, rows.mean(), columns.mean())
    return found


def answer(question, objects, size):
    """An answer out of what is seen."""
    words = question.split()
    (color,) = set(words) & set(COLORS)
    shape, row, column = objects[color]
    if "left" in words or "top" in words:
        return "yes" if (column if "left" in words else row) < (size - 1) / 2 else "no"
    if words[0] == "how":
        return str([other for other, *_ in objects.values()].count(shape))
    if "closest" in words or "farthest" in words:
        others = [
            ((row - r) ** 2 + (column - c) ** 2, s)
            for name, (s, r, c) in objects.items()
            if name != color
        ]
        return (min if "closest" in words else max)(others)[1]
    return shape


def test_answers_are_those_of_the_pixels():
    scenes = sort_of_clevr(20, seed=5)
    kinds = [q.kind for q in questions_of(scenes)]
    assert kinds.count("relational") == kinds.count("not relational") == 200
    for scene in scenes:
        objects = read(scene.picture)
        for thing in scene.objects:
            assert objects[thing.color] == (thing.shape, thing.row, thing.column)
            top, left, bottom, right = thing.box
            inside = (scene.picture[top:bottom, left:right] == COLORS[thing.color]).all(axis=2)
            assert inside.sum() == (scene.picture == COLORS[thing.color]).all(axis=2).sum()
        assert len({q.question for q in scene.questions}) == 20
        for question in scene.questions:
            assert question.picture is scene.picture
            assert answer(question.question, objects, 64) == question.answer, question.question
            assert scene.named(question.question).color in question.question.split()


def test_the_seed_names_the_scenes():
    few, many = sort_of_clevr(2, seed=1, questions=3), sort_of_clevr(4, seed=1, questions=3)
    assert [s.objects for s in few] == [s.objects for s in many[:2]]
    assert [q[1:] for q in few[1].questions] == [q[1:] for q in many[1].questions]
    assert sort_of_clevr(1, seed=2)[0].objects != few[0].objects
    assert not np.array_equal(many[0].picture, many[1].picture)


def test_wrong_numbers():
    for settings, message in [
        ({"count": 0}, "`count`"), ({"count": 1, "questions": 16}, "at most 15"),
        ({"count": 1, "size": 16}, "do not fit"), ({"count": 1, "seed": -1}, "`seed`"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            sort_of_clevr(**settings)


def test_examples_in_docstrings():
    assert doctest.testmod(module).failed == 0
