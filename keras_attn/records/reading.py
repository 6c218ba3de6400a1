"""Line-by-line reading and checking of text files."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from keras_attn.records.encodings import Location
from keras_attn.records.problems import PROBLEMS, LineProblem, describe_problems, many
from keras_attn.records.rows import Rows, has_rows, shown_columns

T = TypeVar("T")

_NOT_UTF8 = "is not UTF-8"
_SKIP = ", or leave them out with on_error='skip' (--on-error skip)"


class LineReading:
    """Base class of readers, which collects the problems of a file."""

    kinds: Mapping[str, str] = PROBLEMS
    skips = True
    """Whether bad lines can be left out, by a setting `on_error`."""

    def __init__(
        self, where: Location, on_error: str = "error", kinds: Mapping[str, str] | None = None
    ):
        check_on_error(on_error)
        self.where = os.fspath(where)
        self.on_error = on_error
        self.kinds = self.kinds if kinds is None else kinds
        self.delimiter = ""  # of a table
        self.lines = 0
        self.rows = has_rows(where)
        """Whether rows with named columns are read, from a table in memory or from Parquet."""
        self.unit = "row" if self.rows else "line"
        self.passed_over = 0
        self.problems: list[LineProblem] = []

    @property
    def bad_lines(self) -> int:
        """Number of lines with a problem."""
        return len({problem.line for problem in self.problems})

    def problem(self, number: int, kind: str, what: str) -> None:
        """Records a problem of a line."""
        self.problems.append(LineProblem(number, kind, what))

    def decode(self, number: int, raw: bytes, name: str) -> str | None:
        """Decodes UTF-8; if the bytes are invalid, records a problem and returns None."""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the {name}"
            self.problem(number, "encoding", f"{place} {_NOT_UTF8}")
            return None

    def texts(self, lines: Iterator[bytes]) -> Iterator[tuple[int, str | None]]:
        """Yields the number and text of each line; for invalid UTF-8, records a problem and yields
        None."""
        for number, raw in enumerate(lines, start=1):
            self.lines = number
            yield number, self.decode(number, raw, "line")

    def records(self, lines: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the number and the JSON object of each line that has a JSON object."""
        for number, raw in enumerate(lines, start=1):
            self.lines = number
            if not raw.strip():
                self.passed_over += 1
                continue
            line = self.decode(number, raw, "line")
            if line is None:
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:  # or numbers too long, nests too deep
                what = f"{error}"
                if isinstance(error, json.JSONDecodeError):
                    what = f"{error.msg} at character {error.colno} of {line[:60]!r}"
                self.problem(number, "json", what)
                continue
            if not isinstance(record, dict):
                self.problem(number, "json", f"a {type(record).__name__}, {line[:60]!r}")
                continue
            yield number, record

    def whole(
        self,
        lines: Iterator[bytes],
        parse: Callable[[dict[str, Any]], list[T]],
        expected: str,
        unit: str,
        one: str,
    ) -> list[T]:
        """Parses a file that is one JSON value, whose units are counted as lines."""
        try:
            found = parse(json.loads(b"\n".join(lines).decode("utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{self.where}: expected {expected}. Received: {type(error).__name__} "
                f"({error}). The name of a file with {one} on each line must end in .jsonl."
            ) from error
        self.lines, self.unit = len(found), unit
        return found

    def no_key(self, number: int, record: dict[str, Any], key: str) -> None:
        """Records that a JSON object lacks a key; for tables, raises an error."""
        if self.rows:
            raise ValueError(
                f"{self.where}: expected a column {key!r}. Received: no such column among "
                f"{shown_columns(record)}. Name the columns by the settings of the task, such as "
                f"`text` or `key`."
            )
        have = ", ".join(map(repr, record)) or "none"
        self.problem(number, "keys", f"no {key!r} among the keys {have[:200]}")

    def no_label(self, number: int, name: str, known: Iterable[str]) -> None:
        """Records that a label is not allowed."""
        have = ", ".join(map(repr, known))
        self.problem(number, "label", f"{name!r:.60} is none of {have}"[:200])

    def json_value(self, number: int, name: str, value: object, key: str) -> object:
        """Returns the value under a key of a JSON object; None, after recording a problem, if it is
        bad."""
        return self.string(number, value, key)

    def string(self, number: int, value: object, key: str) -> str | None:
        """Returns a string value of a JSON object; None, after recording a problem, if bad."""
        if self.rows and value is None:
            self.problem(number, "missing", f"{key!r} has no value")
            return None
        if self.rows and isinstance(value, list | dict):
            raise ValueError(
                f"{self.where}: expected a column of texts, {key!r}. Received: a nested "
                f"column, with {json.dumps(value)[:60]} in row {number:,}. Convert the "
                "column to texts first."
            )
        if not isinstance(value, str):
            self.problem(number, "type", f"{key!r} is of type {type(value).__name__}")
            return None
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            half = ascii(value[error.start])
            self.problem(number, "encoding", f"{key!r} has half a surrogate pair, {half}")
            return None
        return value

    def text(self, number: int, name: str, text: str | None) -> str | None:
        """Returns a stripped text; if it has no word, records a problem and returns None."""
        if text is None or not is_blank(text):
            return text and text.strip()
        self.problem(number, "empty", f"the {name} is empty")
        return None

    def refuse(self, found: int, expected: str, one: str) -> None:
        """Raises an error about all problems, if problems are errors or no item is left."""
        described = describe_problems(self.problems, kinds=self.kinds, unit=self.unit)
        if self.problems and self.on_error == "error":
            not_utf8 = any(problem.what.endswith(_NOT_UTF8) for problem in self.problems)
            save = (
                " Save the file as UTF-8 (in Excel: CSV UTF-8), or pass its encoding: --encoding "
                "cp1252; in Python, keras_attn.records.EncodedFile(path, 'cp1252')."
            ) * not_utf8
            expected = expected.replace("each line", f"each {self.unit}")
            raise ValueError(
                f"{self.where}: expected {expected}. Received: "
                f"{self.bad_lines:,} of {self.lines:,} {self.unit}s without: {described}. "
                f"Correct them{_SKIP * self.skips}.{save}"
            )
        if not found:
            why = f": {described}" if described else ""
            raise ValueError(
                f"{self.where}: expected at least one {one}. "
                f"Received: none in {many(self.lines, self.unit)}{why}."
            )


def check_on_error(on_error: str) -> None:
    """Raises a ValueError for values other than "error" and "skip"."""
    if on_error not in ("error", "skip"):
        raise ValueError(f"Expected `on_error` to be 'error' or 'skip'. Received: {on_error!r}.")


def existing(path: Location, expected: str) -> Location:
    """Checks that a file exists, and returns its path; returns `Rows` unchanged."""
    if isinstance(path, Rows):
        return path
    if not os.path.isfile(os.path.expanduser(path)):
        raise FileNotFoundError(
            f"Expected {expected}. Received: {os.fspath(path)}, which is not an existing file."
        )
    return os.fspath(path)


def find_file(
    folder: Location,
    names: Iterable[str],
    expected: str = "",
    advice: str = "",
    gzipped: bool = True,
) -> Path:
    """Returns the first of several files that exists in a folder, plain or gzipped."""
    folder, names = Path(folder), list(names)
    ends = ("", ".gz") if gzipped else ("",)
    for path in (folder / f"{name}{end}" for name in names for end in ends):
        if path.is_file():
            return path
    have = ", ".join(sorted(os.listdir(folder))[:20]) or "nothing"
    raise FileNotFoundError(
        f"Expected {' or '.join(names)}{' (or .gz)' * gzipped}{expected} in {folder}. Received: a "
        f"folder with: {have}.{advice}"
    )


def ending(path: Location) -> str:
    """Returns a file's suffix in lower case, ignoring `.gz`; `Rows` are read as JSON lines."""
    if has_rows(path):
        return ".jsonl"
    return os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]


def chosen_format(
    format: str,
    path: Location,
    suffixes: Mapping[str, str],
    formats: Iterable[str],
    expected: str = "a file",
) -> str:
    """Returns a format; `"auto"` is inferred from the file name, with or without `.gz`."""
    if format == "auto":
        return format_of(path, suffixes, formats, expected)
    if format not in formats:
        raise ValueError(
            f"Expected `format` to be 'auto' or one of {', '.join(map(repr, formats))}. "
            f"Received: {format!r}."
        )
    return format


def format_of(
    path: Location, suffixes: Mapping[str, str], formats: Iterable[str], expected: str = "a file"
) -> str:
    """Returns the format that belongs to the suffix of a file name."""
    suffix = ending(path)
    if suffix not in suffixes:
        raise ValueError(
            f"Expected {expected} with one of {', '.join(suffixes)} (and .gz). Received: "
            f"{os.fspath(path)}. Name the `format`: {', '.join(formats)}."
        )
    return suffixes[suffix]


def is_blank(text: str) -> bool:
    """Returns whether a text has no visible character."""
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") for c in text)


def is_unicode(text: str) -> bool:
    """Returns whether a text has no lone surrogate."""
    return text.encode("utf-8", "replace").decode() == text


def is_integer(value: object, least: int) -> TypeGuard[int]:
    """Returns whether a value is an integer (not a boolean) of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
