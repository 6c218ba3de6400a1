"""Sentence pairs, and what came of reading a file of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attn.records.items import Items


class TranslationPair(NamedTuple):
    """A sentence, its translation, and where the pair occurs.

    Args:
        source: The sentence to translate.
        target: Its translation.
        groups: Names of the documents, domains or programs in which the pair occurs, sorted;
            empty where the data have no such thing. `split_pairs` can hold out whole groups.

    Example:

    >>> pair = TranslationPair("Good morning", "Guten Morgen")
    >>> pair.target, pair.groups
    ('Guten Morgen', ())
    """

    source: str
    target: str
    groups: tuple[str, ...] = ()


def unique_pairs(pairs: Iterable[TranslationPair]) -> list[TranslationPair]:
    """Pairs without repetition, in the order of their first occurrence, their groups united."""
    groups: dict[tuple[str, str], set[str]] = {}
    for source, target, names in pairs:
        groups.setdefault((source, target), set()).update(names)
    return [TranslationPair(s, t, tuple(sorted(g))) for (s, t), g in groups.items()]


PROBLEMS = {
    "encoding": "not valid Unicode text",
    "columns": "with too few or too many columns",
    "csv": "that are no row of a table",
    "json": "not one JSON object",
    "keys": "without the keys",
    "type": "with a value that is not a string",
    "empty": "with an empty side",
    "long": "with a side that is too long",
}


class LineProblem(NamedTuple):
    """Why a line of a file gives no pair, or no labelled text.

    Args:
        line: Number of the line, from 1.
        kind: `"encoding"`, `"columns"`, `"csv"`, `"json"`, `"keys"`, `"type"`, `"empty"` or
            `"long"`; for labelled texts also `"label"`.
        what: What is wrong with it, in words.

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
    """How many lines, or other places, have a problem of each kind."""
    counts = Counter(kind for _, kind in {(where, kind) for where, kind, _ in problems})
    return {kind: counts[kind] for kind in kinds if counts[kind]}


def describe_problems(
    problems: Sequence[LineProblem],
    shown: int = 5,
    kinds: dict[str, str] = PROBLEMS,
    unit: str = "line",
) -> str:
    """How many lines of each kind, which, and what is wrong with the first of them."""
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


@dataclass(frozen=True)
class ParallelText(Items[TranslationPair]):
    """The pairs of a file, in its order, and an account of what was left out.

    It is a sequence of `TranslationPair`: give it to `split_pairs`, `Translator.fit` or `len`.

    Args:
        pairs: The pairs.
        where: The file or files, for messages.
        lines: Number of lines of the file.
        passed_over: How many of them are blank or a header.
        repeated: How many pairs have the source and the target of an earlier one.
        unique: Whether those were left out. Else they are among the pairs.
        problems: What is wrong with the lines that were left out; a line can have several.

    Example:

    >>> problems = [LineProblem(2, "empty", "the target is empty")]
    >>> text = ParallelText([TranslationPair("Hi", "Hallo")], "pairs.tsv", 2, problems=problems)
    >>> len(text), text[0].target, text.counts["empty"]
    (1, 'Hallo', 1)
    >>> print(text.summary())
    pairs.tsv: 1 pair of 2 lines. Left out: 1 with an empty side (line 2: the target is empty).
    """

    pairs: list[TranslationPair]
    where: str = "pairs"
    lines: int = 0
    passed_over: int = 0
    repeated: int = 0
    unique: bool = False
    problems: list[LineProblem] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of lines, pairs, lines passed over, repeated pairs, bad lines, and by kind.

        `lines` is `pairs + passed_over + bad_lines`, and with `unique=True` `+ repeated`. A line
        with problems of two kinds is counted under both.
        """
        return {
            "lines": self.lines,
            "pairs": len(self.pairs),
            "passed_over": self.passed_over,
            "repeated": self.repeated,
            "bad_lines": len({problem.line for problem in self.problems}),
            **count_problems(self.problems, PROBLEMS),
        }

    def summary(self) -> str:
        """The counts in words, with the numbers of the first bad lines."""
        text = f"{self.where}: {many(len(self.pairs), 'pair')} of {many(self.lines, 'line')}."
        if self.problems:
            text += f" Left out: {describe_problems(self.problems)}."
        if self.passed_over:
            text += f" Passed over: {many(self.passed_over, 'line')}, blank or a header."
        if self.repeated:
            what = "left out" if self.unique else "kept"
            text += f" Repeated: {many(self.repeated, 'pair')}, {what}."
        return text


def many(count: int, noun: str) -> str:
    """A number and its noun, in the plural where that is right."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
