"""Base of readers of images with captions or questions."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from keras_attn.images import image_problems
from keras_attn.input_files import read_input
from keras_attn.records import reading
from keras_attn.records.columns import COLUMN_SUFFIXES, read_columns
from keras_attn.records.encodings import encoding_of
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.reading import LineReading, Location
from keras_attn.records.tables import Column, Table
from keras_attn.white_space import normalize_white_space

T = TypeVar("T")


def picture_place(folder: Path, name: str) -> Path:
    """Returns the path of an image in a folder; Windows backslashes also separate folders."""
    path = folder / name
    return folder / name.replace("\\", "/") if "\\" in name and not path.is_file() else path


class ImageReading(Generic[T]):
    """Base class of readers, which collects the problems of a file about images."""

    kinds = image_problems.IMAGE_PROBLEMS
    expected: ClassVar[str]
    one: ClassVar[str]
    advice: ClassVar[str] = ""

    def __init__(
        self,
        path: Location,
        image_dir: Location | None,
        on_error: str = "error",
        check_files: bool = True,
        check_pictures: bool = True,
    ):
        reading.check_on_error(on_error)
        self.where = os.fspath(path)
        self.folder = Path(path).parent if image_dir is None else Path(image_dir)
        self.on_error = on_error
        self.check = check_files and check_pictures
        self.entries = 0
        self.found: list[T] = []
        self.problems: list[image_problems.ImageProblem] = []
        if self.check and not self.folder.is_dir():
            raise NotADirectoryError(
                "Expected `image_dir` to be the folder of the pictures. Received: "
                f"{self.folder}, which is not a folder.{self.advice}"
            )

    def problem(self, where: str, kind: str, what: str) -> None:
        """Records a problem of an image, a line or an entry."""
        self.problems.append(image_problems.ImageProblem(where, kind, what))

    def text(self, where: str, value: object, name: str) -> str | None:
        """Returns a normalized string; if it is empty, records a problem and returns None."""
        if not isinstance(value, str):
            self.problem(where, "type", f"{name} is of type {type(value).__name__}")
            return None
        text = normalize_white_space(value)
        if reading.is_blank(text):
            self.problem(where, "empty", f"{name} is empty")
        elif not reading.is_unicode(text):
            self.problem(where, "encoding", f"{name} has half a surrogate pair")
        else:
            return text
        return None

    def place(self, name: str, subfolder: str = "") -> Path:
        """Returns the path of an image in the folder; Windows backslashes also separate folders."""
        return picture_place(self.folder / subfolder, name)

    def cells(
        self,
        rows: LineReading,
        path: Location,
        columns: dict[str, Column],
        delimiter: str | None,
        header: bool | None,
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the number of each row of a table or of JSON lines, and its cells in `columns`."""
        if rows.rows or COLUMN_SUFFIXES.get(reading.ending(path)) == "json_lines":
            yield from read_columns(path, columns, rows, delimiter=delimiter, header=header)
            return
        usual = "\t" if reading.ending(path) == ".tsv" else ","
        quotes = (delimiter or usual) != "\t"
        table = Table(columns, delimiter, quotes, header, usual=usual)
        with open_lines(path) as lines:
            for number, cells in table.cells(rows, lines):
                self.where = rows.where
                yield number, cells

    def take_over(self, lines: LineReading) -> None:
        """Records the problems of the lines of a file."""
        for number, kind, what in lines.problems:
            self.problem(f"{lines.unit} {number:,}", kind, what)

    def refuse(self) -> None:
        """Raises an error about all problems if they are errors or nothing is left."""
        if self.on_error == "error":
            given = (self.where, self.expected, self.entries, self.problems, self.kinds)
            image_problems.refuse_image_problems(*given)
        if not self.found:
            described = image_problems.describe_image_problems(self.problems, self.kinds)
            raise ValueError(
                f"{self.where}: expected at least one {self.one}. Received: none of "
                f"{self.entries:,}{': ' * bool(described)}{described}."
            )


def load_json(path: Location) -> Any:
    """Returns the JSON value of a file, plain or gzipped."""
    raw = read_input(path, "a JSON file")
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return json.loads(raw.decode(encoding_of(path) or "utf-8-sig"))
    except (ValueError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{os.fspath(path)}: expected one whole JSON value in UTF-8. Received: {error}."
        ) from error


def lists_of(path: Location, data: object, *keys: str) -> list[list[Any]]:
    """Returns the list under each key of a JSON object; raises an error if one is missing."""
    if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in keys):
        what = f"a {type(data).__name__}"
        if isinstance(data, dict):
            what = f"one with the keys {', '.join(map(repr, data))[:200] or 'none'}"
        raise ValueError(
            f"{os.fspath(path)}: expected a JSON object with "
            f"{' and '.join(f'a list {key!r}' for key in keys)}. Received: {what}."
        )
    return [data[key] for key in keys]


def list_of(path: Location, data: object, what: str) -> list[Any]:
    """Returns a JSON value if it is a list; otherwise raises an error."""
    if not isinstance(data, list):
        raise ValueError(
            f"{os.fspath(path)}: expected a JSON list of {what}. Received: a {type(data).__name__}."
        )
    return data
