"""Checks of images given as paths, bytes or arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_attn.images.image_problems import ImageProblem
from keras_attn.images.loading import as_problem, check_on_error, load_image
from keras_attn.inputs import listed

Picture = str | os.PathLike[str] | bytes | np.ndarray


def check_picture(picture: Any, number: int) -> None:
    """Raises a TypeError if an image is not a path, bytes or an array; `number` is its position."""
    if not isinstance(picture, str | os.PathLike | bytes | np.ndarray):
        raise TypeError(
            "Expected a picture as a path, as the bytes of a file, or as an array (H, W, 3) of "
            f"uint8. Received: {type(picture).__name__} at position {number}."
        )


def as_pictures(images: Any) -> tuple[list[Picture], bool]:
    """Returns a list of images, and whether a single image was given."""
    array = isinstance(images, np.ndarray)
    if isinstance(images, str | os.PathLike | bytes) or (array and images.ndim < 4):
        return [images], True
    images = listed(images, "a picture (a path, bytes or an array) or a list of them")
    for number, image in enumerate(images):
        check_picture(image, number)
    return images, False


def read_pictures(
    pictures: Sequence[Picture], size: tuple[int, int], batch_size: int, on_error: str = "error"
) -> Iterator[tuple[list[int], np.ndarray, list[ImageProblem]]]:
    """Yields for each batch the indices and pixels of valid images, and the problems of others.

    With `on_error="error"`, the error of a broken image is raised. Otherwise, broken images are
    left out, and their problems are yielded.
    """
    check_on_error(on_error)
    for start in range(0, len(pictures), batch_size):
        numbers, whole, problems = [], [], []
        for number in range(start, min(start + batch_size, len(pictures))):
            picture = pictures[number]
            where = f"picture {number}"
            if isinstance(picture, str | os.PathLike):
                where = os.fspath(picture)
            try:
                whole.append(load_image(picture, size))
            except (OSError, ValueError) as error:
                if on_error == "error":
                    raise
                problems.append(as_problem(where, error))
            else:
                numbers.append(number)
        pixels = np.stack(whole) if whole else np.zeros((0, *size, 3), "uint8")
        yield numbers, pixels, problems


def distinct_pictures(pictures: Sequence[Picture]) -> tuple[list[Picture], list[int]]:
    """Returns the distinct images, and the index of each given image among them.

    Images are the same if their path, bytes or array object is the same.
    """

    def key(picture: Any) -> Any:
        if isinstance(picture, np.ndarray):
            return id(picture)
        return picture if isinstance(picture, bytes) else os.fspath(picture)

    keys = [key(picture) for picture in pictures]
    number = {name: n for n, name in enumerate(dict.fromkeys(keys))}
    different = dict(zip(keys, pictures, strict=True))
    return [different[name] for name in number], [number[name] for name in keys]
