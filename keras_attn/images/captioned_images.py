"""Captioned images, and the result of reading them from a file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any, NamedTuple, TypedDict, Unpack

from keras_attn.images.image_problems import (
    ImageProblem,
    count_image_problems,
    describe_image_problems,
)
from keras_attn.images.image_reading import ImageReading
from keras_attn.images.loading import MAX_PIXELS, check_images
from keras_attn.images.pictures import Picture, check_picture
from keras_attn.inputs import listed
from keras_attn.records.items import Items
from keras_attn.records.problems import many
from keras_attn.records.reading import Location


class CaptionedImage(NamedTuple):
    """An image and its captions.

    Args:
        path: The image file.
        captions: One or more captions.
        id: Id of the image in the dataset.
        split: The part of the dataset to which the image belongs, such as "train"; empty if
            unknown.

    Example:

    >>> image = CaptionedImage("1.jpg", ("A dog runs.", "A dog on a beach."), "1", "train")
    >>> len(image.captions), image.split
    (2, 'train')
    """

    path: str
    captions: tuple[str, ...]
    id: str = ""
    split: str = ""


@dataclass(frozen=True)
class CaptionedImages(Items[CaptionedImage]):
    """The captioned images of a file, a sequence of `CaptionedImage`s, and the file's problems.

    Args:
        images: The `CaptionedImage`s.
        where: Name of the file, for messages.
        entries: Number of images in the requested parts of the file, with those that were left out.
            A line or an entry whose image is unknown counts as an image.
        problems: The `ImageProblem`s of the images and captions that were left out.
        learnt: Training captions of a model, for counting generated captions that copy them; None
            if unknown.

    Example:

    >>> images = CaptionedImages([CaptionedImage("1.jpg", ("A dog.", "A hound."))], "a.json", 1)
    >>> len(images), images.paths, images.counts
    (1, ['1.jpg'], {'entries': 1, 'images': 1, 'captions': 2})
    >>> print(images.summary())
    a.json: 1 picture of 1, 2 captions.
    """

    images: list[CaptionedImage]
    where: str = "images"
    entries: int = 0
    problems: list[ImageProblem] = field(default_factory=list)
    learnt: list[str] | None = None

    @property
    def paths(self) -> list[str]:
        """The image files."""
        return [image.path for image in self.images]

    @property
    def captions(self) -> list[str]:
        """All captions of all images."""
        return [caption for image in self.images for caption in image.captions]

    @property
    def split_counts(self) -> dict[str, int]:
        """The number of images in each part, sorted by name."""
        return dict(sorted(Counter(image.split for image in self.images).items()))

    @property
    def counts(self) -> dict[str, int]:
        """A dict of `entries`, `images`, `captions`, and the number of problems of each kind.

        An image with two kinds of problems is counted under both kinds.
        """
        return {
            "entries": self.entries,
            "images": len(self.images),
            "captions": sum(len(image.captions) for image in self.images),
            **count_image_problems(self.problems),
        }

    def summary(self) -> str:
        """Returns the numbers of images, captions and problems, the number of images in each part,
        and the first bad images, as text."""
        captions = many(self.counts["captions"], "caption")
        text = f"{self.where}: {many(len(self.images), 'picture')} of {self.entries:,}, {captions}."
        if set(self.split_counts) - {""}:
            sides = ", ".join(
                f"{name or 'none'} {count:,}" for name, count in self.split_counts.items()
            )
            text += f" Sides: {sides}."
        if self.problems:
            text += f" Left out: {describe_image_problems(self.problems)}."
        return text

    def check_images(
        self, on_error: str = "error", max_pixels: int = MAX_PIXELS
    ) -> CaptionedImages:
        """Reads every image file, in order to find broken images before training.

        Args:
            on_error: `"error"` raises one ValueError for all broken, missing or too large images.
                `"skip"` leaves these images out, and lists them in `problems` of the result.
            max_pixels: Maximum number of pixels of an image; larger images count as broken.

        Returns:
            A `CaptionedImages` with the valid images.

        Raises:
            ImportError: If Pillow, from the extra `captioning`, is not installed.
            ValueError: If `on_error` is `"error"`, and images are broken, missing or too large.
        """
        checked = check_images(self.paths, on_error, max_pixels)
        broken = {problem.where for problem in checked.problems}
        return replace(
            self,
            images=[image for image in self.images if image.path not in broken],
            problems=[*self.problems, *checked.problems],
        )


class CaptionChecks(TypedDict, total=False):
    """Settings of all readers of captions, which `read_karpathy` describes."""

    on_error: str
    check_files: bool


class CaptionReading(ImageReading[CaptionedImage]):
    """Collects the captioned images of a file, and its problems."""

    expected = "pictures with captions"
    one = "picture with a caption"
    advice = " Without pictures the captions are read with check_files=False."

    def __init__(self, path: Location, image_dir: Location | None, **checks: Unpack[CaptionChecks]):
        super().__init__(path, image_dir, **checks)
        self.paths: set[str] = set()

    def has_type(self, where: str, value: object, kind: type | UnionType, name: str) -> bool:
        """Returns whether a value has the right type; records a problem if not."""
        if isinstance(value, kind) and not isinstance(value, bool):
            return True
        self.problem(where, "type", f"{name} is of type {type(value).__name__}")
        return False

    def add(
        self, name: str, captions: Sequence[Any], id: str = "", split: str = "", subfolder: str = ""
    ) -> None:
        """Adds an image file with its captions."""
        self.entries += 1
        given = [self.text(name, text, f"caption {n}") for n, text in enumerate(captions, start=1)]
        kept = [caption for caption in given if caption]
        if not kept:
            self.problem(name, "no_caption", f"none of {many(len(captions), 'caption')} is left")
        path = self._file(name, subfolder)
        if path is None or not kept:
            return
        if path in self.paths:
            self.problem(name, "twice", "an earlier entry has the same file")
            return
        self.paths.add(path)
        self.found.append(CaptionedImage(path, tuple(kept), id, split))

    def _file(self, name: str, subfolder: str) -> str | None:
        """The path of an image; None, with a problem noted, if it is bad."""
        choices = [self.place(name, subfolder), self.place(name)]
        if not self.check:
            return os.fspath(choices[0])
        for path in choices:
            if os.path.isfile(path):
                return os.fspath(path)
        self.problem(name, "missing", f"there is no {choices[0]}")
        return None

    def finish(self) -> CaptionedImages:
        """Returns the `CaptionedImages`.

        Raises a ValueError if problems are errors, or if no image is left.
        """
        self.refuse()
        return CaptionedImages(self.found, self.where, self.entries, self.problems)


Captioned = CaptionedImage | tuple[Picture, str | Sequence[str]]


class CaptionedPictures(NamedTuple):
    """Images, and the captions of each image."""

    pictures: list[Picture]
    captions: list[list[str]]
    learnt: list[str] | None = None
    """Training captions of a model; None if unknown."""

    def names(self) -> list[Any]:
        """Returns a name for each image: its path if all paths differ, otherwise its index."""
        paths = [p for p in self.pictures if isinstance(p, str | os.PathLike)]
        names = [os.fspath(p).encode("utf-8", "surrogateescape") for p in paths]
        if len(set(names)) < len(self.pictures):
            return [*range(len(self.pictures))]
        return [name.decode("utf-8", "replace") for name in names]


def checked_captioned(images: Iterable[Captioned]) -> CaptionedPictures:
    """Checks `CaptionedImage`s, or tuples (image, caption) or (image, captions)."""
    found = CaptionedPictures(
        [], [], images.learnt if isinstance(images, CaptionedImages) else None
    )
    given = listed(
        images, "(picture, captions) pairs", 2, "keras_attn.images.read_caption_csv(path)"
    )
    for number, image in enumerate(given):
        if not isinstance(image, tuple | list) or len(image) < 2:
            raise ValueError(
                "Expected `CaptionedImage`s or (picture, captions) pairs. Received: "
                f"{type(image).__name__} at position {number}."
            )
        picture, captions = image[:2]
        captions = [captions] if isinstance(captions, str) else list(captions)
        if not captions or not all(isinstance(c, str) and c.strip() for c in captions):
            raise ValueError(
                "Expected one or more captions, strings that are not empty, for each picture. "
                f"Received: {captions!r} at position {number}."
            )
        check_picture(picture, number)
        found.pictures.append(picture)
        found.captions.append(captions)
    if not found.pictures:
        raise ValueError("Expected at least one picture with captions. Received: none.")
    return found
