"""What the readers of labelled texts share: checks of each text and its labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from keras_attn.records.labelled_texts import (
    LABELLED_PROBLEMS,
    Input,
    Label,
    LabelledText,
    LabelledTexts,
)
from keras_attn.records.reading import LineReading, is_blank, is_integer
from keras_attn.records.tables import Table


class LabelledChecks(TypedDict, total=False):
    """Settings that all readers of labelled texts have; `read_labelled` describes them."""

    on_error: str
    unique: bool
    label_separator: str | None
    label_names: Mapping[str, str] | None


class LabelledReading(LineReading):
    """Collects the texts and the problems of one reading."""

    kinds = LABELLED_PROBLEMS

    def __init__(
        self,
        where: str,
        on_error: str = "error",
        unique: bool = False,
        label_separator: str | None = None,
        label_names: Mapping[str, str] | None = None,
    ):
        super().__init__(where, on_error)
        if label_separator is not None and not (
            isinstance(label_separator, str) and label_separator
        ):
            raise ValueError(
                "Expected `label_separator` to be a string such as ',', or None. "
                f"Received: {label_separator!r}"
            )
        self.unique = unique
        self.separator = label_separator
        self.names = None if label_names is None else dict(label_names)
        self.pairs = False
        """Whether each line has two texts."""
        self.examples: list[LabelledText] = []

    def add(
        self,
        number: int,
        text: str | None,
        label: Any,
        group: str | None = "",
        second: str | None = "",
    ) -> None:
        """A line's text, label, group and second text; None where that has its problem already.

        The second text counts if the reading is one of pairs.
        """
        before = len(self.problems)
        texts = []
        for name, given in (("text", text), ("second text", second))[: 1 + self.pairs]:
            if given is None:
                continue
            texts.append(given.strip())
            if is_blank(texts[-1]):
                self.problem(number, "empty", f"the {name} is empty")
        if label is not None:
            label = self._label(number, label)
        there = len(texts) == 1 + self.pairs and label is not None and group is not None
        if there and len(self.problems) == before:
            self.examples.append(
                LabelledText(texts[0], label, group.strip(), *(texts[1:] if self.pairs else []))
            )

    def _label(self, number: int, label: Any) -> Label | None:
        """The names in a cell or a JSON value, or None and a problem."""
        several = self.separator is not None
        if isinstance(label, str):
            parts = label.split(self.separator) if several else [label]
        elif isinstance(label, list) and several:
            parts = label
        else:
            parts = [label]
        names = []
        for part in parts:
            if isinstance(part, bool):
                part = str(part).lower()  # as JSON writes it
            elif isinstance(part, int):
                part = str(part)
            if not isinstance(part, str):
                more = ". Several labels need a `label_separator`" * isinstance(part, list)
                self.problem(number, "type", f"the label is of type {type(part).__name__}{more}")
                return None
            name = part.strip()
            if not name and several:
                continue
            if is_blank(name):
                self.problem(number, "label", "the label is empty")
                return None
            if self.names is not None:
                if name not in self.names:
                    self.no_label(number, name, self.names)
                    return None
                name = self.names[name]
            names.append(name)
        return tuple(sorted(set(names))) if several else names[0]

    def read_table(self, lines: Iterator[bytes], table: Table) -> None:
        """Add the rows of a table: "text", "label" and perhaps "group" and "text_pair"."""
        self.pairs = "text_pair" in table.columns
        for number, cells in table.cells(self, lines):
            more = cells.get("group", ""), cells.get("text_pair", "")
            self.add(number, cells["text"], cells["label"], *more)

    def read_records(self, lines: Iterator[bytes], keys: dict[str, str]) -> None:
        """Add the JSON objects of lines. `keys` says where "text", "label" and others are."""
        self.pairs = "text_pair" in keys
        for number, record in self.records(lines):
            missing = [key for key in keys.values() if key not in record]
            if missing:
                self.no_key(number, record, missing[0])
                continue
            text = self.string(number, record[keys["text"]], keys["text"])
            second: str | None = ""
            if self.pairs:
                second = self.string(number, record[keys["text_pair"]], keys["text_pair"])
            group = record[keys["group"]] if "group" in keys else ""
            if is_integer(group, 0):
                group = str(group)
            group = self.string(number, group, keys.get("group", ""))
            label = record[keys["label"]]
            if label is None:
                self.problem(number, "label", "the label is null")
            if isinstance(label, str):
                label = self.string(number, label, keys["label"])
            self.add(number, text, label, group, second)

    def finish(self) -> LabelledTexts:
        """What was read, or the error about all problems."""
        self.refuse(len(self.examples), "a text and its label on each line", "labelled text")
        labels = defaultdict(set)
        once: dict[tuple[Input, Label], LabelledText] = {}
        for example in self.examples:
            labels[example.input].add(example.label)
            once.setdefault((example.input, example.label), example)
        return LabelledTexts(
            list(once.values()) if self.unique else self.examples,
            self.where,
            self.lines,
            self.passed_over,
            len(self.examples) - len(once),
            sum(len(of_text) > 1 for of_text in labels.values()),
            self.unique,
            self.problems,
        )
