"""Pairs of texts with labels, such as a premise and a hypothesis: readers, checks and a split."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attn.inputs import flattened, listed
from keras_attn.records.columns import COLUMN_FORMATS, COLUMN_SUFFIXES, read_columns
from keras_attn.records.items import Records
from keras_attn.records.labelled_texts import LABELLED_PROBLEMS, label_name
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.problems import LineProblem, many
from keras_attn.records.reading import LineReading, Location, format_of, is_blank
from keras_attn.records.rows import Rows
from keras_attn.records.tables import Column

_COLUMNS = {
    "sick": ("sentence_A", "sentence_B", "entailment_label"),
    "snli": ("sentence1", "sentence2", "gold_label"),
}
"""Column names of special formats; other formats use `premise`, `hypothesis` and `label`."""
_TABLES = {"sick": "tsv", "snli": "json_lines"}
_SPLIT_COLUMN = "SemEval_set"
_SPLITS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}
_NO_LABEL = "-"  # SNLI's annotators did not agree
_REVERSED = {
    "B_entails_A": "ENTAILMENT",
    "B_contradicts_A": "CONTRADICTION",
    "B_neutral_A": "NEUTRAL",
}


class LabelledPair(NamedTuple):
    """Two texts, and the label of the pair.

    Example:

    >>> LabelledPair("A dog runs.", "An animal moves.", "ENTAILMENT").label
    'ENTAILMENT'
    """

    premise: str
    hypothesis: str
    label: str


@dataclass(frozen=True)
class LabelledPairs(Records[LabelledPair]):
    """The labelled pairs of a file, in their order, and the problems of lines that were left out.

    Args:
        pairs: The pairs with their labels.
        where: The file, for messages.
        lines: Number of lines that were read.
        unlabelled: Number of pairs with the label `-` (annotators disagreed), which are left out.
        problems: Problems of the lines that were left out.

    Example:

    >>> pairs = LabelledPairs([LabelledPair("A dog runs.", "It runs.", "yes")], "a.csv", 2)
    >>> print(pairs.summary())
    a.csv: 1 pair of 2 lines. Labels: yes 1.
    """

    kinds = LABELLED_PROBLEMS

    pairs: list[LabelledPair]
    where: str = "pairs"
    lines: int = 0
    unlabelled: int = 0
    problems: list[LineProblem] = field(default_factory=list)

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of pairs with each label, sorted by name."""
        return dict(sorted(Counter(pair.label for pair in self.pairs).items()))

    def summary(self) -> str:
        """Returns the numbers of pairs, lines and labels, and the first bad lines, as text."""
        labels = ", ".join(f"{name} {count:,}" for name, count in self.label_counts.items())
        text = f"{self.where}: {many(len(self.pairs), 'pair')} of {many(self.lines, self.unit)}."
        text += f" Labels: {labels}"
        if self.unlabelled:
            text += f". Left out: {many(self.unlabelled, 'pair')} with the label {_NO_LABEL!r}"
        return f"{text}{self._left_out()}."


class _Reading(LineReading):
    kinds = LABELLED_PROBLEMS

    def __init__(self, where: Location, on_error: str, labels: Collection[str] | None):
        super().__init__(where, on_error)
        self.labels = labels
        self.pairs: list[LabelledPair] = []
        self.unlabelled = 0

    def json_value(self, number: int, name: str, value: object, key: str) -> object:
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if isinstance(value, int) else self.string(number, value, key)

    def add(
        self, number: int, premise: str | None, hypothesis: str | None, label: str | None
    ) -> None:
        """Adds a line's texts and label; None stands for a value whose problem is already noted."""
        before = len(self.problems)
        if premise is None or hypothesis is None or label is None:
            return
        pair = LabelledPair(premise.strip(), hypothesis.strip(), label.strip())
        if pair.label == _NO_LABEL:
            self.unlabelled += 1
            return
        for name, text in pair._asdict().items():
            if is_blank(text):
                kind = "label" if name == "label" else "empty"
                self.problem(number, kind, f"the {name} is empty")
        if self.labels is not None and pair.label not in self.labels:
            self.no_label(number, pair.label, self.labels)
        if len(self.problems) == before:
            self.pairs.append(pair)


def read_labelled_pairs(
    path: Location,
    format: str = "auto",
    *,
    premise: str = "",
    hypothesis: str = "",
    label: str = "",
    delimiter: str | None = None,
    on_error: str = "error",
    split: str | None = None,
    swap: bool = False,
    labels: Collection[str] | None = None,
) -> LabelledPairs:
    r"""Reads labelled pairs of texts from a table, JSON lines (plain or gzipped) or Parquet.

    | format | what it is |
    |---|---|
    | `"csv"`, `"tsv"` | a table with a header and the columns `premise`, `hypothesis` and `label` |
    | `"json_lines"` | a JSON object on each line, with `premise`, `hypothesis` and `label`; or a Parquet file or `Rows` with these columns |
    | `"sick"` | SICK's table, with `sentence_A`, `sentence_B` and `entailment_label` (`entailment_judgment` in SemEval's parts) |
    | `"snli"` | SNLI's and MultiNLI's JSON lines, with `sentence1`, `sentence2` and `gold_label` |

    `"auto"` infers the format from the first line, then from the file name. Pairs with the label
    `-` are left out and counted.

    Args:
        path: The file.
        format: `"auto"`, or a format in the table.
        premise: Column, or JSON key, of the first texts; if empty, the default of the format.
        hypothesis: Column, or JSON key, of the second texts; if empty, the default of the format.
        label: Column, or JSON key, of the labels; if empty, the default of the format.
        delimiter: The single character between the cells of a table. Default: a comma in `"csv"`
            and a tab in other tables, unless another one of `,`, `;`, `|` and tab separates the
            column names in the first row.
        on_error: `"error"` raises one ValueError for all bad lines. `"skip"` leaves bad lines out,
            and lists them in `problems`.
        split: The part to read, `"train"`, `"dev"` or `"test"`, from a table that has SICK's column
            `SemEval_set`; None for all parts. Other files are read completely.
        swap: Whether each pair of SICK is followed by the pair with swapped sentences, whose label
            comes from the column `entailment_BA`.
        labels: The labels that may occur; a line with another label is bad. None allows any label.

    Returns:
        A `LabelledPairs`.

    Raises:
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        OSError: If the file is missing or cannot be read.
        ValueError: If a column is missing, `split` is unknown, a setting does not apply to the
            format, no pair is left, or, with `on_error="error"`, a line is bad (the message has the
            line number).

    Example:

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/pairs.tsv"
    >>> with open(path, "w") as file:
    ...     _ = file.write("premise\thypothesis\tlabel\nA dog runs.\tIt runs.\tyes\n")
    >>> read_labelled_pairs(path)[0]
    LabelledPair(premise='A dog runs.', hypothesis='It runs.', label='yes')
    """  # noqa: E501  a table
    if split is not None and split not in _SPLITS:
        raise ValueError(
            f"`split` must be one of {', '.join(map(repr, _SPLITS))}, or None. Received: {split!r}."
        )
    kind, first, has_splits = _layout(path, format)
    usual = _COLUMNS.get(kind, ("premise", "hypothesis", "label"))
    if kind == "sick" and b"entailment_label" not in first:
        usual = (*usual[:2], "entailment_judgment")  # as the parts of SemEval have it
    own = {"premise": premise, "hypothesis": hypothesis, "label": label}
    columns: dict[str, Column] = {
        name: column or other for (name, column), other in zip(own.items(), usual, strict=True)
    }
    if swap:
        if kind != "sick":
            raise ValueError(
                "`swap` (`reversed_pairs`, --reversed-pairs) is only used with files of SICK. "
                f"Received: {os.fspath(path)}, a file of the format {kind}. Leave it out."
            )
        columns["swapped"] = "entailment_BA"
    if has_splits:
        columns["split"] = _SPLIT_COLUMN
    reading = _Reading(path, on_error, labels)
    wanted = None if split is None else _SPLITS[split]
    for number, row in read_columns(path, columns, reading, _TABLES.get(kind, kind), delimiter):
        if wanted is not None and row.get("split", wanted) != wanted:
            continue
        reading.add(number, row["premise"], row["hypothesis"], row["label"])
        if swap:
            reverse = _REVERSED.get(row["swapped"] or "")
            if reverse is None:
                what = f"{row['swapped']!r} is none of {', '.join(_REVERSED)}"
                reading.problem(number, "label", what)
            reading.add(number, row["hypothesis"], row["premise"], reverse)
    reading.refuse(len(reading.pairs), "two texts and their label on each line", "labelled pair")
    pairs = LabelledPairs(
        reading.pairs, reading.where, reading.lines, reading.unlabelled, reading.problems
    )
    return pairs.in_units(reading.unit)


def has_splits(path: Location, format: str = "auto") -> bool:
    """Returns whether a file of labelled pairs has a column that assigns pairs to splits."""
    return _layout(path, format)[2]


def _layout(path: Location, format: str) -> tuple[str, bytes, bool]:
    """The format of a file, its first line, and whether it has a column of parts."""
    if not isinstance(path, Rows) and not os.path.isfile(os.path.expanduser(path)):
        where = os.fspath(path)
        raise FileNotFoundError(f"Expected a file of labelled pairs at {where}. There is none.")
    with open_lines(path) as lines:
        first = next(lines, b"")
    kind = format
    if format == "auto" and b"sentence_A\t" in first:
        kind = "sick"
    elif format == "auto" and first.lstrip().startswith(b"{"):
        kind = "snli" if b'"gold_label"' in first else "json_lines"
    elif format == "auto":
        suffixes = {**COLUMN_SUFFIXES, ".txt": "tsv"}
        kind = format_of(path, suffixes, COLUMN_FORMATS, "a file")
    return kind, first, kind in ("sick", "csv", "tsv") and _SPLIT_COLUMN.encode() in first


def split_by_premise(
    pairs: Sequence[LabelledPair], dev: float, seed: int = 0
) -> tuple[list[LabelledPair], list[LabelledPair]]:
    """Splits pairs at random into two sets that share no premise."""
    premises = sorted({pair.premise for pair in pairs})
    if len(premises) < 2:
        raise ValueError(
            "Expected pairs with at least two different premises, so that they can be split. "
            f"Received: {len(premises)}. Give a file for development (--dev)."
        )
    random.Random(seed).shuffle(premises)
    held = set(premises[: max(1, round(dev * len(premises)))])
    seen = {pair.label for pair in pairs if pair.premise not in held}
    held -= {pair.premise for pair in pairs if pair.label not in seen}  # each class is learned
    train = [pair for pair in pairs if pair.premise not in held]
    return train, [pair for pair in pairs if pair.premise in held]


def checked_labelled_pairs(examples: Iterable[object]) -> list[LabelledPair]:
    """Checks `LabelledPair`s, or tuples ((premise, hypothesis), label).

    Raises a TypeError for a path instead of pairs, and a ValueError with the position of a bad
    pair.
    """
    rows = _checked(examples, 3, "((premise, hypothesis), label)")
    return [LabelledPair(*row) for row in rows]


def checked_text_pairs(pairs: Iterable[object]) -> list[tuple[str, str]]:
    """Checks tuples (premise, hypothesis), and returns them as a list."""
    return [(row[0], row[1]) for row in _checked(pairs, 2, "(premise, hypothesis)")]


def _checked(given: Iterable[object], parts: int, form: str) -> list[list[str]]:
    reader = "keras_attn.tasks.read_labelled_pairs(path)"
    rows = []
    for i, example in enumerate(listed(given, f"{form} tuples", parts, reader)):
        row = flattened(example)
        row[2:] = map(label_name, row[2:])
        if len(row) != parts or not all(isinstance(part, str) for part in row):
            hint = " Is the tab between two texts missing?" if isinstance(example, str) else ""
            raise ValueError(
                f"Expected {form} tuples of strings. Received: {example!r:.100} at position "
                f"{i}.{hint}"
            )
        rows.append(row)
    return rows
