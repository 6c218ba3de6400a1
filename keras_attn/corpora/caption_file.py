"""Files of captioned images of any format, and emoji with their names."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from keras_attn.corpora.emoji_pictures import EMOJI_SIDES, read_emoji_pictures
from keras_attn.images import (
    CaptionedImages,
    read_caption_csv,
    read_coco_captions,
    read_flickr8k,
    read_karpathy,
    read_ucm_captions,
)
from keras_attn.images.captioned_images import CaptionChecks
from keras_attn.records.encodings import Location, expanded
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.rows import has_rows

WITH_SIDES = ("karpathy", "ucm", "emoji")
"""File formats that may contain the part of each image."""
_FLICKR_LINE = re.compile(rb"[^\t]+#\d+\t")


@dataclass(frozen=True)
class CaptionFile:
    """A file of captioned images: path, format and reading options."""

    path: Location
    """The file, or the folder of UCM-Captions; emoji are used if empty. With `format="emoji"`, the
    folder of their wheels."""
    image_dir: str = ""
    """Folder of the images; the folder of the file if empty."""
    names: str = ""
    """`"flickr8k"`: a file with the image names of one part; all images if empty."""
    format: str = "auto"
    image: str = "image"
    """`"csv"`: column of the images."""
    caption: str = "caption"
    """`"csv"`: column of the captions."""
    delimiter: str = ""
    """`"csv"`: character between columns; if empty, inferred from the column names."""
    emoji_style: str = "twitter"
    """Style of the emoji."""
    on_error: str = "error"
    """Treatment of missing images, as in `read_karpathy`."""

    @cached_property
    def kind(self) -> str:
        """The format: `"karpathy"`, `"coco"`, `"flickr8k"`, `"csv"`, `"ucm"` or `"emoji"`."""
        if self.format != "auto":
            return self.format
        if not self.path:
            return "emoji"
        if has_rows(self.path):
            return "csv"
        path = Path(self.path).expanduser()
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

    @cached_property
    def sides(self) -> dict[str, int]:
        """The number of images in each part of the file, without checking that they exist."""
        if self.kind == "emoji":
            return dict.fromkeys(EMOJI_SIDES, 1)
        if self.kind not in WITH_SIDES:
            return {}
        counts = self._read("", {"on_error": "skip", "check_files": False}).split_counts
        return {} if set(counts) == {""} else counts

    def read(self, split: str = "", check_files: bool = True) -> CaptionedImages:
        """Reads the images of a part (of all parts if `split` is empty) and their captions."""
        return self._read(split, {"on_error": self.on_error, "check_files": check_files})

    def _read(self, split: str, checks: CaptionChecks) -> CaptionedImages:
        sides = [side.strip() for side in split.split(",") if side.strip()] or None
        path, image_dir, names = map(expanded, (self.path, self.image_dir, self.names))
        folder = image_dir or None
        if self.kind == "emoji":
            return read_emoji_pictures(self.emoji_style, os.fspath(path), sides)
        if self.kind == "ucm":
            return read_ucm_captions(path, sides, **checks)
        if self.kind == "karpathy":
            return read_karpathy(path, folder, sides, **checks)
        if self.kind == "coco":
            return read_coco_captions(path, folder, **checks)
        if self.kind == "flickr8k":
            return read_flickr8k(path, folder, names or None, **checks)
        delimiter = self.delimiter or None
        return read_caption_csv(path, self.image, self.caption, folder, delimiter, **checks)
