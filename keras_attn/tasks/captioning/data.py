"""What a captioner is given: pictures in any form, captioned ones, and what training reads."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attn.batches import CachedRegions, PictureFiles
from keras_attn.corpora.download import cache_folder
from keras_attn.images import CaptionedImage, FeatureCache, check_images, load_image
from keras_attn.images.image_problems import (
    ImageProblem,
    describe_image_problems,
    refuse_image_problems,
)
from keras_attn.images.loading import as_problem, check_on_error
from keras_attn.inputs import listed
from keras_attn.models import ImageEncoder

Picture = str | os.PathLike[str] | bytes | np.ndarray
Captioned = CaptionedImage | tuple[Picture, str | Sequence[str]]


class CaptionedPictures(NamedTuple):
    """Pictures, and the captions of each.

    Example:

    >>> CaptionedPictures(["1.jpg"], [["A dog.", "A hound."]]).captions[0][1]
    'A hound.'
    """

    pictures: list[Picture]
    captions: list[list[str]]

    def names(self) -> list[Any]:
        """Returns a name for each: its path if all have different ones, else its position."""
        paths = [p for p in self.pictures if isinstance(p, str | os.PathLike)]
        names = [os.fspath(p).encode("utf-8", "surrogateescape") for p in paths]
        if len(set(names)) < len(self.pictures):
            return [*range(len(self.pictures))]
        return [name.decode("utf-8", "replace") for name in names]


def checked_captioned(images: Iterable[Captioned]) -> CaptionedPictures:
    """Returns the pictures and the captions of each, or raises an error that says what is wrong.

    Args:
        images: `CaptionedImage`s, or (picture, caption) or (picture, captions) pairs.

    Raises:
        ValueError: For none, for what is no such pair, and a picture without captions.

    Example:

    >>> checked_captioned([("1.jpg", "A dog."), ("2.jpg", ["A cat.", "Two cats."])]).captions
    [['A dog.'], ['A cat.', 'Two cats.']]
    """
    found = CaptionedPictures([], [])
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


def check_picture(picture: Any, number: int) -> None:
    """Raises a TypeError for what is neither a path nor bytes nor an array.

    Args:
        picture: Anything.
        number: Its position, for the message.

    Example:

    >>> check_picture("1.jpg", 0)
    """
    if not isinstance(picture, str | os.PathLike | bytes | np.ndarray):
        raise TypeError(
            "Expected a picture as a path, as the bytes of a file, or as an array (H, W, 3) of "
            f"uint8. Received: {type(picture).__name__} at position {number}."
        )


def as_pictures(images: Any) -> tuple[list[Picture], bool]:
    """Returns a list of pictures, and whether one was given that is no list.

    Args:
        images: A path, bytes or an array `(H, W, 3)`; or several: a list, an array `(n, H, W, 3)`.

    Raises:
        TypeError: For anything else.

    Example:

    >>> as_pictures("1.jpg"), as_pictures(["1.jpg"])
    ((['1.jpg'], True), (['1.jpg'], False))
    """
    array = isinstance(images, np.ndarray)
    if isinstance(images, str | os.PathLike | bytes) or (array and images.ndim < 4):
        return [images], True
    images = listed(images, "a picture (a path, bytes or an array) or a list of them")
    for number, image in enumerate(images):
        check_picture(image, number)
    return images, False


def read_pictures(
    pictures: Sequence[Picture],
    size: tuple[int, int],
    batch_size: int,
    on_error: str = "error",
) -> Iterator[tuple[list[int], np.ndarray, list[ImageProblem]]]:
    """Yields whole pictures, so many at a time: their numbers and pixels; and what was broken.

    Args:
        pictures: Paths, bytes or arrays.
        size: Rows and columns to which they are resized.
        batch_size: Most pictures at a time.
        on_error: `"error"`: a broken picture is one. `"skip"`: it is left out, and listed.

    Raises:
        OSError: A file is not there or cannot be read.
        ValueError: A picture is broken.

    Example:

    >>> pictures = [np.zeros((4, 4, 3), "uint8"), b"broken"]
    >>> [(numbers, problems)] = [
    ...     (n, p) for n, _, p in read_pictures(pictures, (2, 2), 8, on_error="skip")
    ... ]
    >>> numbers, problems[0].where
    ([0], 'picture 1')
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


class PictureArrays:
    """Pictures, or their regions, in memory: what `CaptionBatches` reads.

    Args:
        arrays: `(n, ...)`.

    Example:

    >>> PictureArrays(np.zeros((3, 4, 8))).read([2, 0]).shape
    (2, 4, 8)
    """

    def __init__(self, arrays: np.ndarray):
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one."""
        return self.arrays.shape[1:]

    def read(self, numbers: Iterable[int]) -> np.ndarray:
        """Those of some numbers, `(m, ...)`."""
        return self.arrays[np.fromiter(numbers, "int64")]


def region_cache(
    encoder: ImageEncoder, cache_dir: str | os.PathLike | None = None, dtype: str = "float16"
) -> FeatureCache:
    """Opens the cache of an encoder's regions.

    Args:
        encoder: An `ImageEncoder`.
        cache_dir: Its folder. By default one for this encoder in `KERAS_ATTN_CACHE`, or else in
            `~/.cache/keras_attn`.
        dtype: Of the regions on the disk.

    Raises:
        ValueError: If the folder is the cache of another encoder.

    Example:

    >>> import tempfile
    >>> encoder = small_cnn_encoder(8, filters=(4, 8))
    >>> cache = region_cache(encoder, tempfile.mkdtemp())
    >>> cache.key == encoder.fingerprint(), len(cache)
    (True, 0)
    """
    key = encoder.fingerprint()
    if cache_dir is None:
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        cache_dir = cache_folder() / "regions" / f"{encoder.name}-{digest[:16]}"
    return FeatureCache(cache_dir, key, dtype=dtype)


def picture_source(
    captioner: Any,
    pictures: Sequence[Picture],
    cache_dir: str | os.PathLike | None = None,
    verbose: Any = "auto",
) -> CachedRegions | PictureFiles | PictureArrays:
    """Makes what `CaptionBatches` reads: pictures if the encoder is trained, else their regions.

    Args:
        captioner: Whose encoder reads the pictures.
        pictures: All of them paths, or none.
        cache_dir: As `Captioner.dataset`.
        verbose: As `Captioner.dataset`.

    Raises:
        OSError: A file is not there or cannot be read.
        ValueError: For paths among pictures in memory, broken pictures, a cache of another encoder,
            and one where nothing is to be kept on the disk.

    Example:

    >>> tokenizer, encoder = BytePairTokenizer.train(["a"], 259), small_cnn_encoder(8, (4, 4))
    >>> captioner = Captioner(tokenizer, encoder, model={"units": 8})
    >>> picture_source(captioner, [np.zeros((8, 8, 3), "uint8")]).shape
    (4, 4)
    """
    paths = _paths(captioner, pictures, cache_dir)
    if paths is None:
        if captioner.train_encoder:
            [(_, pixels, _)] = read_pictures(pictures, captioner.encoder.image_size, len(pictures))
            return PictureArrays(pixels)
        return PictureArrays(captioner.regions(pictures))
    if captioner.train_encoder:
        return PictureFiles(paths, captioner.encoder.image_size)
    cache = captioner.feature_cache(cache_dir)
    captioner.fill_cache(cache, paths, verbose)
    return CachedRegions(cache, paths)


def _paths(
    captioner: Any, pictures: Sequence[Picture], cache_dir: str | os.PathLike | None
) -> list[str | os.PathLike] | None:
    """The pictures, if all are files; None if all are in memory. `cache_dir` must be for these."""
    paths = [picture for picture in pictures if isinstance(picture, str | os.PathLike)]
    in_memory = len(pictures) - len(paths)
    if paths and in_memory:
        raise ValueError(
            "Expected pictures that are all paths, or all arrays or bytes. Received: "
            f"{in_memory} of {len(pictures)} in memory."
        )
    if cache_dir is not None and not paths:
        raise ValueError("`cache_dir` is for pictures in files. Received: pictures in memory.")
    if cache_dir is not None and captioner.train_encoder:
        raise ValueError(
            "`cache_dir` keeps the regions of an encoder that is not trained. Received: it, with "
            "train_encoder=True."
        )
    return paths or None


def whole_pictures(
    captioner: Any,
    found: CaptionedPictures,
    on_error: str,
    cache_dir: str | os.PathLike | None = None,
    verbose: Any = 0,
) -> tuple[CaptionedPictures, list[ImageProblem]]:
    """Reads pictures before the training does, and leaves broken ones out.

    Those of an encoder that is not trained are encoded, and kept in its `FeatureCache`. Pictures in
    memory are named by their positions, from 0.

    Args:
        captioner: The captioner that reads them.
        found: The pictures and their captions.
        on_error: `"error"`: a broken picture is an error. `"skip"`: it is left out.
        cache_dir: As in `Captioner.dataset`.
        verbose: Whether to show the progress.

    Returns:
        The whole pictures with their captions, and what is wrong with the others.

    Raises:
        OSError: If a file is not there or cannot be read.
        ValueError: If a picture is broken, none is whole, or the cache is of another encoder.

    Example:

    >>> tokenizer, encoder = BytePairTokenizer.train(["a"], 259), small_cnn_encoder(8, (4, 4))
    >>> captioner = Captioner(tokenizer, encoder, train_encoder=True, model={"units": 8})
    >>> whole_pictures(captioner, checked_captioned([("nowhere.png", "A dog.")]), "error")
    Traceback (most recent call last):
        ...
    ValueError: pictures: expected whole pictures. Received: 1 of 1 that are not: ...
    """
    check_on_error(on_error)
    pictures = found.pictures
    paths = _paths(captioner, pictures, cache_dir)
    problems: list[ImageProblem] = []
    if paths is None:
        size, numbers = captioner.encoder.image_size, []
        for some, _, broken in read_pictures(pictures, size, 32, "skip"):
            numbers += some
            problems += broken
        if on_error == "error":
            refuse_image_problems("pictures", "whole pictures", len(pictures), problems)
    else:
        if captioner.train_encoder:
            problems = check_images(paths, on_error).problems
        else:
            cache = captioner.feature_cache(cache_dir)
            problems = captioner.fill_cache(cache, paths, verbose, on_error).problems
        bad = {os.path.abspath(problem.where) for problem in problems}
        numbers = [n for n, p in enumerate(paths) if os.path.abspath(os.fspath(p)) not in bad]
    if not numbers:
        described = describe_image_problems(problems)
        raise ValueError(
            f"Expected whole pictures. Received: none of {len(pictures):,}: {described}"
        )
    whole = CaptionedPictures([pictures[n] for n in numbers], [found.captions[n] for n in numbers])
    return whole, problems


def drawn(images: Iterable[Captioned], most: int, seed: int) -> list[Captioned]:
    """Draws at most so many examples at random, and returns them in their order."""
    images = listed(images, "(picture, captions) pairs", 2)
    if len(images) <= most:
        return images
    return [images[i] for i in sorted(random.Random(seed).sample(range(len(images)), most))]


def digest_of(train: Iterable[Captioned], dev: Iterable[Captioned], more: str = "") -> str:
    """Names the data of a run: files by their names and sizes, so that they can be moved.

    Args:
        train: Training examples.
        dev: Development examples; there may be none.
        more: What else belongs to the name.

    Returns:
        Hexadecimal digits.

    Example:

    >>> len(digest_of([(np.zeros((2, 2, 3), "uint8"), "black")], []))
    16
    """
    digest = hashlib.sha256(more.encode())
    for side in (train, dev):
        for picture, captions in zip(*checked_captioned(side), strict=True) if side else ():
            if isinstance(picture, str | os.PathLike):
                size = os.path.getsize(picture) if os.path.isfile(picture) else -1
                name = f"{os.path.basename(picture)}\x00{size}"
                digest.update(name.encode("utf-8", "surrogateescape"))
            else:
                digest.update(np.asarray(picture).tobytes())
            digest.update("\x00".join(["", *captions, ""]).encode("utf-8", "replace"))
        digest.update(b"\x01")
    return digest.hexdigest()[:16]
