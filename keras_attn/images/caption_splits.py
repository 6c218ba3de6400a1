"""Leak-free splits of captioned images."""

from __future__ import annotations

import hashlib
import os
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from keras_attn.images.captioned_images import CaptionedImage
from keras_attn.images.pictures import Picture
from keras_attn.input_files import read_input
from keras_attn.records.splitting import draw, together

T = TypeVar("T", bound=tuple[Any, ...])


def refuse_shared(train: Sequence[CaptionedImage], dev: Sequence[CaptionedImage]) -> None:
    """Raises a ValueError if development images are also training images."""
    shared = {os.path.realpath(image.path) for image in train}
    shared &= {os.path.realpath(image.path) for image in dev}
    if shared:
        raise ValueError(
            "Expected development pictures that are not used for training. Received: "
            f"{len(dev):,} development pictures, {len(shared):,} of which are also training "
            f"pictures, such as {min(shared)}."
        )


def split_captioned(images: Sequence[T], share: float, seed: int) -> tuple[list[T], list[T]]:
    """Splits captioned images, or (image, captions) pairs, at random; images with the same bytes
    stay together."""
    sizes = [_size(image[0]) for image in images]
    count = Counter(sizes)

    def key(number: int) -> list[str]:
        if count[sizes[number]] == 1:  # no other file can be the same
            return []
        return [hashlib.sha256(_contents(images[number][0])).hexdigest()]

    groups = together(range(len(images)), key)
    random.Random(seed).shuffle(groups)
    wanted = max(1, round(share * len(images)))
    drawn = {number for group in draw(groups, wanted, wanted)[0] for number in group}
    if not drawn or len(drawn) == len(images):
        raise ValueError(
            "Expected at least two different pictures, so that some can be held out for "
            f"development. Received: {len(images):,} pictures, {len(groups):,} of which are "
            "different."
        )
    sides: tuple[list[T], list[T]] = ([], [])
    for number, image in enumerate(images):
        sides[number in drawn].append(image)
    return sides


def _contents(picture: Picture) -> bytes:
    if isinstance(picture, bytes | np.ndarray):
        return bytes(picture)
    return read_input(picture, "a picture")


def _size(picture: Picture) -> int:
    if isinstance(picture, bytes | np.ndarray):
        return len(bytes(picture))
    return os.path.getsize(picture)
