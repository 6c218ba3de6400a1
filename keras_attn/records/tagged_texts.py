"""Sentences with labelled words, from CoNLL columns or JSON lines."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_attn.arrays import scheme_of
from keras_attn.inputs import listed
from keras_attn.records.items import Records
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.problems import PROBLEMS, LineProblem, many
from keras_attn.records.reading import LineReading, Location, ending, existing, is_blank
from keras_attn.records.splitting import check_share, split_by_hash

_JSON = (".jsonl", ".ndjson", ".json")
_DOCUMENT = "-DOCSTART-"


class TaggedText(NamedTuple):
    """A sentence with a label for each word.

    Example:

    >>> TaggedText(("Ada", "codes"), ("B-PER", "O")).labels
    ('B-PER', 'O')
    """

    words: tuple[str, ...]
    """The words."""
    labels: tuple[str, ...]
    """A label for each word."""


@dataclass(frozen=True)
class TaggedTexts(Records[TaggedText]):
    """The sentences of a file with their labels, and the problems of lines that were left out.

    Example:

    >>> TaggedTexts([TaggedText(("Ada",), ("B-PER",))], "a.txt").summary()
    'a.txt: 1 sentence of 1 word, labels B-PER 1, entities by BIO'
    """

    kinds = {  # noqa: RUF012
        **PROBLEMS,
        "columns": "without a word and a label, or of other columns than the first",
        "lengths": "with words and labels of unequal number",
    }

    texts: list[TaggedText]
    """The sentences."""
    where: str = "given"
    """The file, for messages."""
    skipped: int = 0
    """Number of bad lines that were left out."""
    problems: list[LineProblem] = field(default_factory=list, repr=False)
    """The problems of the lines that were left out."""

    def summary(self) -> str:
        """Returns the numbers of sentences, words and skipped lines, the 12 most frequent labels
        and their counts, and, if the labels mark entities, their scheme (such as BIO), as text."""
        counts = Counter(label for text in self.texts for label in text.labels)
        words = sum(counts.values())
        some = ", ".join(f"{label} {n:,}" for label, n in counts.most_common(12))
        more = f", {len(counts) - 12} more" if len(counts) > 12 else ""
        scheme = scheme_of(counts)
        how = f", entities by {scheme}" if scheme else ""
        skipped = f"; {self.skipped:,} bad lines were left out" if self.skipped else ""
        return (
            f"{self.where}: {many(len(self.texts), 'sentence')} of {many(words, 'word')}, labels "
            f"{some}{more}{how}{skipped}"
        )


def read_tagged(
    path: Location, word_column: int = 0, label_column: int = -1, on_error: str = "error"
) -> TaggedTexts:
    """Reads sentences with labelled words from CoNLL columns or JSON lines.

    | file | sentences |
    |---|---|
    | `*.jsonl`, `*.ndjson`, `*.json`, Parquet, `Rows` | a JSON object on each line (or row), with lists of strings under `words` and `labels` |
    | any other | CoNLL columns: a word and its label on each line, separated by spaces or a tab, with the same number of columns on every line; blank lines, and lines that begin with `-DOCSTART-`, separate the sentences; lines before a sentence that begin with `# ` are skipped |

    Text files are UTF-8, or UTF-16 with a byte order mark, plain or gzipped (`*.gz`).

    Args:
        path: The file.
        word_column: Column of the words, from 0; negative numbers count from the end.
        label_column: Column of the labels, in the same form; the last column by default.
        on_error: `"error"` raises an error for bad lines; `"skip"` leaves their sentences out,
            counts the lines in `skipped`, and lists them in `problems`.

    Returns:
        A `TaggedTexts`, a sequence of `TaggedText`s.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If `path` is a Parquet file, and `pyarrow` is not installed.
        ValueError: If no sentence is left, or `word_column` and `label_column` are equal. With
            `on_error="error"`, also if a line lacks a column, has a different number of columns, is
            not UTF-8, or is not a JSON object with both lists; or if the numbers of words and
            labels differ.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "some.txt")
    >>> _ = path.write_text("Ada NNP B-PER\\ncodes VBZ O\\n\\nTea NN O\\n")
    >>> list(read_tagged(path))[0]
    TaggedText(words=('Ada', 'codes'), labels=('B-PER', 'O'))
    """  # noqa: E501  a table
    if word_column == label_column:
        raise ValueError(
            "Expected different columns for words and labels. Received: word_column="
            f"{word_column}, label_column={label_column}."
        )
    where = existing(path, "a file of words with labels")
    reading = LineReading(where, on_error, TaggedTexts.kinds)
    with open_lines(path) as lines:
        if ending(path) in _JSON:
            texts = list(_of_objects(lines, reading))
        else:
            texts = list(_of_columns(lines, reading, word_column, label_column))
    reading.refuse(len(texts), "a word and a label on each line", "sentence")
    return TaggedTexts(texts, reading.where, reading.bad_lines, reading.problems)


def _of_columns(
    lines: Iterator[bytes], reading: LineReading, word_column: int, label_column: int
) -> Iterator[TaggedText]:
    words: list[str] = []
    labels: list[str] = []
    bad = False
    width = 0
    least = max(c + 1 if c >= 0 else -c for c in (word_column, label_column))
    for number, line in reading.texts(lines):
        if line is None:
            bad = True
            continue
        if line.startswith("# ") and not words and not bad:
            continue  # behind a word it is one itself
        if is_blank(line) or line.startswith(_DOCUMENT):
            if words and not bad:
                yield TaggedText(tuple(words), tuple(labels))
            words, labels, bad = [], [], False
            continue
        # Words may have spaces such as U+00A0 in them.
        cells = line.split("\t") if "\t" in line else [*filter(None, line.strip(" ").split(" "))]
        if len(cells) < max(least, 2) or not cells[word_column] or not cells[label_column].strip():
            what = f"{len(cells)} columns in {line[:60]!r}"
            missing = [c for c in (word_column, label_column) if not -len(cells) <= c < len(cells)]
            what += f", and no column {missing[0]} (the first is 0)" if missing else ""
            reading.problem(number, "columns", what)
            bad = True
            continue
        width = width or len(cells)
        if len(cells) != width:  # a space within a word, which would lose a part of it
            what = f"{len(cells)} columns in {line[:60]!r}, {width} before it"
            reading.problem(number, "columns", what)
            bad = True
            continue
        words.append(cells[word_column])
        labels.append(cells[label_column].strip())
    if words and not bad:
        yield TaggedText(tuple(words), tuple(labels))


def _of_objects(lines: Iterator[bytes], reading: LineReading) -> Iterator[TaggedText]:
    for number, record in reading.records(lines):
        sides = []
        for key in ("words", "labels"):
            if key not in record:
                reading.no_key(number, record, key)
            elif not _are_strings(record[key]):
                reading.problem(number, "type", f"{key!r} is not a list of strings with characters")
            elif reading.string(number, "".join(record[key]), key) is not None:
                sides.append(tuple(record[key]))
        if len(sides) < 2:
            continue
        words, labels = sides
        if len(words) != len(labels):
            what = f"{len(words)} words and {len(labels)} labels"
            reading.problem(number, "lengths", what)
        elif words:
            yield TaggedText(words, labels)


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) and x for x in value)


def checked_tagged(examples: Iterable[object]) -> list[TaggedText]:
    """Checks `TaggedText`s, or pairs of words and labels."""
    texts = []
    given = listed(examples, "words with labels", 2, "keras_attn.records.read_tagged(path)")
    for i, example in enumerate(given):
        parts = list(example) if isinstance(example, tuple | list) else []
        if len(parts) != 2 or not all(map(_is_row, parts)):
            raise TypeError(
                "Expected pairs of a list of words and a list of labels. Received: "
                f"{example!r:.100} as example {i}."
            )
        words, labels = map(tuple, parts)
        if len(words) != len(labels):
            raise ValueError(
                f"Expected a label for each word. Received: {len(labels)} labels for {len(words)} "
                f"words in example {i}."
            )
        texts.append(TaggedText(words, labels))
    return texts


def _is_row(row: object) -> bool:
    return (
        isinstance(row, Sequence)
        and not isinstance(row, str | bytes)
        and all(isinstance(x, str) for x in row)
    )


def split_tagged(
    texts: Sequence[TaggedText], share: float, seed: int = 0
) -> tuple[list[TaggedText], list[TaggedText]]:
    """Splits sentences at random into two sets; sentences with the same words stay together.

    Args:
        texts: The sentences.
        share: Approximate fraction of the different sentences that go to the second set, chosen by
            a hash of their words. If there are at least two different sentences, each set gets at
            least one.
        seed: Seed of the hash, an integer of at least 0.

    Returns:
        A tuple of two lists, each in the order of the sentences.

    Raises:
        ValueError: If `share` is not between 0 and 1, or `seed` is out of range.

    Example:

    >>> texts = [TaggedText((str(n),), ("O",)) for n in range(100)]
    >>> first, second = split_tagged(texts, 0.2)
    >>> len(first) + len(second), 5 < len(second) < 40
    (100, True)
    """
    check_share(share)
    return split_by_hash(texts, ["\x00".join(text.words) for text in texts], share, seed)


def warn_of_unknown(texts: Sequence[TaggedText], labels: Sequence[str], stacklevel: int) -> None:
    """Warns if texts have labels that a tagger does not know."""
    counts = Counter(label for text in texts for label in text.labels)
    unknown = {label: n for label, n in counts.items() if label not in labels}
    if unknown:
        some = ", ".join(f"{label} ({n:,})" for label, n in [*unknown.items()][:5])
        more = f", {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
        warnings.warn(
            f"{sum(unknown.values()):,} of {counts.total():,} words have labels that this "
            f"tagger does not know. They count as errors: {some}{more}.",
            stacklevel=stacklevel,
        )
