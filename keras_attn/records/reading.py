"""What all readers of text files share: lines, and checks of each."""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, TypedDict

from keras_attn.input_files import DAMAGE, input_file
from keras_attn.line_ends import cut_lines
from keras_attn.records.parallel import (
    PROBLEMS,
    LineProblem,
    ParallelText,
    TranslationPair,
    describe_problems,
    many,
    unique_pairs,
)
from keras_attn.white_space import normalize_white_space

Location = str | os.PathLike[str]

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the latter: an empty archive


class Checks(TypedDict, total=False):
    """Settings that all readers have; `read_pairs` describes them."""

    on_error: str
    max_characters: int | None
    normalize_spaces: bool
    unique: bool


class LineReading:
    """Collects the problems of one reading of a file: what all readers share."""

    kinds = PROBLEMS  # of problems, with the words for them

    def __init__(self, where: str, on_error: str = "error"):
        check_on_error(on_error)
        self.where = where
        self.on_error = on_error
        self.lines = 0
        self.unit = "line"
        self.passed_over = 0
        self.problems: list[LineProblem] = []

    def problem(self, number: int, kind: str, what: str) -> None:
        """Note what is wrong with a line."""
        self.problems.append(LineProblem(number, kind, what))

    def decode(self, number: int, raw: bytes, name: str) -> str | None:
        """The text of UTF-8 bytes, or None and a problem."""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the {name}"
            self.problem(number, "encoding", f"{place} is not UTF-8")
            return None

    def records(self, lines: Iterator[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The JSON object of each line that has one, and the line's number."""
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
            except json.JSONDecodeError as error:
                what = f"{error.msg} at character {error.colno} of {line[:60]!r}"
                self.problem(number, "json", what)
                continue
            except (ValueError, RecursionError) as error:  # numbers too long, nests too deep
                self.problem(number, "json", f"{error}")
                continue
            if not isinstance(record, dict):
                self.problem(number, "json", f"a {type(record).__name__}, {line[:60]!r}")
                continue
            yield number, record

    def no_key(self, number: int, record: dict[str, Any], key: str) -> None:
        """Note that a JSON object lacks a key."""
        have = ", ".join(map(repr, record)) or "none"
        self.problem(number, "keys", f"no {key!r} among the keys {have[:200]}")

    def no_label(self, number: int, name: str, known: Iterable[str]) -> None:
        """Note that a label is not among those that may occur."""
        have = ", ".join(map(repr, known))
        self.problem(number, "label", f"{name!r:.60} is none of {have}"[:200])

    def string(self, number: int, value: Any, key: str) -> str | None:
        """A value of a JSON object that is a string in Unicode, or None and a problem."""
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

    def refuse(self, found: int, expected: str, one: str) -> None:
        """Raise the error about all problems, if there is one to raise."""
        described = describe_problems(self.problems, kinds=self.kinds, unit=self.unit)
        if self.problems and self.on_error == "error":
            bad = len({problem.line for problem in self.problems})
            raise ValueError(
                f"{self.where}: expected {expected}. Received: "
                f"{bad:,} of {self.lines:,} {self.unit}s without: {described}. "
                "Correct them, or leave them out with on_error='skip' (--on-error skip)."
            )
        if not found:
            why = f": {described}" if described else ""
            raise ValueError(
                f"{self.where}: expected at least one {one}. "
                f"Received: none in {many(self.lines, self.unit)}{why}."
            )


class Reading(LineReading):
    """Collects the pairs and the problems of one reading: the checks that all readers share."""

    def __init__(
        self,
        where: str,
        on_error: str = "error",
        max_characters: int | None = None,
        normalize_spaces: bool = True,
        unique: bool = False,
    ):
        super().__init__(where, on_error)
        if max_characters is not None and not is_integer(max_characters, 1):
            raise ValueError(
                f"Expected `max_characters` to be an integer >= 1 or None. "
                f"Received: {max_characters!r}"
            )
        self.max_characters = max_characters
        self.normalize_spaces = normalize_spaces
        self.unique = unique
        self.pairs: list[TranslationPair] = []

    def value(self, number: int, record: dict[str, Any], key: str) -> str | None:
        """The string under a key of a JSON object, or None and a problem."""
        values = _look_up(record, key)
        if not values:
            self.no_key(number, record, key)
        return self.string(number, values[0], key) if values else None

    def add(self, number: int, source: str | None, target: str | None) -> None:
        """A line's two sides, those None that have their problem already."""
        before = len(self.problems)
        texts = []
        for name, text in (("source", source), ("target", target)):
            if text is None:
                continue
            if self.normalize_spaces:
                text = normalize_white_space(text)
            texts.append(text)
            if is_blank(text):
                self.problem(number, "empty", f"the {name} is empty")
            elif self.max_characters is not None and len(text) > self.max_characters:
                what = f"the {name} has {len(text)} characters, more than {self.max_characters}"
                self.problem(number, "long", what)
        if len(texts) == 2 and len(self.problems) == before:
            self.pairs.append(TranslationPair(*texts))

    def finish(self) -> ParallelText:
        """What was read, or the error about all problems."""
        self.refuse(len(self.pairs), "a sentence and its translation on each line", "pair")
        once = unique_pairs(self.pairs)
        return ParallelText(
            once if self.unique else self.pairs,
            self.where,
            self.lines,
            self.passed_over,
            len(self.pairs) - len(once),
            self.unique,
            self.problems,
        )


def _look_up(record: dict[str, Any], key: str) -> list[Any]:
    """The value under a key, in a list; an empty list where there is none."""
    for holder in (record, record.get("translation")):
        found = holder
        if isinstance(holder, dict) and key in holder:
            return [holder[key]]
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                break
            found = found[part]
        else:
            return [found]
    return []


def check_on_error(on_error: str) -> None:
    """Refuse what is neither "error" nor "skip"."""
    if on_error not in ("error", "skip"):
        raise ValueError(f"Expected `on_error` to be 'error' or 'skip'. Received: {on_error!r}.")


def find_file(
    folder: Location,
    names: Iterable[str],
    expected: str = "",
    advice: str = "",
    gzipped: bool = True,
) -> Path:
    """The first of some files that is in a folder, plain or gzipped."""
    folder, names = Path(folder), list(names)
    ends = ("", ".gz") if gzipped else ("",)
    for path in (folder / f"{name}{end}" for name in names for end in ends):
        if path.is_file():
            return path
    have = ", ".join(sorted(os.listdir(folder))[:20]) or "nothing"
    raise FileNotFoundError(
        f"Expected {' or '.join(names)}{' (or .gz)' * gzipped}{expected} in {folder}. Received a "
        f"folder with: {have}.{advice}"
    )


def check_format(format: str, formats: Iterable[str]) -> None:
    """Refuse a format that is not among those of a reader."""
    if format not in formats:
        raise ValueError(
            f"Expected `format` to be 'auto' or one of {', '.join(map(repr, formats))}. "
            f"Received: {format!r}."
        )


def format_of(
    path: Location, suffixes: Mapping[str, str], formats: Iterable[str], expected: str
) -> str:
    """The format that the end of a file's name stands for, with or without `.gz`."""
    suffix = os.path.splitext(os.fspath(path).lower().removesuffix(".gz"))[1]
    if suffix not in suffixes:
        raise ValueError(
            f"Expected {expected} with one of {', '.join(suffixes)} (and .gz). Received: "
            f"{os.fspath(path)}. Name the `format`: {', '.join(formats)}."
        )
    return suffixes[suffix]


def is_zip(path: Location) -> bool:
    """Whether a file begins as a zip archive does."""
    with open(input_file(path), "rb") as file:
        return file.read(4) in _ZIP


@contextmanager
def open_lines(path: Location) -> Iterator[Iterator[bytes]]:
    """The lines of a plain or gzipped file."""
    with ExitStack() as stack:
        file = stack.enter_context(open(input_file(path), "rb"))
        start = file.peek(4)[:4]  # its first bytes tell better than its name what it is
        if start in _ZIP:
            raise ValueError(
                f"{os.fspath(path)}: expected text, plain or gzipped. Received: a zip archive. "
                "Unpack it (`read_tatoeba` reads Tatoeba's)."
            )
        if start[:2] == b"\x1f\x8b" or os.fspath(path).lower().endswith(".gz"):
            file = stack.enter_context(gzip.open(file))
        yield byte_lines(file, os.fspath(path))


@contextmanager
def open_member(path: Location) -> Iterator[Iterator[bytes]]:
    """The lines of the one text file of a zip archive."""
    try:
        archive = zipfile.ZipFile(input_file(path))
    except DAMAGE as error:
        raise _damaged(os.fspath(path), 0, error) from error
    with archive:
        names = [
            name
            for name in archive.namelist()
            if name.endswith((".txt", ".tsv"))
            and not name.rpartition("/")[2].startswith(("_", "."))
        ]
        if len(names) != 1:
            raise ValueError(
                f"{os.fspath(path)}: expected an archive with one file of sentences (*.txt or "
                f"*.tsv). Received one with: {', '.join(names) or 'none'}. Unpack it and give "
                "the file."
            )
        try:
            file = archive.open(names[0])
        except (*DAMAGE, RuntimeError) as error:  # the latter: it wants a password
            raise _damaged(os.fspath(path), 0, error) from error
        with file:
            yield byte_lines(file, os.fspath(path))


def byte_lines(file: IO[bytes], where: str) -> Iterator[bytes]:
    """Lines without their ends, the first one without a byte order mark."""
    number = 0
    try:
        for number, raw in enumerate(cut_lines(file), start=1):
            if number == 1:
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise ValueError(
                        f"{where}: expected UTF-8 text. Received: UTF-16, by its first bytes. "
                        "Convert the file (for example with iconv)."
                    )
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            yield raw
    except DAMAGE as error:
        raise _damaged(where, number, error) from error


def _damaged(where: str, number: int, error: Exception) -> ValueError:
    return ValueError(
        f"{where}: expected a whole compressed file. Received: one that is cut off or damaged "
        f"after line {number:,} ({error}). Fetch or pack it again; skipping does not help here."
    )


def is_blank(text: str) -> bool:
    """Whether a text has no character that can be seen."""
    return all(c.isspace() or unicodedata.category(c) in ("Cc", "Cf") for c in text)


def is_integer(value: Any, least: int) -> bool:
    """Whether a value is an integer, not a boolean, and not below `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
