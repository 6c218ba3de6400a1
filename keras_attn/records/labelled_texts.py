"""Labelled texts, and the result of reading them from a file."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, SupportsIndex, cast

from keras_attn.records.items import Records
from keras_attn.records.problems import PROBLEMS, LineProblem, many

Label = str | tuple[str, ...]
Input = str | tuple[str, str]

LABELLED_PROBLEMS = {
    **PROBLEMS,
    "empty": "with an empty text",
    "label": "without a label that is known",
}


class LabelledText(NamedTuple):
    """A text, or a pair of texts, with its label.

    Args:
        text: The text, or the first text of a pair.
        label: Name of the text's class; for texts with any number of labels, a sorted tuple of
            names.
        group: Origin of the text, such as a film or an author; empty if unknown.
        second: The second text of a pair; None for a single text.

    Example:

    >>> example = LabelledText("A film to remember.", "positive")
    >>> example.label, example.group, example.input
    ('positive', '', 'A film to remember.')
    >>> LabelledText("A dog runs.", "entailment", second="An animal moves.").input
    ('A dog runs.', 'An animal moves.')
    """

    text: str
    label: Label
    group: str = ""
    second: str | None = None

    @property
    def input(self) -> Input:
        """The text, or both texts of a pair."""
        return self.text if self.second is None else (self.text, self.second)


def check_alike(seconds: Sequence[str | None]) -> None:
    """Raises a ValueError if some examples are pairs and others are single texts."""
    paired = [second is not None for second in seconds]
    if any(paired) and not all(paired):
        raise ValueError(
            "Expected single texts or pairs of texts. Received: both, a single text at position "
            f"{paired.index(False)} and a pair at position {paired.index(True)}."
        )


def as_labelled(example: object) -> LabelledText:
    """Checks a tuple (text, label) or (text, label, group), and returns a `LabelledText`.

    A text may be a pair of texts.
    """
    fields = list(example) if isinstance(example, tuple | list) else []
    if 2 <= len(fields) <= 4:
        text, given, group, second = fields + ["", None][len(fields) - 2 :]
        if isinstance(text, tuple | list) and len(text) == 2 and second is None:
            text, second = text
        several = isinstance(given, list | tuple)
        label: Any = tuple(map(label_name, given)) if several else label_name(given)
        names = label if isinstance(label, tuple) else (label,)
        strings = (text, *names, group, *([] if second is None else [second]))
        if all(isinstance(string, str) for string in strings):
            return LabelledText(text, label, group, second)
    shown = repr(example)
    raise ValueError(
        "Expected (text, label) pairs: a string or a pair of strings, and the name of its class, a "
        f"string or an integer, or a tuple of names. Received: {shown[:100]}"
        f"{'...' * (len(shown) > 100)}."
    )


def label_name(label: object) -> object:
    """Returns a label as a string, so that 5 is the same label as "5"."""
    is_integer = hasattr(label, "__index__") and not isinstance(label, bool)
    return str(operator.index(cast(SupportsIndex, label))) if is_integer else label


def label_names(label: Label) -> tuple[str, ...]:
    """Returns the names in a label, which is one name or a tuple of names."""
    return (label,) if isinstance(label, str) else tuple(label)


def count_labels(examples: Iterable[LabelledText]) -> dict[str, int]:
    """The number of texts with each label, sorted by label."""
    counts = Counter(name for example in examples for name in label_names(example.label))
    return dict(sorted(counts.items()))


@dataclass(frozen=True)
class LabelledTexts(Records[LabelledText]):
    """The labelled texts of a file, a sequence of `LabelledText`s, and the problems of its lines.

    Args:
        examples: The texts with their labels.
        where: The file or files, for messages.
        lines: Number of lines (or files) that were read.
        passed_over: Number of lines that are blank, a header, or further lines of a quoted cell.
        repeated: Number of repetitions of a text with the same label.
        contradicting: Number of texts that occur with different labels.
        unique: Whether repetitions were left out.
        problems: The problems of the lines that were left out; a line may have several.

    Example:

    >>> texts = LabelledTexts([LabelledText("Good.", "pos"), LabelledText("Bad.", "neg")], "a.csv")
    >>> len(texts), texts[0].text, texts.label_counts
    (2, 'Good.', {'neg': 1, 'pos': 1})
    >>> print(texts.summary())
    a.csv: 2 texts of 0 lines. Labels: neg 1, pos 1.
    """

    kinds = LABELLED_PROBLEMS

    examples: list[LabelledText]
    where: str = "texts"
    lines: int = 0
    passed_over: int = 0
    repeated: int = 0
    contradicting: int = 0
    unique: bool = False
    problems: list[LineProblem] = field(default_factory=list)

    @property
    def texts(self) -> list[Input]:
        """The texts, or pairs of texts, without labels."""
        return [example.input for example in self.examples]

    @property
    def labels(self) -> list[Label]:
        """The labels without the texts."""
        return [example.label for example in self.examples]

    @property
    def label_counts(self) -> dict[str, int]:
        """The number of texts with each label, sorted by label."""
        return count_labels(self.examples)

    @property
    def counts(self) -> dict[str, int]:
        """A dict of `lines`, `texts`, `passed_over`, `repeated`, `contradicting`, `bad_lines`, and
        the number of bad lines of each kind (`LineProblem.kind`) that occurs.

        A line with problems of two kinds is counted under both kinds.
        """
        return {
            "lines": self.lines,
            "texts": len(self.examples),
            "passed_over": self.passed_over,
            "repeated": self.repeated,
            "contradicting": self.contradicting,
            **self._bad_lines(),
        }

    def summary(self) -> str:
        """Returns the numbers of texts, lines, labels and repetitions, and the first bad lines, as
        text."""
        labels = ", ".join(f"{name} {count:,}" for name, count in self.label_counts.items())
        what = "pair" if any(example.second is not None for example in self.examples) else "text"
        text = f"{self.where}: {many(len(self.examples), what)} of {many(self.lines, self.unit)}."
        text += f" Labels: {labels or 'none'}{self._left_out()}."
        if self.repeated:
            fate = "left out" if self.unique else "kept"
            text += f" Repeated: {many(self.repeated, what)}, {fate}."
        if self.contradicting:
            text += f" With more than one label: {many(self.contradicting, what)}, kept."
        return text
