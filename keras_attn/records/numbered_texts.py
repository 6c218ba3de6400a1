"""Texts, or pairs of texts, with a number: readers, checks and splits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attn.inputs import flattened, listed
from keras_attn.records.columns import read_columns
from keras_attn.records.items import Records
from keras_attn.records.labelled_splits import split_alike
from keras_attn.records.labelled_texts import Input, check_alike
from keras_attn.records.problems import LineProblem, many
from keras_attn.records.reading import Location, existing
from keras_attn.records.scored_pairs import NumberReading, ScoredPairs, is_finite
from keras_attn.records.tables import Column

_MOST = 1e30  # models compute in float32, which ends at 3e38


class NumberedText(NamedTuple):
    """A text, or a pair of texts, with a number.

    Example:

    >>> NumberedText("A film to remember.", 9.0).input
    'A film to remember.'
    """

    text: str
    number: float
    second: str | None = None
    """The second text of a pair; None for a single text."""

    @property
    def input(self) -> Input:
        """The text, or both texts of a pair."""
        return self.text if self.second is None else (self.text, self.second)


@dataclass(frozen=True)
class NumberedTexts(Records[NumberedText]):
    """The texts of a file with their numbers, and the problems of lines that were left out.

    Example:

    >>> print(NumberedTexts([NumberedText("a", 2.5), NumberedText("b", 4)], "a.csv").summary())
    a.csv: 2 texts, numbers from 2.5 to 4.
    """

    kinds = ScoredPairs.kinds

    examples: list[NumberedText]
    where: str = "texts"
    problems: list[LineProblem] = field(default_factory=list)

    def summary(self) -> str:
        """Returns the number of texts, the range of their numbers and the first bad lines, as
        text."""
        numbers = [example.number for example in self.examples]
        text = f"{self.where}: {many(len(numbers), 'text')}"
        if numbers:
            text += f", numbers from {min(numbers):g} to {max(numbers):g}"
        return f"{text}{self._left_out()}."


def read_numbered_texts(
    path: Location,
    text: Column = "text",
    number: Column = "number",
    text_pair: Column = "",
    format: str = "auto",
    *,
    delimiter: str | None = None,
    on_error: str = "error",
) -> NumberedTexts:
    r"""Reads texts or pairs of texts, each with a number.

    The formats are the same as in `read_labelled`, inferred from the file name. If all columns are
    given by number rather than by name, the file is read without a header, and extra cells are
    ignored.

    Args:
        path: The file, or `Rows`. A text file may be gzipped.
        text: Name or number (from 0) of the column of the texts; key of the JSON object.
        number: Column or key of the numbers.
        text_pair: Column or key of the second texts; empty for single texts.
        format: `"auto"`, `"csv"`, `"tsv"` or `"json_lines"`.
        delimiter: The single character between cells; inferred by default, as in
            `read_scored_pairs`. In a table with semicolons, numbers may have decimal commas.
        on_error: `"error"` raises one ValueError for all bad lines. `"skip"` leaves bad lines out,
            and lists them in `problems`.

    Returns:
        A `NumberedTexts`.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file does not exist or cannot be read.
        ValueError: If no text is left or a column is missing. With `on_error="error"`, also if a
            text is empty, a number is not finite, or a line is bad for another reason given in
            `read_labelled`.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "some.csv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("text;stars\nGood.;4,5\n")
    >>> read_numbered_texts(path, number="stars")[0]
    NumberedText(text='Good.', number=4.5, second=None)
    """
    reading = NumberReading(existing(path, "a file of texts with a number"), on_error)
    columns: dict[str, Column] = {"text": text, "score": number}
    if text_pair != "":
        columns["second"] = text_pair
    found = []
    for line, row in read_columns(path, columns, reading, format, delimiter):
        first = reading.text(line, "text", row["text"])
        second = reading.text(line, "second text", row["second"]) if "second" in row else None
        value = reading.number(line, row["score"])
        if first is not None and value is not None and (second is not None) == ("second" in row):
            found.append(NumberedText(first, value, second))
    reading.refuse(len(found), "a text and a number on each line", "text")
    return NumberedTexts(found, reading.where, reading.problems).in_units(reading.unit)


def checked_numbered(examples: Iterable[object]) -> list[NumberedText]:
    """Checks `NumberedText`s, or tuples (text, number); the texts are all single or all pairs."""
    read = "keras_attn.records.read_numbered_texts(path)"
    checked = []
    for i, example in enumerate(listed(examples, "texts with a number", 2, read)):
        if isinstance(example, NumberedText):
            example = (example.input, example.number)
        *texts, number = flattened(example) or [None]
        if len(texts) not in (1, 2) or not all(isinstance(x, str) for x in texts):
            raise ValueError(
                "Expected (text, number) pairs: a string or a pair of strings, and a number. "
                f"Received: {example!r:.100} at position {i}."
            )
        if not is_finite(number):
            raise ValueError(
                f"Expected a finite number with each text. Received: {number!r:.60} at "
                f"position {i}. Leave out texts without a number. If the texts have classes "
                "instead of numbers, use the task text-classification."
            )
        if abs(number) > _MOST:
            raise ValueError(
                f"Expected numbers between -{_MOST:g} and {_MOST:g}. Received: {number!r:.60} at "
                f"position {i}. Divide the numbers, or learn their logarithms."
            )
        checked.append(NumberedText(texts[0], float(number), texts[1] if texts[1:] else None))
    if not checked:
        raise ValueError("Expected at least one text with a number. Received: none.")
    check_alike([example.second for example in checked])
    return checked


def split_numbered(
    examples: Sequence[NumberedText], dev: int | float = 0.1, seed: int = 0, apart: bool = True
) -> tuple[list[NumberedText], list[NumberedText]]:
    """Splits texts with numbers at random into two sets.

    Args:
        examples: The texts with their numbers.
        dev: Number of texts in the second set, or their fraction if it is below 1.
        seed: Seed of the split, any integer.
        apart: Whether equal and nearly equal texts are kept together, as in `split_labelled`. If
            False, they may be in different sets, which causes a warning.

    Returns:
        The training texts and the development texts, as two lists.

    Raises:
        ValueError: If `dev` is out of range, or there are too few texts.

    Example:

    >>> texts = [NumberedText(f"word {chr(97 + i)}", i) for i in range(20)]
    >>> [len(side) for side in split_numbered(texts, 0.2)]
    [16, 4]
    """
    return split_alike(examples, lambda x: (x.text, x.second), dev, seed, apart)
