"""The wanted columns of tables and of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from keras_attn.records.reading import LineReading, Location, check_format, format_of, open_lines
from keras_attn.records.tables import Column, Table, check_columns

COLUMN_FORMATS = ("csv", "tsv", "json_lines")
COLUMN_SUFFIXES = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv"},
    **{".jsonl": "json_lines", ".ndjson": "json_lines", ".json": "json_lines"},
}


def numbered(*columns: str) -> list[Column]:
    """Columns as the command gets them: numbers if all are digits, else names.

    Args:
        *columns: Strings.

    Example:

    >>> numbered("5", "6"), numbered("5", "text")
    ([5, 6], ['5', 'text'])
    """
    digits = all(column.isdecimal() and column.isascii() for column in columns)
    return [int(column) if digits else column for column in columns]


def read_columns(
    path: Location,
    columns: dict[str, Column],
    reading: LineReading,
    format: str = "auto",
    delimiter: str | None = None,
    texts: Sequence[str] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Reads the wanted columns of a table, or keys of JSON objects, line by line.

    If all columns are numbers, the file has no header, and its rows may have further cells.

    Args:
        path: The file, plain or gzipped.
        columns: What is wanted, each with the name or the number (from 0) of its column.
        reading: Counts the lines, and is told what is wrong.
        format: `"auto"`, `"csv"`, `"tsv"` or `"json_lines"`.
        delimiter: The one character between cells. Default: a comma in `"csv"`, a tab in `"tsv"`.
        texts: What must be a string in JSON; all if None.

    Yields:
        The number of a line and its values by name. What is not a string, or not Unicode, is None
        and a problem; a null that need not be a string is `"null"`.

    Raises:
        ValueError: If the format, the columns or the delimiter are wrong.

    Example:

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some.csv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("word,count\na dog,2\n")
    >>> list(read_columns(path, {"text": "word"}, LineReading(path)))
    [(2, {'text': 'a dog'})]
    """
    if format == "auto":
        format = format_of(path, COLUMN_SUFFIXES, COLUMN_FORMATS, "a file")
    check_format(format, COLUMN_FORMATS)
    with open_lines(os.path.expanduser(path)) as lines:
        if format != "json_lines":
            names = any(isinstance(column, str) for column in columns.values())
            given = delimiter or ("," if format == "csv" else "\t")
            table = Table(columns, given, quotes=format == "csv", exact=names)
            yield from table.cells(reading, lines)
            return
        check_columns(columns, of_json=True)
        if delimiter is not None:
            raise ValueError(f"`delimiter` is for tables. Received: {delimiter!r} for JSON.")
        for number, record in reading.records(lines):
            missing = [key for key in columns.values() if key not in record]
            if missing:
                reading.no_key(number, record, missing[0])
                continue
            found = {
                name: "null" if record[key] is None else record[key]
                for name, key in columns.items()
            }
            for name in columns if texts is None else texts:
                found[name] = reading.string(number, record[columns[name]], str(columns[name]))
            yield number, found
