"""What the readers of labelled texts share: tables, JSON records, and checks of each."""

from __future__ import annotations

import csv
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypedDict

from keras_attn.datasets.labelled_texts import (
    LABELLED_PROBLEMS,
    Label,
    LabelledText,
    LabelledTexts,
)
from keras_attn.datasets.reading import LineReading, is_blank, is_integer

Column = int | str

# The `csv` module keeps one limit for the length of a cell, for the whole process.
_CSV_LOCK = threading.Lock()
_LONGEST_CELL = 2**31 - 1


class LabelledChecks(TypedDict, total=False):
    """Settings that all readers of labelled texts have; `read_labelled` describes them."""

    on_error: str
    unique: bool
    label_separator: str | None
    label_names: Mapping[str, str] | None


class LabelledReading(LineReading):
    """Collects the texts and the problems of one reading."""

    kinds = LABELLED_PROBLEMS

    def __init__(
        self,
        where: str,
        on_error: str = "error",
        unique: bool = False,
        label_separator: str | None = None,
        label_names: Mapping[str, str] | None = None,
    ):
        super().__init__(where, on_error)
        if label_separator is not None and not (
            isinstance(label_separator, str) and label_separator
        ):
            raise ValueError(
                "Expected `label_separator` to be a string such as ',', or None. "
                f"Received: {label_separator!r}"
            )
        self.unique = unique
        self.separator = label_separator
        self.names = None if label_names is None else dict(label_names)
        self.examples: list[LabelledText] = []

    def add(self, number: int, text: str | None, label: Any, group: str | None = "") -> None:
        """A line's text, label and group; None where that has its problem already."""
        before = len(self.problems)
        if text is not None:
            text = text.strip()
            if is_blank(text):
                self.problem(number, "empty", "the text is empty")
        if label is not None:
            label = self._label(number, label)
        there = text is not None and label is not None and group is not None
        if there and len(self.problems) == before:
            self.examples.append(LabelledText(text, label, group.strip()))

    def _label(self, number: int, label: Any) -> Label | None:
        """The names in a cell or a JSON value, or None and a problem."""
        several = self.separator is not None
        if isinstance(label, str):
            parts = label.split(self.separator) if several else [label]
        elif isinstance(label, list) and several:
            parts = label
        else:
            parts = [label]
        names = []
        for part in parts:
            if isinstance(part, bool):
                part = str(part).lower()  # as JSON writes it
            elif isinstance(part, int):
                part = str(part)
            if not isinstance(part, str):
                more = ". Several labels need a `label_separator`" * isinstance(part, list)
                self.problem(number, "type", f"the label is of type {type(part).__name__}{more}")
                return None
            name = part.strip()
            if not name and several:
                continue
            if is_blank(name):
                self.problem(number, "label", "the label is empty")
                return None
            if self.names is not None:
                if name not in self.names:
                    have = ", ".join(map(repr, self.names))
                    self.problem(number, "label", f"{name!r} is none of {have}"[:200])
                    return None
                name = self.names[name]
            names.append(name)
        return tuple(sorted(set(names))) if several else names[0]

    def read_table(
        self,
        lines: Iterator[bytes],
        delimiter: str,
        quotes: bool,
        columns: dict[str, Column],
        header: bool,
    ) -> None:
        """Add the rows of a table. `columns` says where "text", "label" and "group" are."""
        width = None
        places = None if header else dict(columns)
        with long_cells():
            for number, row in self._rows(lines, delimiter, quotes):
                if not any(map(str.strip, row)):
                    self.passed_over += 1
                    continue
                if places is None:
                    self.passed_over += 1
                    names = [_repaired(name).strip() for name in row]
                    places = {name: self._place(names, at, name) for name, at in columns.items()}
                    width = len(row)
                    continue
                if width is None:
                    width = len(row)
                if len(row) != width or max(places.values()) >= width:
                    least = max(width, 1 + max(places.values()))
                    what = f"{least} expected, {len(row)} in {_repaired(row[0])[:60]!r}"
                    self.problem(number, "columns", what)
                    continue
                cells = {name: self._cell(number, row[at], name) for name, at in places.items()}
                self.add(number, cells["text"], cells["label"], cells.get("group", ""))

    def _rows(
        self, lines: Iterator[bytes], delimiter: str, quotes: bool
    ) -> Iterator[tuple[int, list[str]]]:
        """The rows, each with the number of its first line; undecodable bytes are surrogates."""

        def decoded() -> Iterator[str]:
            for raw in lines:
                yield raw.decode("utf-8", "surrogateescape") + "\n"

        quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        rows = csv.reader(decoded(), delimiter=delimiter, quoting=quoting, strict=True)
        while True:
            number = rows.line_num + 1
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                self.lines = rows.line_num
                self.passed_over += rows.line_num - number
                if "end of data" in str(error):
                    raise ValueError(
                        f"{self.where}: expected each quotation mark to be closed. Received: one "
                        f"that is opened in the row of line {number:,} and never closed, so that "
                        "all after it would be one text. Correct it; skipping does not help here."
                    ) from error
                self.problem(number, "csv", f"{error}")
                continue
            self.lines = rows.line_num
            self.passed_over += rows.line_num - number  # lines within quotation marks
            yield number, row

    def _place(self, names: list[str], column: Column, what: str) -> int:
        """Where a column is, by its name or its number."""
        if isinstance(column, int) and column < len(names):
            return column
        if isinstance(column, str) and names.count(column) == 1:
            return names.index(column)
        count = names.count(column) if isinstance(column, str) else 0
        problem = f"{count} of that name" if count else "no such column"
        raise ValueError(
            f"{self.where}: expected a column {column!r} for the {what}. Received: {problem} among "
            f"{', '.join(map(repr, names))[:300]}. Name the columns ({what}=...), or the "
            "`delimiter` if these are several columns in one."
        )

    def _cell(self, number: int, cell: str, name: str) -> str | None:
        """A cell, or None and a problem where it has bytes that are not UTF-8."""
        raw = cell.encode("utf-8", "surrogateescape")
        return cell if cell.isascii() else self.decode(number, raw, name)

    def read_records(self, lines: Iterator[bytes], keys: dict[str, str]) -> None:
        """Add the JSON objects of lines. `keys` says where "text", "label" and "group" are."""
        for number, record in self.records(lines):
            missing = [key for key in keys.values() if key not in record]
            if missing:
                have = ", ".join(map(repr, record)) or "none"
                self.problem(number, "keys", f"no {missing[0]!r} among the keys {have[:200]}")
                continue
            text = self._string(number, record, "text", keys["text"])
            group = self._string(number, record, "group", keys.get("group"))
            label = record[keys["label"]]
            if label is None:
                self.problem(number, "label", "the label is null")
            if isinstance(label, str) and not self.is_well_formed(number, label, keys["label"]):
                label = None
            self.add(number, text, label, group)

    def _string(
        self, number: int, record: dict[str, Any], name: str, key: str | None
    ) -> str | None:
        if key is None:
            return ""
        value = record[key]
        if name == "group" and is_integer(value, 0):
            value = str(value)
        if not isinstance(value, str):
            self.problem(number, "type", f"{key!r} is of type {type(value).__name__}")
            return None
        return value if self.is_well_formed(number, value, key) else None

    def finish(self) -> LabelledTexts:
        """What was read, or the error about all problems."""
        self.refuse(len(self.examples), "a text and its label on each line", "labelled text")
        labels = defaultdict(set)
        once: dict[tuple[str, Label], LabelledText] = {}
        for example in self.examples:
            labels[example.text].add(example.label)
            once.setdefault((example.text, example.label), example)
        return LabelledTexts(
            list(once.values()) if self.unique else self.examples,
            self.where,
            self.lines,
            self.passed_over,
            len(self.examples) - len(once),
            sum(len(of_text) > 1 for of_text in labels.values()),
            self.unique,
            self.problems,
        )


def _repaired(text: str) -> str:
    """A text for a message, with U+FFFD for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def long_cells() -> Iterator[None]:
    """Let cells have any length; the limit of the `csv` module is 131,072 characters."""
    with _CSV_LOCK:
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            yield
        finally:
            csv.field_size_limit(before)
