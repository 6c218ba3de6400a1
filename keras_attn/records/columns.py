"""The wanted columns of tables and of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keras_attn.records.opened_lines import open_lines
from keras_attn.records.reading import LineReading, Location, chosen_format
from keras_attn.records.tables import Column, Table, check_columns

COLUMN_FORMATS = ("csv", "tsv", "json_lines")
COLUMN_SUFFIXES = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv"},
    **{".jsonl": "json_lines", ".ndjson": "json_lines", ".json": "json_lines"},
}


def numbered(*columns: str) -> list[Column]:
    """Parses columns given as strings: numbers if all consist of digits, names otherwise."""
    digits = all(column.isdecimal() and column.isascii() for column in columns)
    return [int(column) if digits else column for column in columns]


def read_columns(
    path: Location,
    columns: dict[str, Column],
    reading: LineReading,
    format: str = "auto",
    delimiter: str | None = None,
    *,
    header: bool | None = None,
    exact: bool | None = None,
    whole: bool = False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the wanted columns of a table, or keys of JSON objects, line by line.

    If all columns are given by number rather than by name, the file is read without a header, and
    extra cells are ignored, unless `header` or `exact` is True. Bad values are None;
    `reading.json_value` converts JSON values. If `whole` is True, all values of a row are read,
    keyed by column names.
    """
    format = chosen_format(format, path, COLUMN_SUFFIXES, COLUMN_FORMATS)
    with open_lines(path) as lines:
        if format != "json_lines":
            named = any(isinstance(column, str) for column in columns.values())
            wide = named if exact is None else exact
            usual = "," if format == "csv" else "\t"
            table = Table(columns, delimiter or None, format == "csv", header, wide, usual, whole)
            yield from table.cells(reading, lines)
            return
        check_columns(columns, of_json=True)
        keys = {name: str(column) for name, column in columns.items()}
        for setting, value in (("header", header), ("delimiter", delimiter)):
            if value is not None:
                kind = "rows of named columns" if reading.rows else "JSON"
                raise ValueError(
                    f"`{setting}` is only used for tables, not for {kind}. Received: {value!r}."
                )
        for number, record in reading.records(lines):
            missing = [key for key in keys.values() if key not in record]
            if missing:
                reading.no_key(number, record, missing[0])
                continue
            found = {n: reading.json_value(number, n, record[k], k) for n, k in keys.items()}
            yield number, {**record, **{keys[n]: found[n] for n in found}} if whole else found
