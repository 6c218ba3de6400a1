"""Pairs of texts with a number, such as their similarity: readers, checks and splits."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from keras_attn.inputs import flattened, listed
from keras_attn.records.columns import read_columns
from keras_attn.records.items import Records
from keras_attn.records.labelled_splits import split_alike
from keras_attn.records.problems import PROBLEMS, LineProblem, many
from keras_attn.records.reading import LineReading, Location, existing
from keras_attn.records.tables import Column


class ScoredPair(NamedTuple):
    """Two texts with a number, such as their similarity.

    Example:

    >>> ScoredPair("A dog runs.", "A dog is running.", 4.8).score
    4.8
    """

    first: str
    second: str
    score: float
    """A number for the pair, such as the similarity of its texts."""


@dataclass(frozen=True)
class ScoredPairs(Records[ScoredPair]):
    """The scored pairs of a file, and the problems of the lines that were left out.

    Example:

    >>> print(ScoredPairs([ScoredPair("a", "b", 2.5)], "a.csv").summary())
    a.csv: 1 pair, scores from 2.5 to 2.5.
    """

    kinds = {**PROBLEMS, "empty": "with an empty text", "score": "without a number"}  # noqa: RUF012

    examples: list[ScoredPair]
    where: str = "pairs"
    problems: list[LineProblem] = field(default_factory=list)

    def summary(self) -> str:
        """Returns the number of pairs, the range of their scores and the first bad lines, as
        text."""
        scores = [example.score for example in self.examples]
        text = f"{self.where}: {many(len(scores), 'pair')}"
        if scores:
            text += f", scores from {min(scores):g} to {max(scores):g}"
        return f"{text}{self._left_out()}."


class NumberReading(LineReading):
    """Reads texts with a number, whose column is named `score`."""

    kinds = ScoredPairs.kinds

    def json_value(self, number: int, name: str, value: object, key: str) -> object:
        """Returns the value under a key of a JSON object; numbers are checked later."""
        if name == "score":
            return "null" if value is None else value
        return super().json_value(number, name, value, key)

    def number(self, number: int, given: object) -> float | None:
        """Returns the number of a line; if it is bad, records a problem and returns None."""
        value = math.nan
        if isinstance(given, str) and "_" not in given:  # Python reads 1_000
            with contextlib.suppress(ValueError):
                # Where commas are for decimals, semicolons are between cells.
                decimal = "," if self.delimiter == ";" and "." not in given else "."
                value = float(given.strip().replace(decimal, "."))
        elif isinstance(given, int | float) and not isinstance(given, bool):
            with contextlib.suppress(OverflowError):
                value = float(given)
        if given is None or math.isfinite(value):
            return None if given is None else value
        self.problem(number, "score", f"{given!r:.60} is not a number")
        return None

    def pair(self, number: int, row: dict[str, Any]) -> ScoredPair | None:
        """Returns the texts and number of a line; if one is bad, records a problem and returns
        None."""
        first = self.text(number, "first text", row["first"])
        second = self.text(number, "second text", row["second"])
        score = self.number(number, row["score"])
        if first is None or second is None or score is None:
            return None
        return ScoredPair(first, second, score)


def read_scored_pairs(
    path: Location,
    first: Column = "sentence1",
    second: Column = "sentence2",
    score: Column = "score",
    format: str = "auto",
    *,
    delimiter: str | None = None,
    on_error: str = "error",
) -> ScoredPairs:
    r"""Reads pairs of texts, each with a number.

    The formats are the same as in `read_labelled`, inferred from the file name. If all columns
    are given by number rather than by name, the file is read without a header, and extra cells are
    ignored. For example, read the STS Benchmark, whose files are tab-separated although they are
    named `*.csv`, with `read_scored_pairs("sts-train.csv", 5, 6, 4, format="tsv")`.

    Args:
        path: The file, or `Rows`. A text file may be gzipped.
        first: Name or number (from 0) of the column of the first texts; key of the JSON object.
        second: Column or key of the second texts.
        score: Column or key of the numbers.
        format: `"auto"`, `"csv"`, `"tsv"` or `"json_lines"`.
        delimiter: The single character between cells. By default, one of `,`, `;`, `|` and tab is
            inferred from the header; without a header, it is a comma in `"csv"` and a tab in
            `"tsv"`. In a table with semicolons, scores may have decimal commas.
        on_error: `"error"` raises one ValueError for all bad lines. `"skip"` leaves bad lines out,
            and lists them in `problems`.

    Returns:
        A `ScoredPairs`.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file does not exist or cannot be read.
        ValueError: If no pair is left or a column is missing. With `on_error="error"`, also if a
            text is empty, a score is not a finite number, or a line is bad for another reason given
            in `read_labelled`.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some.tsv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("x\t3.5\tA dog.\tA hound.\n")
    >>> read_scored_pairs(path, 2, 3, 1)[0]
    ScoredPair(first='A dog.', second='A hound.', score=3.5)
    """
    reading = NumberReading(existing(path, "a file of scored pairs"), on_error)
    columns = {"first": first, "second": second, "score": score}
    rows = read_columns(path, columns, reading, format, delimiter)
    pairs = [pair for number, row in rows if (pair := reading.pair(number, row))]
    reading.refuse(len(pairs), "two texts and a number on each line", "pair")
    return ScoredPairs(pairs, reading.where, reading.problems).in_units(reading.unit)


def checked_scored_pairs(examples: Iterable[object]) -> list[ScoredPair]:
    """Checks `ScoredPair`s, or tuples ((first, second), score)."""
    pairs = []
    read = "keras_attn.records.read_scored_pairs(path)"
    for i, example in enumerate(listed(examples, "pairs of texts with a number", 3, read)):
        parts = flattened(example)
        texts = len(parts) == 3 and all(isinstance(part, str) for part in parts[:2])
        if not texts or not is_finite(parts[2]):
            raise ValueError(
                "Expected pairs of strings with a finite number, ((first, second), score). "
                f"Received: {example!r:.100} at position {i}."
            )
        pairs.append(ScoredPair(parts[0], parts[1], float(parts[2])))
    if not pairs:
        raise ValueError("Expected at least one pair. Received: none.")
    return pairs


def is_finite(value: Any) -> bool:
    """Returns whether a value of any type is a finite number."""
    if isinstance(value, bool | str):
        return False
    try:
        return math.isfinite(value)
    except TypeError:
        return False


def split_scored_pairs(
    examples: Sequence[ScoredPair], dev: int | float = 0.1, seed: int = 0, apart: bool = True
) -> tuple[list[ScoredPair], list[ScoredPair]]:
    """Splits pairs at random into two sets.

    Args:
        examples: The pairs.
        dev: Number of pairs in the second set, or their fraction if it is below 1.
        seed: Seed of the split, any integer.
        apart: Whether pairs of equal or nearly equal texts, in either order, are kept together, as
            in `split_labelled`. If False, they may be in different sets, which causes a warning.

    Returns:
        The training pairs and the development pairs, as two lists.

    Raises:
        ValueError: If `dev` is out of range, or there are too few pairs.

    Example:

    >>> pairs = [ScoredPair(f"word {chr(97 + i)}", "b", i) for i in range(20)]
    >>> [len(side) for side in split_scored_pairs(pairs, 0.2)]
    [16, 4]
    """
    return split_alike(examples, lambda x: (x.first, x.second), dev, seed, apart)
