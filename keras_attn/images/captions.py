"""Readers of captioned images: formats of known datasets, and tables.

They check that the image files exist, and report all problems of a dataset at once.
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
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.reading import LineReading, Location, find_file
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
    """Reads the JSON of Karpathy's splits, such as `dataset_flickr8k.json` and `dataset_coco.json`.

    For each image, the file contains the file name (and in COCO the folder), the part of the
    dataset, and the sentences. RSICD, Sydney-Captions and UCM-Captions also have this format. White
    space in captions becomes single spaces; otherwise, captions are unchanged.

    References:
        - [Karpathy and Fei-Fei, 2015](https://arxiv.org/abs/1412.2306).

    Args:
        path: The JSON file, plain or gzipped.
        image_dir: Folder of the images, or of their folders. Default: the folder of the file.
        split: One or several parts, such as `"train"`, or `("train", "restval")`, the usual
            training set of COCO. Default: all parts.
        **checks: Settings of all readers of captions.
            `on_error`: `"error"` (default) raises one ValueError for all bad images and captions,
                such as missing images, images without captions, and empty captions. `"skip"` leaves
                bad images and captions out, and lists them in `problems` of the result; an image
                keeps its other captions.
            `check_files`: Whether to check that the image files exist (default True). Use False to
                read only the captions.

    Returns:
        A `CaptionedImages`, a sequence of `CaptionedImage` with `problems`, `counts`,
        `split_counts`, `summary()`, and `check_images()`, which also reads the images.

    Raises:
        OSError: If the file or the folder is missing or cannot be read.
        ValueError: If the JSON is invalid or has another format; if `split` names a part that does
            not exist (the message lists the parts); if, with `on_error="error"`, images or captions
            are bad; or if no image is left.

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
    """Reads COCO's own JSON of captions, such as `annotations/captions_train2017.json`.

    Images and captions are in two lists, which are joined by image ids. The file does not contain
    the part of the dataset, so the `split` of each image is empty.

    References:
        - [Chen et al., 2015](https://arxiv.org/abs/1504.00325): Microsoft COCO Captions.

    Args:
        path: The JSON file, plain or gzipped.
        image_dir: Folder of the images, such as `train2017`. Default: the folder of the file.
        **checks: The settings `on_error` and `check_files`, as in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the order of the list of images.

    Raises:
        OSError: If the file or the folder is missing or cannot be read.
        ValueError: If the JSON is invalid or has another format; if, with `on_error="error"`,
            images or captions are bad, or a caption belongs to an image that is not in the list; or
            if no image is left.

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
        else:
            reading.entries += 1
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
    r"""Reads the captions of Flickr8k or Flickr30k in their original format.

    Each line of the file (`Flickr8k.token.txt`, `results_20130124.token`) has `NAME.jpg#0`, a tab
    and a caption. Further files such as `Flickr_8k.trainImages.txt` define the parts, with an image
    name on each line. Flickr8k has captions of one missing image, `2258277193_586949ec62.jpg.1`, so
    pass `on_error="skip"` if you do not pass a `split_file`.

    References:
        - [Hodosh et al., 2013](https://doi.org/10.1613/jair.3994): Flickr8k.

    Args:
        token_file: The file of captions, plain or gzipped.
        image_dir: Folder of the images (`Flicker8k_Dataset`). Default: the folder of the file.
        split_file: The file with the image names of one part. Default: all images.
        **checks: The settings `on_error` and `check_files`, as in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the order of the captions. The `split` of each image is the first of
        the words "train", "dev", "val" and "test" in the name of `split_file`; the name without
        `.txt` if it contains none of them; or empty without a `split_file`.

    Raises:
        OSError: If a file or the folder is missing or cannot be read.
        ValueError: If, with `on_error="error"`, a line has another format, images or captions are
            bad, or an image of `split_file` has no caption; or if no image is left.

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
            reading.entries += 1
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
    r"""Reads a table, JSON lines or Parquet of images and captions, one caption per row.

    Rows with the same image are joined. Cells may be in double quotes, except in `*.tsv` files and
    with `delimiter="\t"`. JSON objects and rows of Parquet files may also have a list of captions.
    Kaggle's versions of Flickr8k (`captions.txt`: image, caption) and Flickr30k (`results.csv`,
    with `delimiter="|"`, `image="image_name"`, `caption="comment"`) have this form.

    Args:
        path: The table, plain or gzipped: JSON lines if its name ends in `.jsonl`, `.ndjson` or
            `.json`, Parquet if it ends in `.parquet` or `.pq`, otherwise cells with a delimiter.
        image: Name or number (from 0) of the column of the images. Its cells are paths, relative to
            `image_dir` unless they are absolute.
        caption: Name or number of the column of the captions.
        image_dir: Folder of the images. Default: the folder of the table.
        delimiter: The character between cells. By default, one of `,`, `;`, `|` and tab is inferred
            from the header; without a header, it is a tab in `*.tsv` and a comma in other files.
        header: Whether the first row names the columns. Default: True if a column is given by name.
        **checks: The settings `on_error` and `check_files`, as in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the order of the images' first rows.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the table or the folder is missing or cannot be read.
        ValueError: If there is no such column (the message lists the columns), or a quotation mark
            is never closed; if, with `on_error="error"`, a row has a different number of cells, or
            images or captions are bad; or if no image is left.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "captions.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write('image,caption\n1.jpg,"A dog, running ."\n1.jpg,A dog .\n')
    >>> read_caption_csv(path, check_files=False)[0].captions
    ('A dog, running .', 'A dog .')
    """
    reading = CaptionReading(path, image_dir, **checks)
    rows = _CaptionRows(path)
    captions: dict[str, list[Any]] = {}
    left_out = []  # the images of the rows without a caption
    columns = {"image": image, "caption": caption}
    for number, cells in reading.cells(rows, path, columns, delimiter, header):
        name, texts = cells["image"], cells["caption"]
        if name is not None and not name.strip():
            rows.problem(number, "columns", "the picture is empty")
        elif name is not None and texts is None:
            left_out.append(name.strip())
        elif name is not None:
            captions.setdefault(name.strip(), []).extend(
                [texts] if isinstance(texts, str) else texts
            )
    reading.entries += rows.bad_lines - len(left_out) + len({*left_out} - {*captions})
    reading.take_over(rows)
    for name, texts in captions.items():
        reading.add(name, texts, name)
    return reading.finish()


class _CaptionRows(LineReading):
    """The lines of a table of captions, whose JSON objects may have a list of captions."""

    def json_value(self, number: int, name: str, value: object, key: str) -> object:
        if name == "caption" and isinstance(value, list) and value:
            return value
        return self.string(number, value, key)


def read_ucm_captions(
    folder: Location, split: str | Sequence[str] | None = None, **checks: Unpack[CaptionChecks]
) -> CaptionedImages:
    """Reads UCM-Captions: 2,100 aerial photographs of 21 kinds of places, with five captions each.

    The folder has `captions.json` (a list of `{"image", "split", "captions"}`) or `dataset.json`
    (the format of `read_karpathy`), and the images in `images`, `imgs` or the folder itself. The
    parts are "train" (1,680 images), "val" (210) and "test" (210). Captions are repetitive: only
    2,032 of 10,500 are distinct, and 55 % of the test captions also occur in the training part.

    References:
        - [Qu et al., 2016](https://doi.org/10.1109/CITS.2016.7546397).

    Args:
        folder: The folder.
        split: One or several parts. Default: all parts.
        **checks: The settings `on_error` and `check_files`, as in `read_karpathy`.

    Returns:
        A `CaptionedImages`, in the file's order.

    Raises:
        OSError: If the folder or its file is missing or cannot be read.
        ValueError: If the JSON is invalid or has another format; if `split` names a part that does
            not exist (the message lists the parts); if, with `on_error="error"`, images or captions
            are bad; or if no image is left.

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
    """The text of a sentence, from `tokens` if there is no `raw`."""
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
    """Reads entries with "image", "split", "captions", and optionally "id" and "folder"."""
    sides = Counter(str(e["split"]) for e in entries if isinstance(e, dict) and "split" in e)
    wanted = None if split is None else {split} if isinstance(split, str) else set(split)
    if wanted is not None and (not wanted or wanted - set(sides)):
        have = ", ".join(f"{name!r} ({count:,})" for name, count in sorted(sides.items()))
        raise ValueError(
            f"{os.fspath(path)}: expected `split` to be one of its splits: {have or 'none'}. "
            f"Received: {split!r}."
        )
    reading = CaptionReading(path, image_dir, **checks)
    for number, entry in enumerate(entries, start=1):
        where = f"entry {number:,}"
        if not _has_keys(reading, where, entry, "image", "captions"):
            reading.entries += 1
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
        else:
            reading.entries += 1
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
    reading.entries += decoding.bad_lines
    reading.take_over(decoding)
