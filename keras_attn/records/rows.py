"""Tables in memory and Parquet files, read row by row like JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Protocol, SupportsInt, cast

from keras_attn.packages import check_installed

PARQUET = (".parquet", ".pq")
"""Suffixes of Parquet files."""
_PARQUET_MAGIC = b"PAR1"
_NO_VALUES = ("NAType", "NaTType", "NoneType")  # of pandas


class _Table(Protocol):
    """The part of Arrow's table interface that is used."""

    column_names: Sequence[str]

    def column(self, i: int) -> _Column: ...


class _Column(Protocol):
    """The part of Arrow's column interface that is used."""

    def to_pylist(self) -> list[object]: ...


class _Frame(Protocol):
    """The part of the DataFrame interface that is used."""

    columns: Iterable[object]

    def itertuples(self, index: bool, name: None) -> Iterator[tuple[object, ...]]: ...

    def iter_rows(self) -> Iterator[tuple[object, ...]]: ...


class _Dataset(Protocol):
    """The part of `tf.data.Dataset` that is used."""

    element_spec: object

    def cardinality(self) -> SupportsInt: ...

    def as_numpy_iterator(self) -> Iterator[object]: ...


class Rows(os.PathLike[str]):
    """A table in memory, which readers accept instead of a file.

    Args:
        columns: The names of the columns.
        rows: Function that returns the rows, each with a value for each column. It is called each
            time the table is read.
        where: Name of the table for messages.

    Raises:
        ValueError: If two columns have the same name.

    Example:

    >>> list(Rows(["text", "stars"], lambda: iter([("Good.", 5)]), "the table").lines())
    [b'{"text": "Good.", "stars": 5}']
    """

    def __init__(
        self, columns: Iterable[object], rows: Callable[[], Iterable[Iterable[object]]], where: str
    ):
        self.columns = [str(column) for column in columns]
        self.where = where
        self._rows = rows
        check_different(self.columns, where)

    def __fspath__(self) -> str:
        return self.where

    def lines(self) -> Iterator[bytes]:
        """Yields each row as the UTF-8 bytes of a JSON object; missing values become null."""
        for row in self._rows():
            values = dict(zip(self.columns, map(_plain, row), strict=True))
            yield json.dumps(values, default=_plain).encode()


def check_different(names: Sequence[str], where: str) -> None:
    """Raises a ValueError if two columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Expected columns of different names in {where}. Received: {twice[0]!r} "
            f"{names.count(twice[0])} times among {shown_columns(names)}. Rename one of them."
        )


def shown_columns(names: Iterable[str]) -> str:
    """Returns the names of columns, joined for a message."""
    return ", ".join(map(repr, names))[:300] or "none"


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file is a Parquet file, by its suffix or its first bytes."""
    if os.fspath(path).lower().endswith(PARQUET):
        return True
    place = Path(path).expanduser()
    if not place.is_file():
        return False
    with open(place, "rb") as file:
        return file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC


def has_rows(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is a table in memory (`Rows`) or a Parquet file."""
    return isinstance(path, Rows) or is_parquet(path)


def check_parquet(path: str | os.PathLike[str]) -> None:
    """Raises an ImportError if pyarrow is missing."""
    check_installed("pyarrow", f"{os.fspath(path)}: a Parquet file")


def parquet_rows(path: str | os.PathLike[str]) -> Rows:
    """Returns a Parquet file as `Rows`."""
    check_parquet(path)
    from pyarrow import parquet

    where = os.fspath(path)
    with _whole_parquet(where):
        file = parquet.ParquetFile(Path(path).expanduser())
        names = file.schema_arrow.names

    def rows() -> Iterator[Iterable[object]]:
        with _whole_parquet(where):
            for batch in file.iter_batches(1024):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    return Rows(names, rows, where)


@contextlib.contextmanager
def _whole_parquet(where: str) -> Iterator[None]:
    """Names the file if it turns out to be damaged."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system
            raise
        raise ValueError(
            f"{where}: expected a whole Parquet file. Received: another file, or one that is cut "
            f"off or damaged ({error})."
        ) from error


def rows_of(given: object) -> object:
    """Converts a table in memory to `Rows`; returns other examples unchanged.

    A table is a dict of columns, a DataFrame (pandas, polars), a table of Arrow or of `datasets`,
    or a `tf.data.Dataset` of dicts. Any other `tf.data.Dataset` becomes a list.
    """
    where = f"the {type(given).__name__}"
    if isinstance(given, Rows):
        return given
    if hasattr(given, "element_spec") and hasattr(given, "as_numpy_iterator"):
        return _of_tensorflow(cast(_Dataset, given), where)
    names = getattr(given, "column_names", None)
    if isinstance(given, Mapping):
        if isinstance(names, Mapping):
            raise TypeError(
                f"Expected one table. Received: {where} with several tables, "
                f"{shown_columns(given)}. Pass one of them, such as "
                f"tables[{next(iter(given))!r}]."
            )
        return _of_columns(given, where)
    if hasattr(given, "itertuples") or hasattr(given, "iter_rows"):  # pandas, polars
        frame = cast(_Frame, given)
        if hasattr(given, "itertuples"):  # one that has columns of equal names too
            return Rows(frame.columns, lambda: frame.itertuples(index=False, name=None), where)
        return Rows(frame.columns, frame.iter_rows, where)
    if isinstance(names, list) and hasattr(given, "to_pylist"):  # Arrow
        table = cast(_Table, given)
        columns = range(len(names))
        rows = lambda: zip(*(table.column(i).to_pylist() for i in columns), strict=True)  # noqa: E731
        return Rows(names, rows, where)
    if isinstance(names, list) and isinstance(given, Iterable):  # datasets
        return Rows(names, lambda: _of_records(given, names, where), where)
    return given


def _of_records(
    given: Iterable[Mapping[str, object]], names: Sequence[str], where: str
) -> Iterator[list[object]]:
    """The rows of a dataset."""
    count = 0
    for record in given:
        count += 1
        yield [record[name] for name in names]
    if isinstance(given, Sized) and count < len(given):
        raise ValueError(
            f"Expected {len(given):,} rows in {where}, as its length says. Received: {count:,}; it "
            "ends early."
        )


def _of_columns(given: Mapping[object, object], where: str) -> Rows:
    """The rows of a dict of columns."""
    columns = {}
    for name, column in given.items():
        if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
            raise TypeError(
                f"Expected columns, lists of values by their names. Received: {where} with "
                f"{column!r:.60} of type {type(column).__name__} as {name!r}."
            )
        columns[name] = list(column)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        (short, least), (long, most) = (
            pick(lengths.items(), key=lambda item: item[1]) for pick in (min, max)
        )
        raise ValueError(
            f"Expected columns of equally many values in {where}. Received: {short!r} ends after "
            f"{least:,} values, {long!r} has {most:,}."
        )
    return Rows(columns, lambda: zip(*columns.values(), strict=True), where)


def _of_tensorflow(given: _Dataset, where: str) -> Rows | list[object]:
    """The rows of a `tf.data.Dataset` of dicts; the examples of any other one."""
    if int(given.cardinality()) == -1:
        raise ValueError(
            f"Expected a dataset that ends. Received: {where} without an end. Leave out "
            "`repeat()`: each epoch reads all examples."
        )
    spec = given.element_spec
    if isinstance(spec, Mapping):
        names = list(spec)
        parts = lambda element: tuple(element[name] for name in names)  # noqa: E731
        return Rows(names, lambda: _unbatched(given, where, parts), where)
    return list(_unbatched(given, where, lambda element: element))


def _unbatched(
    given: _Dataset, where: str, parts: Callable[[object], object]
) -> Iterator[tuple[object, ...]]:
    """The examples of the elements of a dataset, which may be batches."""
    from tensorflow import errors

    elements, count = given.as_numpy_iterator(), 0
    while True:
        try:
            element = next(elements, None)
        except errors.OpError as error:
            raise ValueError(
                f"Expected a dataset that can be read to its end. Received: {where}, which ends "
                f"early, after {count:,} examples ({_reason(error.message)})."
            ) from error
        if element is None:
            return
        for example in _examples(parts(element), where):
            count += 1
            yield example


def _reason(message: str) -> str:
    """Returns the first line of a message of TensorFlow, without the name of the op."""
    return message.partition("\n")[0].rpartition("}} ")[2][:300]


def _examples(value: object, where: str) -> list[Any]:
    """The examples of a part of a batch; a tuple has parts, such as texts and labels."""
    if isinstance(value, Mapping):
        raise TypeError(
            "Expected batches that are dicts of columns, or tuples of texts and labels. Received: "
            f"{where} with a dict within a tuple."
        )
    if isinstance(value, tuple):
        sides = [_examples(part, where) for part in value]
        if len({len(side) for side in sides}) > 1:
            raise ValueError(
                f"Expected batches whose parts have equally many values. Received: {where} with a "
                f"batch of {' and '.join(str(len(side)) for side in sides)} values."
            )
        return list(zip(*sides, strict=True))
    if getattr(value, "shape", ()) == ():  # not a batch
        return [_plain(value)]
    # Of ragged batches; others are arrays.
    return [*map(_plain, value.to_list() if hasattr(value, "to_list") else cast(Iterable, value))]


def _plain(value: object) -> object:
    """A JSON-compatible value; missing values are None, and invalid UTF-8 becomes surrogates."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if type(value).__name__ in _NO_VALUES or (isinstance(value, float) and value != value):
        return None
    if value is None or isinstance(value, str | int | float | bool | Mapping):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [*map(_plain, value)] if isinstance(value, list | tuple) else str(value)
