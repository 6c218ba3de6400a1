"""Pairs of texts with labels: read from files, and split."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from keras_attn.inputs import flattened, listed
from keras_attn.records.items import Items
from keras_attn.records.label_columns import check_label_counts
from keras_attn.records.labelled_texts import LABELLED_PROBLEMS
from keras_attn.records.problems import LineProblem, describe_problems, many
from keras_attn.records.reading import LineReading, format_of, is_blank, open_lines
from keras_attn.records.tables import Table
from keras_attn.tasks.base.task import Examples
from keras_attn.tasks.entailment.settings import EntailmentData

COLUMNS = {
    "sick": ("sentence_A", "sentence_B", "entailment_label"),
    "snli": ("sentence1", "sentence2", "gold_label"),
}
"""Names of the columns of a format; those of others are `premise`, `hypothesis` and `label`."""
SPLITS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}
"""What SICK's column `SemEval_set` says."""
NO_LABEL = "-"
"""The label of a pair on which SNLI's annotators did not agree."""
_SPLIT_COLUMN = "SemEval_set"
_REVERSED = {
    "B_entails_A": "ENTAILMENT",
    "B_contradicts_A": "CONTRADICTION",
    "B_neutral_A": "NEUTRAL",
}
_SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "tsv", ".jsonl": "json_lines",
    ".ndjson": "json_lines", ".json": "json_lines",
}  # fmt: skip


class LabelledPair(NamedTuple):
    """Two texts, and what the first says of the second.

    Example:

    >>> LabelledPair("A dog runs.", "An animal moves.", "ENTAILMENT").label
    'ENTAILMENT'
    """

    premise: str
    hypothesis: str
    label: str


@dataclass(frozen=True)
class LabelledPairs(Items[LabelledPair]):
    """The pairs of a file, in its order, and an account of what was left out.

    Args:
        pairs: The pairs with their labels.
        where: The file, for messages.
        lines: Number of lines that were read.
        unlabelled: How many pairs have the label `-`, on which nobody agreed, and are left out.
        problems: What is wrong with the lines that were left out.

    Example:

    >>> pairs = LabelledPairs([LabelledPair("A dog runs.", "It runs.", "yes")], "a.csv", 2)
    >>> print(pairs.summary())
    a.csv: 1 pair of 2 lines. Labels: yes 1.
    """

    pairs: list[LabelledPair]
    where: str = "pairs"
    lines: int = 0
    unlabelled: int = 0
    problems: list[LineProblem] = field(default_factory=list)

    @property
    def label_counts(self) -> dict[str, int]:
        """How many pairs have each label, in the order of the names."""
        return dict(sorted(Counter(pair.label for pair in self.pairs).items()))

    def summary(self) -> str:
        """The counts in words, with the numbers of the first bad lines."""
        labels = ", ".join(f"{name} {count:,}" for name, count in self.label_counts.items())
        text = f"{self.where}: {many(len(self.pairs), 'pair')} of {many(self.lines, 'line')}."
        text += f" Labels: {labels}."
        if self.unlabelled:
            text += f" Left out: {many(self.unlabelled, 'pair')} with the label {NO_LABEL!r}."
        if self.problems:
            text += f" Left out: {describe_problems(self.problems, kinds=LABELLED_PROBLEMS)}."
        return text


class _Reading(LineReading):
    """Collects the pairs and the problems of one reading."""

    kinds = LABELLED_PROBLEMS

    def __init__(self, where: str, on_error: str, labels: Collection[str] | None):
        super().__init__(where, on_error)
        self.labels = labels
        self.pairs: list[LabelledPair] = []
        self.unlabelled = 0

    def add(self, number: int, premise: Any, hypothesis: Any, label: Any) -> None:
        """A line's texts and label; None where that has its problem already."""
        before = len(self.problems)
        texts = {"premise": premise, "hypothesis": hypothesis, "label": label}
        if None in texts.values():
            return
        texts = {name: text.strip() for name, text in texts.items()}
        if texts["label"] == NO_LABEL:
            self.unlabelled += 1
            return
        for name, text in texts.items():
            if is_blank(text):
                kind = "label" if name == "label" else "empty"
                self.problem(number, kind, f"the {name} is empty")
        if self.labels is not None and texts["label"] not in self.labels:
            self.no_label(number, texts["label"], self.labels)
        if len(self.problems) == before:
            self.pairs.append(LabelledPair(**texts))


def read_labelled_pairs(
    path: str | os.PathLike[str],
    settings: EntailmentData | None = None,
    split: str | None = None,
    swap: bool = False,
    labels: Collection[str] | None = None,
) -> LabelledPairs:
    r"""Reads pairs of texts with their labels from a table or JSON lines, gzipped or not.

    | format | what it is |
    |---|---|
    | `"csv"`, `"tsv"` | a table whose first row names the columns |
    | `"json_lines"` | a JSON object on each line |
    | `"sick"` | SICK's table, with `sentence_A`, `sentence_B` and `entailment_label` |
    | `"snli"` | SNLI's and MultiNLI's JSON lines, with `sentence1`, `sentence2` and `gold_label` |

    `"auto"` looks at the first line, then at the end of the name. Pairs with the label `-` are left
    out and counted.

    Args:
        path: The file.
        settings: `format`, the names of the columns, `delimiter` and `on_error`; the defaults if
            None.
        split: `"train"`, `"dev"` or `"test"`: the part of a table that has SICK's column
            `SemEval_set`. Other files are read whole. None reads all.
        swap: Whether each pair of SICK is followed by the same texts in the other order, with their
            own label.
        labels: The labels that may occur; a line with another one is bad. None: any.

    Returns:
        A `LabelledPairs`.

    Raises:
        OSError: If the file is missing or cannot be read.
        ValueError: If a line has no pair, with its number; a column is missing; or settings do not
            belong to the format.

    Example:

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/pairs.tsv"
    >>> with open(path, "w") as file:
    ...     _ = file.write("premise\thypothesis\tlabel\nA dog runs.\tIt runs.\tyes\n")
    >>> read_labelled_pairs(path)[0]
    LabelledPair(premise='A dog runs.', hypothesis='It runs.', label='yes')
    """
    settings = settings or EntailmentData(train=os.fspath(path))
    path = os.path.expanduser(os.fspath(path))
    if not os.path.isfile(path):
        raise FileNotFoundError(f"Expected a file of labelled pairs at {path}. There is none.")
    kind, first, has_splits = _layout(path, settings)
    usual = COLUMNS.get(kind, ("premise", "hypothesis", "label"))
    if kind == "sick" and b"entailment_label" not in first:
        usual = (*usual[:2], "entailment_judgment")  # as the parts of SemEval have it
    given = (settings.premise, settings.hypothesis, settings.label)
    names = [own or other for own, other in zip(given, usual, strict=True)]
    columns = dict(zip(("premise", "hypothesis", "label"), names, strict=True))
    if swap:
        if kind != "sick":
            raise ValueError(f"`reversed_pairs` belong to SICK. Received: {path}, {kind}.")
        columns["swapped"] = "entailment_BA"
    if has_splits:
        columns["split"] = _SPLIT_COLUMN
    if settings.delimiter and kind in ("json_lines", "snli"):
        raise ValueError(
            f"`delimiter` is for tables, not for JSON. Received: {settings.delimiter!r}."
        )
    reading = _Reading(path, settings.on_error, labels)
    wanted = None if split is None else SPLITS[split]
    with open_lines(path) as lines:
        if kind in ("json_lines", "snli"):
            for number, record in reading.records(lines):
                missing = [key for key in columns.values() if key not in record]
                if missing:
                    reading.no_key(number, record, missing[0])
                    continue
                values = (_string(reading, number, record[key], key) for key in columns.values())
                reading.add(number, *values)
        else:
            delimiter = settings.delimiter or ("," if kind == "csv" else "\t")
            table = Table(columns, delimiter, quotes=kind == "csv")
            for number, cells in table.cells(reading, lines):
                if wanted is not None and cells.get("split", wanted) != wanted:
                    continue
                premise, hypothesis = cells["premise"], cells["hypothesis"]
                reading.add(number, premise, hypothesis, cells["label"])
                if swap:
                    label = _REVERSED.get(cells["swapped"] or "")
                    if label is None:
                        what = f"{cells['swapped']!r} is none of {', '.join(_REVERSED)}"
                        reading.problem(number, "label", what)
                    reading.add(number, hypothesis, premise, label)
    reading.refuse(len(reading.pairs), "two texts and their label on each line", "labelled pair")
    return LabelledPairs(reading.pairs, path, reading.lines, reading.unlabelled, reading.problems)


def _layout(path: str, settings: EntailmentData) -> tuple[str, bytes, bool]:
    """The format of a file, its first line, and whether a column says which part a pair is of."""
    with open_lines(path) as lines:
        first = next(lines, b"")
    kind = _format(path, first) if settings.format == "auto" else settings.format
    return kind, first, kind in ("sick", "csv", "tsv") and _SPLIT_COLUMN.encode() in first


def _format(path: str, first: bytes) -> str:
    if b"sentence_A\t" in first:
        return "sick"
    if first.lstrip().startswith(b"{"):
        return "snli" if b'"gold_label"' in first else "json_lines"
    return format_of(path, _SUFFIXES, ("csv", "tsv", "json_lines"), "a file")


def _string(reading: _Reading, number: int, value: Any, key: str) -> str | None:
    """A value of JSON; numbers and booleans may be labels."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else reading.string(number, value, key)


def training_pairs(settings: EntailmentData) -> Examples:
    """Reads the training pairs of a run, and the pairs that its best weights are chosen by.

    These are of `dev`, or SICK's trial pairs, or a part of the training pairs that has none of
    their premises. No test set is read.

    Args:
        settings: Which pairs, and how they are split.

    Returns:
        `Examples`.

    Raises:
        OSError: As in `read_labelled_pairs`.
        ValueError: As in `read_labelled_pairs`, and if there are too few pairs.
    """
    read = read_labelled_pairs(settings.train, settings, "train", settings.reversed_pairs)
    summary, known = read.summary(), read.label_counts
    check_label_counts(known, "pairs")
    if settings.dev or _layout(read.where, settings)[2]:
        dev = read_labelled_pairs(settings.dev or settings.train, settings, "dev", labels=known)
        return Examples(list(read), list(dev), f"{summary}\n{dev.summary()}")
    premises = sorted({pair.premise for pair in read})
    if len(premises) < 2:
        raise ValueError(
            f"Expected pairs of two premises or more, to split them. Received: {len(premises)}. "
            "Give a file for development (--dev)."
        )
    random.Random(settings.split_seed).shuffle(premises)
    held = set(premises[: max(1, round(settings.dev_share * len(premises)))])
    seen = {pair.label for pair in read if pair.premise not in held}
    held -= {pair.premise for pair in read if pair.label not in seen}  # each class is learned
    train = [pair for pair in read if pair.premise not in held]
    return Examples(train, [pair for pair in read if pair.premise in held], summary)


def checked_pairs(pairs: Iterable[Any], labelled: bool) -> list[Any]:
    """Checks pairs of texts.

    Args:
        pairs: (premise, hypothesis) or, if labelled, ((premise, hypothesis), label).
        labelled: Whether they have labels.

    Returns:
        A list of tuples, or of `LabelledPair`s.

    Raises:
        TypeError: If there is a path instead of pairs.
        ValueError: If one is something else; its position is named.

    Example:

    >>> checked_pairs([(("A dog runs.", "It runs."), "yes")], labelled=True)[0].label
    'yes'
    """
    parts = ("premise", "hypothesis", "label")[: 2 + labelled]
    found = []
    form = "((premise, hypothesis), label)" if labelled else "(premise, hypothesis)"
    read = "keras_attn.tasks.read_labelled_pairs(path)"
    for i, pair in enumerate(listed(pairs, f"{form} tuples", len(parts), read)):
        sides = tuple(flattened(pair))
        if len(sides) != len(parts) or not all(isinstance(side, str) for side in sides):
            hint = " Is the tab between two texts missing?" if isinstance(pair, str) else ""
            raise ValueError(
                f"Expected {form} tuples of strings. Received: {pair!r:.100} at position {i}.{hint}"
            )
        found.append(LabelledPair(*sides) if labelled else sides)
    return found
