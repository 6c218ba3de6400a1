"""Problems of the lines of a file, and their descriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

PROBLEMS = {
    "encoding": "not valid Unicode text",
    "columns": "with too few or too many columns",
    "csv": "that are no row of a table",
    "json": "not one JSON object",
    "keys": "without the keys",
    "missing": "with a missing value",
    "type": "with a value that is not a string",
    "empty": "with an empty side",
    "long": "with a side that is too long",
}


class LineProblem(NamedTuple):
    """The reason why a line of a file was left out.

    Args:
        line: Number of the line, from 1. In a table without lines, the number of the row; in a file
            that is one JSON value, the number of the dialogue or question; in a folder with a text
            in each file, the number of the file.
        kind: `"encoding"`, `"columns"`, `"csv"`, `"json"`, `"keys"`, `"missing"`, `"type"`,
            `"empty"`, `"long"`, or a kind of the reader, such as `"label"`.
        what: Description of the problem.

    Example:

    >>> problem = LineProblem(7, "empty", "the target is empty")
    >>> f"line {problem.line}: {problem.what}"
    'line 7: the target is empty'
    """

    line: int
    kind: str
    what: str


def count_problems(
    problems: Iterable[tuple[Hashable, str, str]], kinds: Iterable[str]
) -> dict[str, int]:
    """Returns the number of lines (or other units) with each kind of problem."""
    counts = Counter(kind for _, kind in {(where, kind) for where, kind, _ in problems})
    return {kind: counts[kind] for kind in kinds if counts[kind]}


def describe_problems(
    problems: Sequence[LineProblem],
    shown: int = 5,
    kinds: Mapping[str, str] = PROBLEMS,
    unit: str = "line",
) -> str:
    """Describes each kind of problem: how many lines have it, which lines, and first details."""
    parts = []
    for kind, words in kinds.items():
        of_kind = [problem for problem in problems if problem.kind == kind]
        if of_kind:
            lines = sorted({problem.line for problem in of_kind})
            numbers = ", ".join(map(str, lines[:shown])) + (", ..." if len(lines) > shown else "")
            several = len(lines) > 1 and len({problem.what for problem in of_kind}) > 1
            first = f"; the first: {of_kind[0].what}" if several else f": {of_kind[0].what}"
            plural = "s" if len(lines) > 1 else ""
            parts.append(f"{len(lines)} {words} ({unit}{plural} {numbers}{first})")
    return "; ".join(parts)


def many(count: int, noun: str) -> str:
    """Returns a number and its noun, in the plural unless the number is 1."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
