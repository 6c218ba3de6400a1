"""Readers of captioned pictures: the layouts that the known data sets come in, and tables.

All of them look for the pictures, and tell all that is wrong with a data set at once.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from keras_attn.images.captioned_images import CaptionChecks, CaptionedImages, CaptionReading
from keras_attn.images.image_reading import list_of, lists_of, load_json
from keras_attn.records.reading import LineReading, Location, find_file, open_lines
from keras_attn.records.tables import Column

_TOKEN_LINE = re.compile(r"(.+?)#\d+\t(.*)", re.DOTALL)
_SIDE = re.compile(r"(train|dev|val|test)", re.IGNORECASE)
_UCM_FILES = ("captions.json", "dataset.json")
_UCM_FOLDERS = ("images", "imgs")


def read_karpathy(
    path: Location,
    image_dir: Location | None = None,
    split: str | Sequence[str] | None = None,
    **checks: Unpack[CaptionChecks],
) -> CaptionedImages:
    """Read the JSON of Karpathy's splits: `dataset_flickr8k.json`, `dataset_coco.json` and so on.

    It has for each picture its file name (COCO also its folder), its side and its sentences.
    RSICD, Sydney-Captions and UCM-Captions come in this layout too. White space in captions becomes
    single spaces; they stay as they are otherwise.

    References:
        - [Karpathy and Fei-Fei, 2015](https://arxiv.org/abs/1412.2306).

    Args:
        path: The JSON file, plain or gzipped.
        image_dir: Folder of the pictures, or of their folders. Default: that of the file.
        split: Side or sides, such as `"train"`, or `("train", "restval")` for COCO's usual
            training. Default: all of them.
        **checks: What all readers of captions have.
            `on_error`: `"error"` (default): pictures that are not there or have no caption, and
            captions that are empty, are a ValueError, one for all of them. `"skip"`: they are left
            out, and listed in the `problems` of what is returned; a picture keeps its other
            captions.
            `check_files`: Whether to look for the pictures (default True). Without them the
            captions alone can be read.

    Returns:
        A `CaptionedImages`: a sequence of `CaptionedImage` with `problems`, `counts`,
        `split_counts`, `summary()`, and `check_images()`, which reads the pictures too.

    Raises:
        OSError: The file or the folder is not there or cannot be read.
        ValueError: The JSON is broken or has another layout; there is no such side (the message
            has those that are there); pictures or captions as said.

    Example:

    >>> import json, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "dataset_toy.json")
    >>> sentences = [{"raw": "A dog runs ."}, {"raw": "A dog  outside ."}]
    >>> entry = {"filename": "1.jpg", "imgid": 0, "split": "train", "sentences": sentences}
    >>> with open(path, "w") as file:
    ...     json.dump({"dataset": "toy", "images": [entry]}, file)
    >>> images = read_karpathy(path, split="train", check_files=False)
    >>> images[0].captions, images[0].id
    (('A dog runs .', 'A dog outside .'), '0')
    """
    return _read_karpathy(load_json(path), path, image_dir, split, checks)


def read_coco_captions(
    path: Location, image_dir: Location | None = None, **checks: Unpack[CaptionChecks]
) -> CaptionedImages:
    """Read COCO's own JSON of captions: `annotations/captions_train2017.json` and its like.

    Its pictures and its captions stand in two lists, joined by the pictures' ids. A file has one
    side, which is not written in it: `split` is empty.

    References:
        - [Chen et al., 2015](https://arxiv.org/abs/1504.00325): Microsoft COCO Captions.

    Args:
        path: The JSON file, plain or gzipped.
        image_dir: Folder of the pictures, such as `train2017`. Default: that of the file.
        **checks: As in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the order of the list of pictures.

    Raises:
        OSError: The file or the folder is not there or cannot be read.
        ValueError: As in `read_karpathy`; also captions of pictures that are not in the list.

    Example:

    >>> import json, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "captions_toy.json")
    >>> captions = [{"id": n, "image_id": 9, "caption": text} for n, text in enumerate("ab")]
    >>> with open(path, "w") as file:
    ...     json.dump({"images": [{"id": 9, "file_name": "9.jpg"}], "annotations": captions}, file)
    >>> read_coco_captions(path, check_files=False)[0].captions
    ('a', 'b')
    """
    data = load_json(path)
    pictures, annotations = lists_of(path, data, "images", "annotations")
    reading = CaptionReading(path, image_dir, **checks)
    captions: dict[Any, list[Any]] = {}
    names: list[tuple[Any, str]] = []
    for number, entry in enumerate(pictures, start=1):
        where = f"picture {number:,}"
        if (
            _has_keys(reading, where, entry, "id", "file_name")
            and reading.has_type(where, entry["id"], int | str, "the picture's id")
            and reading.has_type(where, entry["file_name"], str, "the picture's name")
        ):
            captions[entry["id"]] = []
            names.append((entry["id"], entry["file_name"]))
    for number, entry in enumerate(annotations, start=1):
        where = f"caption {number:,}"
        if not (
            _has_keys(reading, where, entry, "image_id", "caption")
            and reading.has_type(where, entry["image_id"], int | str, "the picture's id")
        ):
            continue
        if entry["image_id"] in captions:
            captions[entry["image_id"]].append(entry["caption"])
        else:
            reading.problem(where, "unknown", f"of picture {entry['image_id']!r}")
    for key, name in names:
        reading.add(name, captions[key], str(key))
    return reading.finish()


def read_flickr8k(
    token_file: Location,
    image_dir: Location | None = None,
    split_file: Location | None = None,
    **checks: Unpack[CaptionChecks],
) -> CaptionedImages:
    r"""Read the captions of Flickr8k or Flickr30k, as their authors give them.

    A line is `NAME.jpg#0`, a tab and a caption (`Flickr8k.token.txt`, `results_20130124.token`).
    The sides are further files with a picture's name on each line (`Flickr_8k.trainImages.txt`).
    Flickr8k's captions name one picture that it does not have, `2258277193_586949ec62.jpg.1`:
    without a `split_file` give `on_error="skip"`.

    References:
        - [Hodosh et al., 2013](https://doi.org/10.1613/jair.3994): Flickr8k.

    Args:
        token_file: The captions, plain or gzipped.
        image_dir: Folder of the pictures (`Flicker8k_Dataset`). Default: that of the file.
        split_file: The names of one side. Default: all pictures.
        **checks: As in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the order of the captions' file. `split` is "train", "dev" or
        "test" by the name of `split_file`; without such a word it is that name.

    Raises:
        OSError: A file or the folder is not there or cannot be read.
        ValueError: As in `read_karpathy`; also lines of another kind, and pictures of `split_file`
            that have no caption.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "toy.token.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1.jpg#0\tA dog .\n1.jpg#1\tA brown dog .\n2.jpg#0\tA cat .\n")
    >>> images = read_flickr8k(path, check_files=False)
    >>> images[0].captions, len(images)
    (('A dog .', 'A brown dog .'), 2)
    """
    reading = CaptionReading(token_file, image_dir, **checks)
    captions: dict[str, list[Any]] = {}
    for where, line in _lines(reading, token_file):
        if found := _TOKEN_LINE.fullmatch(line):
            captions.setdefault(found[1], []).append(found[2])
        else:
            reading.problem(where, "columns", f"no NAME#NUMBER, tab, caption in {line[:60]!r}")
    side = ""
    names: Sequence[str] = list(captions)
    if split_file is not None:
        stem = Path(split_file).name
        found = _SIDE.search(stem)
        side = found[1].lower() if found else stem.removesuffix(".txt")
        wanted = {line.strip() for _, line in _lines(reading, split_file)}
        names = [name for name in captions if name in wanted]
        names += sorted(wanted - set(captions))
    for name in names:
        reading.add(name, captions.get(name, []), name, side)
    return reading.finish()


def read_caption_csv(
    path: Location,
    image: Column = "image",
    caption: Column = "caption",
    image_dir: Location | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    **checks: Unpack[CaptionChecks],
) -> CaptionedImages:
    r"""Read a table of pictures and captions, one caption a row; rows of one picture are joined.

    Cells may be quoted, as in `read_labelled`. This is how Kaggle gives Flickr8k (`captions.txt`:
    image, caption) and Flickr30k (`results.csv`, with `delimiter="|"`, `image="image_name"`,
    `caption="comment"`).

    Args:
        path: The table, plain or gzipped.
        image: Name of the pictures' column, or its number (from 0). Its cells are paths, within
            `image_dir` unless they are absolute.
        caption: Name or number of the captions' column.
        image_dir: Folder of the pictures. Default: that of the table.
        delimiter: The one character between cells. Default: `,`, `;`, `|` or a tab, inferred from
            the names of the columns; otherwise, a tab in `*.tsv` and a comma in all other files.
        header: Whether the first row names the columns. Default: True where a column is given by
            its name.
        **checks: As in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the order of the pictures' first rows.

    Raises:
        OSError: The table or the folder is not there or cannot be read.
        ValueError: As in `read_karpathy`; also rows with another number of cells, no such column
            (the message has those that are there), a quotation mark that is never closed.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "captions.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write('image,caption\n1.jpg,"A dog, running ."\n1.jpg,A dog .\n')
    >>> read_caption_csv(path, check_files=False)[0].captions
    ('A dog, running .', 'A dog .')
    """
    reading = CaptionReading(path, image_dir, **checks)
    rows = LineReading(path)
    captions: dict[str, list[Any]] = {}
    columns = {"image": image, "caption": caption}
    for number, cells in reading.cells(rows, path, columns, delimiter, header):
        name = cells["image"]
        if name is not None and not name.strip():
            rows.problem(number, "columns", "the picture is empty")
        elif name is not None and None not in cells.values():
            captions.setdefault(name.strip(), []).append(cells["caption"])
    reading.take_over(rows)
    for name, texts in captions.items():
        reading.add(name, texts, name)
    return reading.finish()


def read_ucm_captions(
    folder: Location, split: str | Sequence[str] | None = None, **checks: Unpack[CaptionChecks]
) -> CaptionedImages:
    """Read UCM-Captions: 2,100 aerial photographs of 21 kinds of places, five captions each.

    The folder has `captions.json` (a list of `{"image", "split", "captions"}`) or `dataset.json`
    (as `read_karpathy` has it), and the pictures in `images` or `imgs`. The sides are "train"
    (1,680), "val" (210) and "test" (210). Its captions repeat: 10,500 are 2,032 different ones,
    and 55 % of the test side's stand word by word in the training side.

    References:
        - [Qu et al., 2016](https://doi.org/10.1109/CITS.2016.7546397).

    Args:
        folder: The folder.
        split: Side or sides. Default: all of them.
        **checks: As in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the file's order.

    Raises:
        OSError: The folder or its file is not there or cannot be read.
        ValueError: As in `read_karpathy`.

    Example:

    >>> import json, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> entries = [{"image": "1.tif", "split": "val", "captions": ["Some trees ."]}]
    >>> with open(os.path.join(folder, "captions.json"), "w") as file:
    ...     json.dump(entries, file)
    >>> read_ucm_captions(folder, "val", check_files=False)[0].captions
    ('Some trees .',)
    """
    base = Path(folder)
    path = find_file(base, _UCM_FILES, gzipped=False)
    inner = [base / name for name in _UCM_FOLDERS if (base / name).is_dir()]
    image_dir = inner[0] if inner else base
    data = load_json(path)
    if isinstance(data, dict):
        return _read_karpathy(data, path, image_dir, split, checks)
    entries = list_of(path, data, "pictures")
    return _read_entries(entries, path, image_dir, split, checks)


def _read_karpathy(
    data: dict[str, Any],
    path: Location,
    image_dir: Location | None,
    split: str | Sequence[str] | None,
    checks: CaptionChecks,
) -> CaptionedImages:
    (pictures,) = lists_of(path, data, "images")
    entries: list[Any] = []
    for entry in pictures:
        if isinstance(entry, dict):
            sentences = entry.get("sentences")
            if isinstance(sentences, list):
                entry = {**entry, "sentences": [_sentence(sentence) for sentence in sentences]}
            keys = {"filename": "image", "sentences": "captions", "filepath": "folder"}
            entry = {keys.get(key, key): value for key, value in entry.items()}
            if "id" not in entry:
                entry["id"] = entry.get("cocoid", entry.get("imgid", ""))
        entries.append(entry)
    return _read_entries(entries, path, image_dir, split, checks)


def _sentence(sentence: object) -> object:
    """The text of a sentence; `tokens` where there is no `raw`."""
    if not isinstance(sentence, dict):
        return sentence
    tokens = sentence.get("tokens")
    if "raw" not in sentence and isinstance(tokens, list):
        return " ".join(map(str, tokens))
    return sentence.get("raw")


def _read_entries(
    entries: Sequence[Any],
    path: Location,
    image_dir: Location | None,
    split: str | Sequence[str] | None,
    checks: CaptionChecks,
) -> CaptionedImages:
    """Read entries of "image", "split", "captions", and perhaps "id" and "folder"."""
    sides = Counter(str(e["split"]) for e in entries if isinstance(e, dict) and "split" in e)
    wanted = None if split is None else {split} if isinstance(split, str) else set(split)
    if wanted is not None and (not wanted or wanted - set(sides)):
        have = ", ".join(f"{name!r} ({count:,})" for name, count in sorted(sides.items()))
        raise ValueError(
            f"{os.fspath(path)}: expected `split` to be among its sides, {have or 'none'}. "
            f"Received: {split!r}."
        )
    reading = CaptionReading(path, image_dir, **checks)
    for number, entry in enumerate(entries, start=1):
        where = f"entry {number:,}"
        if not _has_keys(reading, where, entry, "image", "captions"):
            continue
        side = str(entry.get("split", ""))
        if wanted is not None and side not in wanted:
            continue
        name, folder = entry["image"], entry.get("folder", "")
        if (
            reading.has_type(where, name, str, "the picture's name")
            and reading.has_type(where, folder, str, "the picture's folder")
            and reading.has_type(name, entry["captions"], list, "the captions' value")
        ):
            reading.add(name, entry["captions"], str(entry.get("id", name)), side, folder)
    return reading.finish()


def _has_keys(reading: CaptionReading, where: str, entry: dict[str, Any], *keys: str) -> bool:
    if not reading.has_type(where, entry, dict, "it"):
        return False
    missing = [key for key in keys if key not in entry]
    if missing:
        have = ", ".join(map(repr, entry)) or "none"
        reading.problem(where, "keys", f"no {missing[0]!r} among {have[:200]}")
    return not missing


def _lines(reading: CaptionReading, path: Location) -> Iterator[tuple[str, str]]:
    """The lines of a text that are not blank, each with its name for messages."""
    decoding = LineReading(os.fspath(path))
    with open_lines(path) as lines:
        for number, raw in enumerate(lines, start=1):
            line = decoding.decode(number, raw, "line") if raw.strip() else None
            if line is not None:
                yield f"line {number:,}", line
    reading.take_over(decoding)
