"""One check for what functions and tasks read: lists, columns and iterators, but no tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, KeysView, Mapping, Set, Sized
from typing import Any, cast

import numpy as np

_SHOWN = 8


def listed(given: object, expected: str, columns: int = 1, read: str = "") -> list[Any]:
    """Converts a collection of inputs to a list; raises an error for anything else.

    Lists, tuples, columns (NumPy arrays, Series of pandas and polars, Arrow arrays), iterators and
    other ordered collections are accepted. A table raises an error, because iterating over it gives
    the names of its columns. A dict, a set, bytes, and a single string or path also raise an error.
    """
    check_listed(given, expected, columns, read)
    if isinstance(given, np.ndarray) and given.dtype.kind in "OU":
        return given.tolist()
    return given.to_pylist() if hasattr(given, "to_pylist") else list(cast(Iterable, given))


def check_listed(given: object, expected: str, columns: int = 1, read: str = "") -> None:
    """Raises an error for inputs that `listed` does not accept, without reading iterators."""
    problem = _problem(given, columns, read)
    if problem:
        phrase = expected if expected.startswith("a ") else f"a list of {expected}"
        raise TypeError(f"Expected {phrase}. Received: {problem}")


def read_twice(given: object, expected: str) -> Any:
    """Returns examples that can be read more than once: iterators and columns become lists."""
    table = any(hasattr(given, name) for name in ("columns", "column_names"))
    prepared = isinstance(given, Sized) and not (
        table or isinstance(given, Iterable)
    )  # such as ids
    if given is None or isinstance(given, str) or prepared:
        return given
    check_listed(given, expected, 2)
    columns = any(hasattr(given, name) for name in ("tolist", "to_list", "to_pylist"))
    return listed(given, expected) if columns or isinstance(given, Iterator) else given


def with_labels(examples: object, labels: object, expected: str) -> list[tuple[Any, Any]]:
    """Combines inputs and labels that were given separately to tuples (input, label)."""
    inputs, given = listed(examples, expected), listed(labels, "labels")
    if len(inputs) != len(given):
        raise ValueError(
            f"Expected a label for each of the {expected}. Received: {len(inputs):,} {expected} "
            f"and {len(given):,} labels."
        )
    return list(zip(inputs, given, strict=True))


def flattened(example: object) -> list[Any]:
    """Returns the three parts of an example of two inputs, `((a, b), y)` or `(a, b, y)`."""
    parts = list(example) if isinstance(example, tuple | list) else []
    if len(parts) == 2 and isinstance(parts[0], tuple | list):
        return [*parts[0], parts[1]]
    return parts


def _problem(given: object, columns: int, read: str) -> str:
    """Describes the problem and its remedy; empty if there is no problem."""
    kind = type(given).__name__
    if isinstance(given, str | os.PathLike):
        text = os.fspath(given)
        is_path = not isinstance(given, str) or (bool(read) and not any(map(str.isspace, given)))
        what = "the path" if is_path else "the string"
        shown = repr(text)
        shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
        return f"{what} {shown}. " + (f"Read the file: {read}." if read else "Wrap it in a list.")
    if isinstance(given, bytes | bytearray | memoryview):
        return f"{kind}. Decode bytes first, by `.decode('utf-8')`, and give a list of strings."
    if isinstance(given, Mapping):
        keys = list(given)[:_SHOWN]
        return f"{kind} with the keys {keys}. Give a list, such as one of its values."
    if isinstance(given, Set) and not isinstance(given, KeysView):
        return f"{kind}, which has no order. Give a list, such as `sorted(...)` of it."
    # Series and arrays have none of both; Arrow's tables and those of `datasets` have the second.
    names = getattr(given, "columns", None)
    names = getattr(given, "column_names", None) if names is None else names
    if names is not None:
        names = [str(name) for name in names][:_SHOWN]
        some = [f"table[{name!r}]" for name in names[:columns]]
        advice = f"one column, such as {some[0]}" if some else "a list"
        if len(some) > 1:
            advice = f"rows as tuples, such as list(zip({', '.join(some)}))"
        return f"{kind}, a table with the columns {names}. Give {advice}."
    if not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        return f"{given!r:.80} of type {kind}."
    return ""
