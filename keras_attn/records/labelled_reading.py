"""Checks of each labelled text."""

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
from keras_attn.records.reading import LineReading, Location, is_blank, is_integer


class LabelledChecks(TypedDict, total=False):
    """Settings of all readers of labelled texts, which `read_labelled` describes."""

    on_error: str
    unique: bool
    label_separator: str | None
    label_names: Mapping[str, str] | None


class LabelledReading(LineReading):
    """Collects the labelled texts of a file, and the problems of its lines."""

    kinds = LABELLED_PROBLEMS

    def __init__(
        self,
        where: Location,
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
        label: object,
        group: str | None = "",
        second: str | None = "",
    ) -> None:
        """Adds the values of a line; a value is None if its problem is already recorded.

        The second text is only used when pairs are read.
        """
        first = self.text(number, "text", text)
        other = self.text(number, "second text", second) if self.pairs else ""
        names = None if label is None else self._label(number, label)
        if first is not None and other is not None and names is not None and group is not None:
            pair = other if self.pairs else None
            self.examples.append(LabelledText(first, names, group.strip(), pair))

    def _label(self, number: int, label: object) -> Label | None:
        """The label names in a cell or JSON value; None, with a problem noted, if it is bad."""
        several = self.separator is not None
        parts: list[object] = [label]
        if several and isinstance(label, str):
            parts = list(label.split(self.separator))
        elif several and isinstance(label, list):
            parts = label
        names = []
        for part in parts:
            if isinstance(part, bool):
                part = str(part).lower()  # as JSON writes it
            elif isinstance(part, int):
                part = str(part)
            if not isinstance(part, str):
                more = ". Make integers or texts of labels" * isinstance(part, float)
                more += ", such as by astype('Int64') in pandas" * isinstance(part, float)
                more += ". Several labels need a `label_separator`" * isinstance(part, list)
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

    def json_value(self, number: int, name: str, value: object, key: str) -> object:
        """Returns a value of a JSON object; labels may have any type, and groups may be numbers."""
        if name == "label" and not isinstance(value, str):
            if value is None:
                self.problem(number, "label", "the label is null")
            return value
        of_group = name == "group" and is_integer(value, 0)
        return self.string(number, str(value) if of_group else value, key)

    def read(self, rows: Iterator[tuple[int, dict[str, Any]]]) -> None:
        """Adds numbered rows with "text" and "label", and optionally "group" and "text_pair"."""
        for number, row in rows:
            more = row.get("group", ""), row.get("text_pair", "")
            self.add(number, row["text"], row["label"], *more)

    def finish(self) -> LabelledTexts:
        """Returns the `LabelledTexts`.

        Raises a ValueError if problems are errors, or if no text is left.
        """
        self.refuse(len(self.examples), "a text and its label on each line", "labelled text")
        labels: dict[Input, set[Label]] = defaultdict(set)
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
        ).in_units(self.unit)
