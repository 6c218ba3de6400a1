"""Tables whose rows are read with all columns, for predictions."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from keras_attn.records.columns import COLUMN_FORMATS, COLUMN_SUFFIXES, read_columns
from keras_attn.records.encodings import Location
from keras_attn.records.reading import LineReading, chosen_format
from keras_attn.records.rows import Rows, check_parquet, is_parquet, shown_columns
from keras_attn.records.tables import Column

Record = dict[str, Any]


class InputReading(LineReading):
    """Reads the inputs of a task, each of which is a text or a list of texts."""

    skips = False  # each row gets a prediction

    def json_value(self, number: int, name: str, value: object, key: str) -> object:
        """Returns a string, or a list: the words of a sentence or the turns of a conversation."""
        is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
        return value if is_list else self.string(number, value, key)

    def refuse_bad(self, count: int) -> None:
        """Raises an error about all problems, if there are any."""
        if self.problems:
            self.refuse(count, "a text on each line", "text")


class TablePart(NamedTuple):
    """Consecutive rows of a table."""

    rows: list[Record]
    inputs: list[object]
    batch: Any
    """The Arrow batch of a Parquet file."""


class WholeTable:
    """A table in a file, whose rows are read in parts with all their columns.

    The file is read once in advance, so that a bad row is reported before any prediction.

    Args:
        path: A CSV, tab-separated, JSON-lines or Parquet file.
        columns: Names of the columns that form an input, keyed by their meaning, such as `"text"`.
        delimiter: Character between columns; inferred if empty.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If a column is missing, two columns have the same name, or a row has no input.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("id;text\\n7;Good.\\n")
    >>> table = WholeTable(path, {"text": "text"})
    >>> table.names, table.delimiter, next(table.parts(100)).inputs
    (['id', 'text'], ';', ['Good.'])
    """

    def __init__(self, path: Location, columns: Mapping[str, Column], delimiter: str = ""):
        self.path = path
        self.columns: dict[str, Column] = {**columns}
        self.parquet = is_parquet(path)
        self._asked = delimiter or None
        self.format = chosen_format("auto", path, COLUMN_SUFFIXES, COLUMN_FORMATS, "a table")
        self.kinds: dict[str, set[type]] = {}
        """The types of the values of each column."""
        reading = InputReading(path)
        count = 0
        for row in self._read(path, reading):
            count += 1
            for name, value in row.items():
                self.kinds.setdefault(name, set()).add(type(value))
        reading.refuse_bad(count)
        if not count:
            raise ValueError(f"{reading.where}: expected a table with rows. Received: none.")
        self.delimiter = reading.delimiter

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self.kinds)

    def check_new(self, names: Iterable[str]) -> None:
        """Raises a ValueError if a column of the table already has one of the new names."""
        there = [name for name in names if name in self.kinds]
        if there:
            raise ValueError(
                f"{os.fspath(self.path)}: expected a table without a column {there[0]!r}, which "
                "is the name of a column of predictions. Received: the columns "
                f"{shown_columns(self.names)}. Rename the column, or give the columns of "
                "predictions a prefix: --prefix predicted_."
            )

    def parts(self, size: int) -> Iterator[TablePart]:
        """Yields the rows in their order, in parts of at most `size` rows."""
        if self.parquet:
            yield from self._parquet_parts(size)
            return
        rows = self._read(self.path, InputReading(self.path))
        while some := list(itertools.islice(rows, size)):
            yield TablePart(some, [*map(self._input, some)], None)

    def _read(self, path: Location, reading: InputReading) -> Iterator[Record]:
        for _, row in read_columns(
            path, self.columns, reading, self.format, self._asked, whole=True
        ):
            yield row

    def _parquet_parts(self, size: int) -> Iterator[TablePart]:
        check_parquet(self.path)
        from pyarrow import parquet

        for batch in parquet.ParquetFile(self.path).iter_batches(size):
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            part = Rows(batch.schema.names, functools.partial(iter, values), str(self.path))
            rows = list(self._read(part, InputReading(part)))
            yield TablePart(rows, [*map(self._input, rows)], batch)

    def _input(self, row: Record) -> object:
        """The values of the columns of an input, or the value of a single column."""
        values = tuple(row[str(column)] for column in self.columns.values())
        return values if len(values) > 1 else values[0]
