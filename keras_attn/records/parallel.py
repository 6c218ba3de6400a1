"""Sentence pairs, and the result of reading them from a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attn.records.items import Records
from keras_attn.records.problems import LineProblem, many


class TranslationPair(NamedTuple):
    """A sentence, its translation, and the documents that contain the pair.

    Args:
        source: The sentence to translate.
        target: Its translation.
        groups: Sorted names of the documents, domains or programs in which the pair occurs; may be
            empty. `split_pairs` can hold out whole groups.

    Example:

    >>> pair = TranslationPair("Good morning", "Guten Morgen")
    >>> pair.target, pair.groups
    ('Guten Morgen', ())
    """

    source: str
    target: str
    groups: tuple[str, ...] = ()


def unique_pairs(pairs: Iterable[TranslationPair]) -> list[TranslationPair]:
    """Removes repeated pairs and merges their groups; the order is kept."""
    groups: dict[tuple[str, str], set[str]] = {}
    for source, target, names in pairs:
        groups.setdefault((source, target), set()).update(names)
    return [TranslationPair(s, t, tuple(sorted(g))) for (s, t), g in groups.items()]


@dataclass(frozen=True)
class ParallelText(Records[TranslationPair]):
    """The sentence pairs of a file, and the problems of the lines that were left out.

    The object is a sequence of `TranslationPair`s, for example for `split_pairs` and
    `Translator.fit`.

    Args:
        pairs: The pairs.
        where: The file or files, for messages.
        lines: Number of lines of the file.
        passed_over: Number of blank lines and header lines.
        repeated: Number of pairs that repeat an earlier pair.
        unique: Whether repeated pairs were left out.
        problems: The problems of the lines that were left out; a line can have several.

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
        """A dict of `lines`, `pairs`, `passed_over`, `repeated`, `bad_lines`, and the number of bad
        lines of each kind (`LineProblem.kind`) that occurs.

        `lines` is the sum of `pairs`, `passed_over` and `bad_lines`, and with `unique=True` also of
        `repeated`. A line with problems of two kinds is counted under both kinds.
        """
        return {
            "lines": self.lines,
            "pairs": len(self.pairs),
            "passed_over": self.passed_over,
            "repeated": self.repeated,
            **self._bad_lines(),
        }

    def summary(self) -> str:
        """Returns the numbers of pairs, lines and repetitions, and the first bad lines, as text."""
        text = f"{self.where}: {many(len(self.pairs), 'pair')} of {many(self.lines, self.unit)}"
        text += f"{self._left_out()}."
        if self.passed_over:
            text += f" Passed over: {many(self.passed_over, 'line')}, blank or a header."
        if self.repeated:
            what = "left out" if self.unique else "kept"
            text += f" Repeated: {many(self.repeated, 'pair')}, {what}."
        return text


class ParallelPairs(list):
    """A list of sentence pairs with a summary."""

    def summary(self) -> str:
        """Returns the number of pairs as text."""
        return f"{len(self):,} pairs"
