"""Word analogies, and word pairs with similarities rated by people."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from keras_attn.records.texts import read_text

Analogy = tuple[str, str, str, str]
WordPair = tuple[str, str, float]
FIRST = 30_000
"""Number of most frequent words that analogies are usually restricted to."""
_SCORES = ("simlex999", "human (mean)", "score", "similarity")


def read_analogies(path: str | os.PathLike[str]) -> dict[str, list[Analogy]]:
    """Reads analogies in the format of word2vec's `questions-words.txt`.

    A line `: name` begins a section. Any other line has four words: the first is to the second as
    the third is to the fourth. Lines before the first section are in the section `analogies`.

    Args:
        path: The file.

    Returns:
        A dict of the sections: lists of tuples of four words, keyed by section name.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line does not have four words, or there is no analogy.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "questions.txt"
    >>> _ = path.write_text(": family\\nman woman king queen\\n")
    >>> read_analogies(path)
    {'family': [('man', 'woman', 'king', 'queen')]}
    """
    sections: dict[str, list[Analogy]] = {}
    rows: list[Analogy] | None = None
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        fields = line.split()
        if not fields:
            continue
        if fields[0].startswith(":"):
            rows = sections.setdefault(line.strip().removeprefix(":").strip(), [])
            continue
        if len(fields) != 4:
            raise ValueError(
                f"{path}: expected four words, or ': ' and the name of a section. Received: "
                f"{line[:60]!r} in line {number}."
            )
        if rows is None:
            rows = sections.setdefault("analogies", [])
        rows.append((fields[0], fields[1], fields[2], fields[3]))
    if not any(sections.values()):
        raise ValueError(f"{path}: expected analogies. Received: none.")
    return sections


def read_word_pairs(path: str | os.PathLike[str]) -> list[WordPair]:
    """Reads pairs of words with scores, in the formats of WordSim353 and SimLex999.

    Columns are separated by tabs, or by commas if a line has no tab. If the third field of the
    first line is not a number, the line is a header. The words are in the first two columns. The
    scores are in the column `SimLex999`, `Human (mean)`, `score` or `similarity`, or in the third
    column if the header has none of these names. Lines that begin with `#` are skipped.

    Args:
        path: The file.

    Returns:
        A list of tuples `(word, word, score)`.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line does not have two words and a number, or there is no pair.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("word1\\tword2\\tPOS\\tSimLex999\\nold\\tnew\\tA\\t1.58\\n")
    >>> read_word_pairs(path)
    [('old', 'new', 1.58)]
    """
    pairs: list[WordPair] = []
    column, header = 2, True
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t") if "\t" in line else next(csv.reader([line]))
        fields = [field.strip() for field in fields]
        if header:
            header = False
            if len(fields) > 2 and fields[2] and math.isnan(_number(fields[2])):
                names = [field.lower() for field in fields]
                column = next((names.index(name) for name in _SCORES if name in names), 2)
                continue
        score = _number(fields[column]) if len(fields) > column else math.nan
        if not (fields[0] and fields[1:2] and fields[1]) or not math.isfinite(score):
            raise ValueError(
                f"{path}: expected two words and a number. Received: {line[:60]!r} in line "
                f"{number}."
            )
        pairs.append((fields[0], fields[1], score))
    if not pairs:
        raise ValueError(f"{path}: expected pairs of words. Received: none.")
    return pairs


class WordTests(NamedTuple):
    """Questions for evaluating word embeddings.

    Example:

    >>> WordTests({"family": [("man", "woman", "king", "queen")]}, {}).summary()
    '1 analogies, 0 pairs of words'
    """

    analogies: Mapping[str, Sequence[Analogy]]
    """Analogies, keyed by section."""
    pairs: Mapping[str, Sequence[WordPair]]
    """Word pairs with scores, keyed by the name of their file."""
    first: int = FIRST
    """Analogies are restricted to this many of the most frequent words; 0 for no restriction."""

    @classmethod
    def read(cls, analogies: str, pairs: Sequence[str], first: int = FIRST) -> WordTests:
        """Reads analogies and word pairs from files.

        Args:
            analogies: File of analogies, as for `read_analogies`; none if empty.
            pairs: Files of pairs of words, as for `read_word_pairs`.
            first: Analogies are restricted to this many of the most frequent words; 0 for no
                restriction.

        Returns:
            A `WordTests`. Word pairs are keyed by the name of their file, or by the path if two
            files have the same name.

        Raises:
            FileNotFoundError: If a file does not exist.
            ValueError: If a file has the wrong format, or contains no analogy or pair.
        """
        names = [Path(path).name for path in pairs]
        if len(set(names)) < len(names):
            names = list(pairs)
        read = dict(zip(names, map(read_word_pairs, pairs), strict=True))
        return cls(read_analogies(analogies) if analogies else {}, read, first)

    def summary(self) -> str:
        """Returns the numbers of analogies and word pairs as text."""
        asked = sum(map(len, self.analogies.values()))
        return f"{asked:,} analogies, {sum(map(len, self.pairs.values())):,} pairs of words"


def _number(text: str) -> float:
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_000
    except ValueError:
        return math.nan
