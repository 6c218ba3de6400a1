"""Sentence pairs, and pairs of one's own from a tab-separated file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple


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


def normalize_whitespace(text: str) -> str:
    """Strip a text and collapse each run of white space in it (newlines too) to one space."""
    return " ".join(text.split())


def unique_pairs(pairs: Iterable[TranslationPair]) -> list[TranslationPair]:
    """Pairs without repetition, in the order of their first occurrence, their groups united."""
    groups: dict[tuple[str, str], set[str]] = {}
    for source, target, names in pairs:
        groups.setdefault((source, target), set()).update(names)
    return [TranslationPair(s, t, tuple(sorted(g))) for (s, t), g in groups.items()]


def read_tsv(path: str | os.PathLike[str]) -> list[TranslationPair]:
    r"""Read `source<TAB>target[<TAB>anything]` lines from a UTF-8 file.

    White space at the ends is stripped and runs of it become one space; empty lines are passed
    over; further columns (the licence column of Tatoeba's files, say) are ignored; repeated
    pairs are kept once. A byte order mark at the start is accepted.

    Args:
        path: The file.

    Returns:
        A list of `TranslationPair`, in the file's order, with no groups.

    Raises:
        OSError: The file cannot be read.
        ValueError: A line has no tab, an empty side or is not UTF-8 (the message has its number),
            or there is no pair in the file.

    Example:

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "pairs.tsv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("Hello.\tHallo.\tCC-BY\nThank you!\tDanke!\n")
    >>> [pair.target for pair in read_tsv(path)]
    ['Hallo.', 'Danke!']
    """
    pairs = []
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: expected UTF-8 text. "
                    f"Received: byte 0x{raw[error.start]:02x} at column {error.start + 1}. "
                    "Convert the file to UTF-8 (for example with iconv)."
                ) from error
            if not line.strip():
                continue
            columns = [normalize_whitespace(column) for column in line.split("\t")]
            if len(columns) < 2:
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: expected source<TAB>target. "
                    f"Received a line without a tab: {columns[0][:80]!r}."
                )
            if not columns[0] or not columns[1]:
                side = "source" if not columns[0] else "target"
                raise ValueError(
                    f"{os.fspath(path)}, line {number}: expected source<TAB>target, both with "
                    f"text. Received an empty {side}. Remove the line or complete it."
                )
            pairs.append(TranslationPair(columns[0], columns[1]))
    if not pairs:
        raise ValueError(
            f"{os.fspath(path)}: expected at least one source<TAB>target line. "
            "Received an empty file."
        )
    return unique_pairs(pairs)
