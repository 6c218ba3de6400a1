"""Drawn pictures whose captions are true, and whose things are at known places."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attn.files import atomic_write
from keras_attn.images.captioned_images import CaptionedImage, CaptionedImages
from keras_attn.records.reading import is_integer

COLOURS = {
    "red": (220, 45, 40),
    "green": (45, 165, 65),
    "blue": (50, 85, 225),
    "yellow": (235, 210, 55),
    "purple": (165, 65, 200),
    "white": (240, 240, 240),
}
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")
HELD_OUT = tuple(zip(COLOURS, SHAPES, strict=True))
"""Each colour and each shape once: a red circle, a green square, ... a white ring."""

_RELATIONS = (" above ", " left of ")  # by the axis along which the objects stand
# As a share of the picture, by the number of objects: the largest ones have room.
_RADIUS = {1: (0.14, 0.2), 2: (0.14, 0.2), 3: (0.11, 0.155)}
_TURN = np.pi / 9
_SUBPIXELS = 4


class DrawnObject(NamedTuple):
    """A thing in a drawn picture.

    Args:
        colour: A key of `COLOURS`.
        shape: One of `SHAPES`.
        box: `(top, left, bottom, right)` in pixels: it has rows `top` to `bottom - 1` and columns
            `left` to `right - 1`.

    Example:

    >>> thing = DrawnObject("red", "circle", (10, 20, 30, 40))
    >>> thing.covers(0.25, 0.5, image_size=64), thing.covers(0.25, 0.7, image_size=64)
    (True, False)
    """

    colour: str
    shape: str
    box: tuple[int, int, int, int]

    def covers(self, row: float, column: float, image_size: int) -> bool:
        """Whether a place is within the box.

        Args:
            row: From 0 (the top of the picture) to 1.
            column: From 0 (its left side) to 1.
            image_size: Rows and columns of the picture.
        """
        top, left, bottom, right = self.box
        return top <= row * image_size < bottom and left <= column * image_size < right


class DrawnPicture(NamedTuple):
    """A drawn picture, what it shows and where.

    Args:
        image: `(image_size, image_size, 3)` uint8.
        caption: Such as `"a red circle left of a blue square"`.
        objects: In the caption's order.

    Example:

    >>> [picture] = draw_shapes(1, seed=6, num_objects=2)
    >>> picture.caption, picture.of_words
    ('a yellow square left of a red triangle', [None, 0, 0, None, None, None, 1, 1])
    """

    image: np.ndarray
    caption: str
    objects: tuple[DrawnObject, ...]

    @property
    def of_words(self) -> list[int | None]:
        """For each word of the caption the number of the object it names, or None.

        Colours and shapes name an object; "a", "left", "of" and "above" do not.
        """
        found: list[int | None] = []
        number = -1
        for word in self.caption.split():
            number += word == "a"
            found.append(number if word in COLOURS or word in SHAPES else None)
        return found


def draw_shapes(
    count: int,
    seed: int = 0,
    kind: str = "seen",
    num_objects: int | Sequence[int] = (1, 2),
    image_size: int = 64,
    held_out: Collection[tuple[str, str]] = HELD_OUT,
) -> list[DrawnPicture]:
    """Draws pictures of coloured shapes, with captions that follow from them.

    A picture has one to three objects on a noisy grey ground, none of the same colour and shape as
    another. They stand side by side ("a red ring left of a blue square") or one over the other ("a
    red ring above a blue square"), and no two overlap; what they are named by is clear from the
    picture, so there is one right caption. Places, sizes, tones, and a turn by up to 20 degrees are
    random.

    Some combinations of colour and shape are held out: a model that was trained on the seen ones
    alone, and names the others, has learned what a colour is and what a shape is.

    Args:
        count: Number of pictures.
        seed: Any integer >= 0. Of the same seed, more pictures begin with the fewer ones.
        kind: `"seen"`: pictures without a held-out combination, for training. `"unseen"`: pictures
            with exactly one. `"any"`: all combinations alike.
        num_objects: Number of objects, or numbers of which one is drawn for each picture; 1 to 3.
        image_size: Rows and columns of a picture; at least 32.
        held_out: (colour, shape) pairs.

    Returns:
        `DrawnPicture`s.

    Raises:
        ValueError: For settings out of range, unknown colours and shapes, and nothing to draw.

    Example:

    >>> pictures = draw_shapes(3, seed=1, kind="unseen")
    >>> pictures[0].image.shape, pictures[0].image.dtype.name
    ((64, 64, 3), 'uint8')
    >>> for picture in pictures:
    ...     print(picture.caption)
    a white ring
    a green square above a red ring
    a white ring above a yellow square
    """
    for name, value, least in (
        ("count", count, 0),
        ("seed", seed, 0),
        ("image_size", image_size, 32),
    ):
        if not is_integer(value, least):
            raise ValueError(f"Expected `{name}` to be an integer >= {least}. Received: {value!r}.")
    if kind not in ("seen", "unseen", "any"):
        raise ValueError(f"Expected `kind` to be 'seen', 'unseen' or 'any'. Received: {kind!r}.")
    numbers = [num_objects] if isinstance(num_objects, int) else list(num_objects)
    if not numbers or not all(is_integer(number, 1) and number <= 3 for number in numbers):
        raise ValueError(f"Expected `num_objects` from 1 to 3. Received: {num_objects!r}.")
    every = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    unknown = [pair for pair in held_out if pair not in every]
    if unknown:
        raise ValueError(
            f"Expected `held_out` to be pairs of one of {list(COLOURS)} and one of {list(SHAPES)}. "
            f"Received: {unknown}."
        )
    seen = every if kind == "any" else [pair for pair in every if pair not in held_out]
    unseen = [pair for pair in every if pair in held_out] if kind == "unseen" else []
    if len(seen) < max(numbers) or (kind == "unseen" and not unseen):
        raise ValueError(
            f"Expected combinations to draw, for kind={kind!r} and {max(numbers)} objects. "
            f"Received: {len(held_out)} of {len(every)} held out."
        )
    pictures = []
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        size = numbers[rng.integers(len(numbers))]
        things = [seen[i] for i in rng.permutation(len(seen))[:size]]
        if kind == "unseen":
            things[rng.integers(size)] = unseen[rng.integers(len(unseen))]
        pictures.append(_draw(things, image_size, rng))
    return pictures


def save_drawn_shapes(
    pictures: Iterable[DrawnPicture], folder: str | os.PathLike[str], split: str = ""
) -> CaptionedImages:
    """Writes drawn pictures to PNG files, for what reads captioned pictures from files.

    Args:
        pictures: `DrawnPicture`s.
        folder: The folder; it is made where it is not there.
        split: What the pictures get as their side; the files' names begin with it.

    Returns:
        A `CaptionedImages`, in the order of the pictures.

    Example:

    >>> import tempfile
    >>> images = save_drawn_shapes(draw_shapes(2, seed=6), tempfile.mkdtemp(), "train")
    >>> Path(images[1].path).name, images[1].split
    ('train_000001.png', 'train')
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images = []
    for number, picture in enumerate(pictures):
        name = f"{split or 'shapes'}_{number:06}"
        path = folder / f"{name}.png"
        with atomic_write(path) as partial:
            partial.write_bytes(_png(picture.image))
        images.append(CaptionedImage(os.fspath(path), (picture.caption,), name, split))
    return CaptionedImages(images, os.fspath(folder), len(images))


def _draw(
    things: Sequence[tuple[str, str]], image_size: int, rng: np.random.Generator
) -> DrawnPicture:
    image = np.full((image_size, image_size, 3), rng.uniform(20, 110))
    axis = int(rng.integers(2))
    radii = rng.uniform(*_RADIUS[len(things)], len(things)) * image_size
    places = _places(radii, axis, image_size, rng)
    objects = []
    for (colour, shape), radius, (row, column) in zip(things, radii, places, strict=True):
        top, left = int(row - radius), int(column - radius)
        size = int(2 * radius) + 2
        part = image[top : top + size, left : left + size]  # less at the picture's edges
        turn = rng.uniform(-_TURN, _TURN)
        covered = _cover(shape, radius, (row - top, column - left), turn, size)
        covered = covered[: part.shape[0], : part.shape[1]]
        tone = np.array(COLOURS[colour]) + rng.uniform(-20, 20, 3)
        part += covered[..., None] * (tone - part)
        rows, columns = (np.flatnonzero((covered >= 0.5).any(axis=i)) for i in (1, 0))
        box = (top + rows[0], left + columns[0], top + rows[-1] + 1, left + columns[-1] + 1)
        objects.append(DrawnObject(colour, shape, tuple(int(edge) for edge in box)))
    image += rng.normal(0, 6, image.shape)
    caption = _RELATIONS[axis].join(f"a {colour} {shape}" for colour, shape in things)
    return DrawnPicture(np.clip(image.round(), 0, 255).astype("uint8"), caption, tuple(objects))


def _places(
    radii: np.ndarray, axis: int, image_size: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Centres (row, column), in order along an axis, nearer to each other across than along it."""
    room = image_size - 2 * radii.sum()
    before = np.cumsum(rng.dirichlet(np.ones(len(radii) + 1)))[:-1] * room
    along = before + 2 * np.cumsum(radii) - radii
    while True:
        across = rng.uniform(radii, image_size - radii)
        if np.all(np.abs(np.diff(across)) <= 0.75 * np.diff(along)):
            break
    places = (along, across) if axis == 0 else (across, along)
    return [(float(row), float(column)) for row, column in zip(*places, strict=True)]


def _cover(
    shape: str, radius: float, centre: tuple[float, float], turn: float, size: int
) -> np.ndarray:
    """Share that the shape covers of each pixel of a square part of the picture."""
    places = (np.arange(size * _SUBPIXELS) + 0.5) / _SUBPIXELS
    y, x = (places - centre[0])[:, None] / radius, (places - centre[1])[None] / radius
    x, y = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    inside = _inside(shape, x, y).reshape(size, _SUBPIXELS, size, _SUBPIXELS)
    return inside.mean(axis=(1, 3))


def _inside(shape: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether places are in a shape around (0, 0), within a circle of radius 1; y goes down."""
    if shape == "square":
        return np.maximum(np.abs(x), np.abs(y)) <= 0.8
    if shape == "cross":
        return (np.minimum(np.abs(x), np.abs(y)) <= 0.3) & (np.maximum(np.abs(x), np.abs(y)) <= 0.9)
    if shape == "triangle":
        return (y <= 0.5) & (np.abs(x) * np.sqrt(3) <= y + 1)
    radius = np.hypot(x, y)
    if shape == "circle":
        return radius <= 0.9
    if shape == "ring":
        return (radius <= 0.95) & (radius >= 0.5)
    # A star: ten triangles from the middle, each between a point and a notch.
    angle = np.abs((np.arctan2(x, -y) + np.pi / 5) % (2 * np.pi / 5) - np.pi / 5)
    point, notch = np.array([1.0, 0.0]), 0.42 * np.array([np.cos(np.pi / 5), np.sin(np.pi / 5)])
    edge, place = notch - point, (radius * np.cos(angle) - 1, radius * np.sin(angle))
    return edge[0] * place[1] - edge[1] * place[0] >= 0


def _png(image: np.ndarray) -> bytes:
    """A PNG file of RGB pixels."""
    rows, columns, _ = image.shape
    lines = np.concatenate([np.zeros((rows, 1), "uint8"), image.reshape(rows, -1)], axis=1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
