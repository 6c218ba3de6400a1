"""Writers of tables row by row: CSV, tab-separated, JSON lines and Parquet."""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from keras_attn.files import atomic_write, open_output
from keras_attn.records.columns import COLUMN_SUFFIXES
from keras_attn.records.reading import is_unicode
from keras_attn.records.rows import PARQUET, check_parquet
from keras_attn.records.whole_tables import Record, TablePart, WholeTable

Write = Callable[[TablePart, Sequence[Record]], None]
_SIMPLE: Mapping[object, str] = {str: "string", float: "float64", int: "int64", bool: "bool_"}

_NO_TABS = str.maketrans("\t\r\n", "   ")


def written_format(path: Path | None, read: str) -> str:
    """Returns the format of a table by its suffix; for standard output, the format of the input."""
    if path is None:
        return read
    name = path.name.lower()
    if name.endswith(PARQUET):
        check_parquet(path)
        return "parquet"
    suffix = os.path.splitext(name)[1]
    if suffix not in COLUMN_SUFFIXES:
        raise ValueError(
            "Expected the name of a table, which must end in "
            f"{', '.join([*COLUMN_SUFFIXES, *PARQUET])}. Received: {path}."
        )
    return COLUMN_SUFFIXES[suffix]


@contextlib.contextmanager
def open_table(
    path: Path | None, format: str, table: WholeTable, added: Mapping[str, object]
) -> Iterator[Write]:
    """Yields a function that writes rows of a table with additional columns.

    The file is written atomically. `added` maps the names of the additional columns to their types:
    `str`, `float`, `int`, `list[str]` or `list[float]`. Values of other types are written as JSON;
    in text formats, lists are also written as JSON.
    """
    if format == "parquet" and path is not None:
        with _open_parquet(path, table, added) as write:
            yield write
        return
    with open_output(path) as file:
        write_row = _row_writer(file, format, table, [*table.names, *added])

        def write(part: TablePart, more: Sequence[Record]) -> None:
            for row, new in zip(part.rows, more, strict=True):
                write_row({**row, **new})
            if path is None:
                file.flush()

        yield write


def _row_writer(
    file: TextIO, format: str, table: WholeTable, names: Sequence[str]
) -> Callable[[Record], object]:
    """A function that writes a row."""
    if format == "json_lines":
        return lambda row: file.write(_json(row) + "\n")
    if format == "tsv":  # which has no quotation marks
        line = lambda cells: file.write("\t".join(c.translate(_NO_TABS) for c in cells) + "\n")  # noqa: E731
    else:
        delimiter = table.delimiter if table.format == "csv" else ","
        line = csv.writer(file, delimiter=delimiter, lineterminator="\n").writerow
    line(names)
    return lambda row: line([_cell(row.get(name)) for name in names])


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if is_unicode(text) else json.dumps(value)


def _cell(value: object) -> str:
    """A value in a text table."""
    if isinstance(value, str):
        return value if is_unicode(value) else value.encode("utf-8", "replace").decode()
    return "" if value is None else _json(value)


@contextlib.contextmanager
def _open_parquet(path: Path, table: WholeTable, added: Mapping[str, object]) -> Iterator[Write]:
    """Yields a function that writes Parquet rows; columns from Parquet keep their types."""
    import pyarrow as pa
    from pyarrow import parquet

    def arrow(kind: object) -> Any:
        inner = getattr(kind, "__args__", None)
        return pa.list_(arrow(inner[0])) if inner else getattr(pa, _SIMPLE.get(kind, "string"))()

    def fitted(value: object, kind: object) -> object:
        """A value, encoded as JSON if its type has no column type."""
        simple = kind in _SIMPLE or hasattr(kind, "__args__")
        return value if value is None or (simple and kind is not str) else _cell(value)

    kept = {} if table.parquet else {name: _common(table.kinds[name]) for name in table.names}
    kinds = {**kept, **added}
    with atomic_write(path) as partial, contextlib.ExitStack() as stack:
        writers: list[Any] = []

        def write(part: TablePart, more: Sequence[Record]) -> None:
            rows = [{**row, **new} for row, new in zip(part.rows, more, strict=True)]
            made = {
                name: pa.array([fitted(row.get(name), kind) for row in rows], arrow(kind))
                for name, kind in kinds.items()
            }
            former = {} if part.batch is None else dict(
                zip(part.batch.schema.names, part.batch.columns, strict=True)
            )  # fmt: skip
            batch = pa.table({**former, **made})
            if not writers:
                writers.append(stack.enter_context(parquet.ParquetWriter(partial, batch.schema)))
            writers[0].write_table(batch)

        yield write


def _common(kinds: set[type]) -> object:
    """The column type for values of several types; `object` for JSON."""
    some = kinds - {type(None)}
    if some == {int, float}:
        return float
    return next(iter(some)) if len(some) == 1 and some <= {*_SIMPLE} else object
