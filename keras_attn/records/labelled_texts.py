"""Texts with labels, and what came of reading a file of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from keras_attn.records.items import Items
from keras_attn.records.parallel import (
    PROBLEMS,
    LineProblem,
    count_problems,
    describe_problems,
    many,
)

Label = str | tuple[str, ...]

LABELLED_PROBLEMS = {
    **PROBLEMS,
    "empty": "with an empty text",
    "label": "without a label that is known",
}


class LabelledText(NamedTuple):
    """A text and what it is to be classified as.

    Args:
        text: The text.
        label: Name of its class; for texts with several labels a tuple of names, sorted, which
            may be empty.
        group: Where it is from (a film, an author, a source); empty where the data do not say.

    Example:

    >>> example = LabelledText("A film to remember.", "positive")
    >>> example.label, example.group
    ('positive', '')
    """

    text: str
    label: Label
    group: str = ""


def as_labelled(example: Any) -> LabelledText:
    """A `LabelledText` of a tuple (text, label) or (text, label, group), checked."""
    fields = tuple(example) if isinstance(example, tuple | list) else ()
    if len(fields) in (2, 3) and isinstance(fields[0], str):
        label = tuple(fields[1]) if isinstance(fields[1], list) else fields[1]
        names = label if isinstance(label, tuple) else (label,)
        if all(isinstance(name, str) for name in (*names, *fields[2:])):
            return LabelledText(fields[0], label, *fields[2:])
    shown = repr(example)
    raise ValueError(
        "Expected (text, label) pairs: a string, and the name of its class or a tuple of names. "
        f"Received: {shown[:100]}{'...' * (len(shown) > 100)}."
    )


def label_names(label: Label) -> tuple[str, ...]:
    """The names in a label: one, or those of a text with several."""
    return (label,) if isinstance(label, str) else tuple(label)


def count_labels(examples: Iterable[LabelledText]) -> dict[str, int]:
    """How many texts have each label, in the order of the names."""
    counts = Counter(name for example in examples for name in label_names(example.label))
    return dict(sorted(counts.items()))


@dataclass(frozen=True)
class LabelledTexts(Items[LabelledText]):
    """The texts of a file, in its order, and an account of what was left out.

    It is a sequence of `LabelledText`: give it to `split_labelled` or `len`.

    Args:
        examples: The texts with their labels.
        where: The file or files, for messages.
        lines: Number of lines (or files) that were read.
        passed_over: How many of the lines are blank, a header, or further lines of a quoted cell.
        repeated: How many texts have the text and the label of an earlier one.
        contradicting: How many different texts occur with more than one label.
        unique: Whether repeated texts were left out. Else they are among the examples.
        problems: What is wrong with the lines that were left out; a line can have several.

    Example:

    >>> texts = LabelledTexts([LabelledText("Good.", "pos"), LabelledText("Bad.", "neg")], "a.csv")
    >>> len(texts), texts[0].text, texts.label_counts
    (2, 'Good.', {'neg': 1, 'pos': 1})
    >>> print(texts.summary())
    a.csv: 2 texts of 0 lines. Labels: neg 1, pos 1.
    """

    examples: list[LabelledText]
    where: str = "texts"
    lines: int = 0
    passed_over: int = 0
    repeated: int = 0
    contradicting: int = 0
    unique: bool = False
    problems: list[LineProblem] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [example.text for example in self.examples]

    @property
    def labels(self) -> list[Label]:
        """The labels alone."""
        return [example.label for example in self.examples]

    @property
    def label_counts(self) -> dict[str, int]:
        """How many texts have each label, in the order of the names."""
        return count_labels(self.examples)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of lines, texts, lines passed over, repeated texts, bad lines, and by kind.

        A line with problems of two kinds is counted under both.
        """
        return {
            "lines": self.lines,
            "texts": len(self.examples),
            "passed_over": self.passed_over,
            "repeated": self.repeated,
            "contradicting": self.contradicting,
            "bad_lines": len({problem.line for problem in self.problems}),
            **count_problems(self.problems, LABELLED_PROBLEMS),
        }

    def summary(self) -> str:
        """The counts in words, with the numbers of the first bad lines."""
        labels = ", ".join(f"{name} {count:,}" for name, count in self.label_counts.items())
        text = f"{self.where}: {many(len(self.examples), 'text')} of {many(self.lines, 'line')}."
        text += f" Labels: {labels or 'none'}."
        if self.problems:
            text += f" Left out: {describe_problems(self.problems, kinds=LABELLED_PROBLEMS)}."
        if self.repeated:
            what = "left out" if self.unique else "kept"
            text += f" Repeated: {many(self.repeated, 'text')}, {what}."
        if self.contradicting:
            text += f" With more than one label: {many(self.contradicting, 'text')}, kept."
        return text
