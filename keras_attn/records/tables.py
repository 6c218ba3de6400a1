"""Tables in text files, with line numbers and problems."""

from __future__ import annotations

import csv
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from keras_attn.records.reading import LineReading, is_integer
from keras_attn.records.rows import check_different

Column = int | str
Cell = bytes | str  # a string has surrogates for bytes that are not UTF-8

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""The delimiters that are recognized."""

# The `csv` module keeps one limit for the length of a cell, for the whole process.
_CSV_LOCK = threading.Lock()
_LONGEST_CELL = 2**31 - 1


def check_columns(columns: Mapping[str, Column], of_json: bool = False) -> None:
    """Raises an error for columns that are neither names nor numbers, or are given twice."""
    for name, column in columns.items():
        if isinstance(column, str) or (not of_json and is_integer(column, 0)):
            continue
        kind = "a JSON key" if of_json else "the name or the number of a column, from 0"
        raise ValueError(f"Expected `{name}` to be {kind}. Received: {column!r}.")
    if len(set(columns.values())) < len(columns):
        raise ValueError(f"Expected columns that are all different. Received: {_listed(columns)}.")


def _listed(columns: Mapping[str, Column]) -> str:
    return ", ".join(f"{name}={column!r}" for name, column in columns.items())


def check_delimiter(delimiter: str | None) -> None:
    """Raises an error for an invalid delimiter; an empty string, the default, is accepted."""
    one = isinstance(delimiter, str) and len(delimiter) <= 1 and delimiter not in tuple('"\r\n ')
    if not one:
        hint = " A shell writes a tab as $'\\t'." if delimiter == "\\t" else ""
        raise ValueError(
            "Expected `delimiter` to be one character, except a quotation mark, a space or a line "
            f"break. Received: {delimiter!r}.{hint}"
        )


@dataclass(frozen=True)
class Table:
    """The format of a table, and the columns to read (names, or numbers from 0).

    If `delimiter` is None, it is `usual`, unless the first row contains the wanted column names
    with another delimiter. With that other delimiter, cells may be in quotation marks, and rows are
    `exact`. If `header` is None, the first row is a header if a column is given by name. If `exact`
    is True, a row with more or fewer cells than the first row is bad.
    """

    columns: Mapping[str, Column]
    delimiter: str | None = None
    quotes: bool = True
    header: bool | None = None
    exact: bool = True
    usual: str = ","
    whole: bool = False

    def __post_init__(self):
        check_columns(self.columns)
        if self.delimiter is not None:
            check_delimiter(self.delimiter)
        if self.delimiter == "":
            raise ValueError("Expected `delimiter` to be one character. Received: ''.")
        named = any(isinstance(column, str) for column in self.columns.values())
        if named and self.header is False:
            raise ValueError(
                "Without a `header`, columns must be numbers, counted from 0. Received: "
                f"{_listed(self.columns)}."
            )
        object.__setattr__(self, "header", named or bool(self.header))

    def cells(
        self, reading: LineReading, lines: Iterator[bytes]
    ) -> Iterator[tuple[int, dict[str, str | None]]]:
        """Yields the number of each row's first line, and the wanted cells of the row.

        Cells that are not UTF-8 are None. `reading` counts lines, collects problems, and records an
        unusual delimiter.
        """
        before = []  # blank lines and the first row
        for raw in lines:
            before.append(raw)
            if raw.strip():
                break
        lines = itertools.chain(before, lines)
        reading.delimiter = self.delimiter or self._recognised(
            reading.where, before[-1] if before else b""
        )
        other = self.delimiter is None and reading.delimiter != self.usual
        if other:
            reading.where += f" (columns between {DELIMITERS[reading.delimiter]})"
        exact, rows = self.exact or other, _quoted if self.quotes or other else _plain
        width = None
        # Without a header all columns are numbers.
        places = None if self.header else {name: int(c) for name, c in self.columns.items()}
        for number, row in rows(reading, lines):
            if not any(cell.strip() for cell in row):
                reading.passed_over += 1
                continue
            width = len(row) if width is None else width
            if places is None:
                reading.passed_over += 1
                names = [_shown(cell).strip() for cell in row]
                places = {
                    name: _place(reading.where, names, column, name)
                    for name, column in self.columns.items()
                }
                if self.whole:
                    check_different(names, reading.where)
                    places = {name: place for place, name in enumerate(names)}
                continue
            least = 1 + max(places.values())
            if exact:
                least = max(width, least)
            if len(row) < least or (exact and len(row) != width):
                what = f"{least} expected, {len(row)} in {_shown(row[0])[:60]!r}"
                reading.problem(number, "columns", what)
                continue
            cells = {name: _cell(reading, number, row[at], name) for name, at in places.items()}
            yield number, cells

    def _recognised(self, where: str, first: bytes) -> str:
        """The delimiter with which the first row contains the wanted column names, or the usual
        one."""
        names = [column for column in self.columns.values() if isinstance(column, str)]
        text = first.decode("utf-8", "surrogateescape")
        fits = [one for one in DELIMITERS if names and set(names) <= _names(text, one)]
        if len(fits) > 1:
            kinds = " and ".join(DELIMITERS[one] for one in fits)
            raise ValueError(
                f"{where}: expected a first row in which one kind of delimiter separates "
                f"{', '.join(map(repr, names))}. Received: {text[:80]!r}, in which both "
                f"{kinds} do. Specify the `delimiter`."
            )
        return fits[0] if fits else self.usual


def _names(text: str, delimiter: str) -> set[str]:
    """The cells of a first row with a delimiter."""
    if delimiter not in text:
        return set()
    try:
        return {cell.strip() for cell in next(csv.reader([text], delimiter=delimiter, strict=True))}
    except csv.Error:
        return set()


def _plain(reading: LineReading, lines: Iterator[bytes]) -> Iterator[tuple[int, Sequence[Cell]]]:
    between = reading.delimiter.encode()  # is no part of any other character in UTF-8
    for number, raw in enumerate(lines, start=1):
        reading.lines = number
        yield number, raw.split(between)


def _quoted(reading: LineReading, lines: Iterator[bytes]) -> Iterator[tuple[int, Sequence[Cell]]]:
    delimiter = reading.delimiter
    texts = (raw.decode("utf-8", "surrogateescape") + "\n" for raw in lines)
    rows = csv.reader(texts, delimiter=delimiter, strict=True)
    with _long_cells():
        while True:
            number = rows.line_num + 1
            row = None
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                if "end of data" in str(error):
                    raise ValueError(
                        f"{reading.where}: expected each quotation mark to be closed. Received: "
                        f"one that is opened in the row of line {number:,} and never closed, so "
                        "that all after it would be one text. Correct it; skipping does not help "
                        "here."
                    ) from error
                what = f"{error}; is {delimiter!r} the `delimiter`?"
                reading.problem(number, "csv", what)
            reading.lines = rows.line_num
            reading.passed_over += rows.line_num - number  # lines within quotation marks
            if row is not None:
                yield number, row


def _place(where: str, names: list[str], column: Column, what: str) -> int:
    """The index of a column given by name or number."""
    if isinstance(column, int):
        if column < len(names):
            return column
        count = 0
    else:
        count = names.count(column)
        if count == 1:
            return names.index(column)
    problem = f"{count} of that name" if count else "no such column"
    raise ValueError(
        f"{where}: expected a column {column!r} for the {what}. Received: {problem} among "
        f"{', '.join(map(repr, names))[:300]}. Name the columns ({what}=...), or the "
        "`delimiter` if these are several columns in one."
    )


def _cell(reading: LineReading, number: int, cell: Cell, name: str) -> str | None:
    """A cell; None, with a problem noted, if it is not UTF-8."""
    if isinstance(cell, str):
        if cell.isascii():
            return cell
        cell = cell.encode("utf-8", "surrogateescape")
    return reading.decode(number, cell, name)


def _shown(cell: Cell) -> str:
    """A cell for a message, with U+FFFD for bytes that are not UTF-8."""
    raw = cell if isinstance(cell, bytes) else cell.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


@contextmanager
def _long_cells() -> Iterator[None]:
    """Removes the limit of the `csv` module, 131,072 characters in a cell."""
    with _CSV_LOCK:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)
