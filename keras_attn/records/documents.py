"""Documents from files, sentence by sentence or as whole texts."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from keras_attn.inputs import listed
from keras_attn.records.encodings import EncodedFile
from keras_attn.records.items import Records
from keras_attn.records.opened_lines import open_lines
from keras_attn.records.problems import PROBLEMS, LineProblem, many
from keras_attn.records.reading import LineReading, Location, ending, is_blank
from keras_attn.records.rows import Rows
from keras_attn.records.splitting import split_by_hash
from keras_attn.records.texts import Text, read_text, split_text
from keras_attn.text.sentences import split_sentences
from keras_attn.text.special_tokens import written_special_tokens

Document = list[str]

MAX_CHARACTERS = 100_000
"""Maximum number of characters of a sentence."""
_JSON = (".jsonl", ".ndjson", ".json")
_KINDS = {**PROBLEMS, "empty": "that are empty", "long": "with a sentence that is too long"}


class Documents:
    """Documents of one or several files, each a list of sentences.

    Each iteration reads the files again, so a corpus may be larger than memory.

    | file | documents |
    |---|---|
    | `*.jsonl`, `*.ndjson`, `*.json` | a JSON object on each line; the text under `key` is a document, which `split_sentences` splits |
    | `*.parquet`, `*.pq` | the same: each row has a document in the column `key` |
    | any other | a sentence on each line; blank lines separate the documents |

    Text files are UTF-8, or UTF-16 with a byte order mark, plain or gzipped (`*.gz`).

    Args:
        path: A file, a folder, a pattern such as `"texts/*.txt"`, or several of these joined by
            `os.pathsep` (`:`). In a folder, all `.txt`, JSON-lines and Parquet files are read.
            Alternatively, `Rows`, a table in memory.
        key: Key of the text in JSON objects, or name of its column.
        on_error: `"error"` raises an error for bad lines; `"skip"` leaves them out and counts them
            in `skipped`.
        shard: A tuple `(number, of)`: only documents `number`, `number + of`, ... are parsed. The
            documents of all files are numbered from 0.

    Raises:
        FileNotFoundError: If there is no such file, or the folder has no file that can be read.
        ImportError: During iteration, if a file is a Parquet file, and `pyarrow` is not installed.
        ValueError: During iteration, if a file has no document. With `on_error="error"`, also if a
            line is not UTF-8 or not a JSON object with a text under `key`, if a document is empty,
            or if a sentence has more than 100,000 characters.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.txt"
    >>> _ = path.write_text("It rains.\\nI stay in.\\n\\nThe sun shines.\\nI go out.\\n")
    >>> list(Documents(path))
    [['It rains.', 'I stay in.'], ['The sun shines.', 'I go out.']]
    """  # noqa: E501  a table

    def __init__(
        self,
        path: Location,
        key: str = "text",
        on_error: str = "error",
        shard: tuple[int, int] = (0, 1),
    ):
        self.path = os.fspath(path)
        self.shard = shard
        self.files = _files(path)
        self.key = key
        self.on_error = on_error
        self.skipped = 0
        """Number of bad lines that were left out in the last iteration."""

    def __iter__(self) -> Iterator[Document]:
        self.skipped = before = 0
        number, of = self.shard
        for file in self.files:
            reading = LineReading(file, self.on_error, _KINDS)
            count = 0
            objects = ending(file) in _JSON
            documents = self._of_objects if objects else self._of_lines
            with open_lines(file) as lines:
                own = _OwnLines(lines, objects, number - before, of)
                for document in documents(iter(own) if of > 1 else lines, reading):
                    count += 1
                    yield document
            reading.refuse(count or own.documents, "documents of sentences", "document")
            self.skipped += reading.bad_lines
            before += own.documents

    def _of_objects(self, lines: Iterator[bytes], reading: LineReading) -> Iterator[Document]:
        for number, record in reading.records(lines):
            if self.key not in record:
                reading.no_key(number, record, self.key)
                continue
            text = reading.string(number, record[self.key], self.key)
            if text is None:
                continue
            sentences = split_sentences(text)
            if all(map(is_blank, sentences)):
                reading.problem(number, "empty", "the document is empty")
                continue
            longest = max(map(len, sentences))
            if self._short_enough(reading, number, longest):
                yield sentences

    def _of_lines(self, lines: Iterator[bytes], reading: LineReading) -> Iterator[Document]:
        document: Document = []
        for number, line in reading.texts(lines):
            if line is None:
                continue
            if is_blank(line):
                if document:
                    yield document
                document = []
                continue
            if self._short_enough(reading, number, len(line)):
                document.append(line.strip())
        if document:
            yield document

    def _short_enough(self, reading: LineReading, number: int, length: int) -> bool:
        if length <= MAX_CHARACTERS:
            return True
        what = f"a sentence of {length:,} characters, more than {MAX_CHARACTERS:,}"
        reading.problem(number, "long", f"{what}; is it a whole document, or no text?")
        return False


class _OwnLines:
    """The lines of a file, where lines of documents of other shards are empty."""

    def __init__(self, lines: Iterator[bytes], objects: bool, number: int, of: int):
        self.lines, self.objects = lines, objects
        self.number, self.of = number, of
        self.documents = 0
        """Number of documents so far, of all shards."""

    def __iter__(self) -> Iterator[bytes]:
        between = True
        for line in self.lines:
            blank = not line.strip()
            if not blank and (between or self.objects):
                self.documents += 1
            between = blank
            yield line if (self.documents - 1 - self.number) % self.of == 0 else b""


def _files(path: Location) -> list[Location]:
    """The files that a path stands for, in a fixed order; rows and encoded files as they are."""
    if isinstance(path, Rows | EncodedFile):
        return [path]
    found: list[Location] = []
    for part in os.fspath(path).split(os.pathsep):
        place = Path(part).expanduser()
        if part and place.is_dir():  # nothing is not this folder
            ends = (".txt", *_JSON)
            files = [
                file for file in sorted(place.iterdir()) if file.is_file() and ending(file) in ends
            ]
        elif place.is_file():
            files = [place]
        else:
            names = map(Path, sorted(glob.glob(os.path.expanduser(part))))
            files = [name for name in names if name.is_file()]
        if not files:
            raise FileNotFoundError(
                "Expected a text file, a folder of *.txt, *.jsonl or *.parquet files, or a "
                f"pattern. Received: {part!r}, where there is no such file."
            )
        found += files
    return found


class SplitDocuments:
    """Training documents and held-out documents, each with a flag that is True if it is held out.

    Iteration yields tuples `(document, is_held_out)`: all documents of `texts`, then all documents
    of `held_out`. If `held_out` is None, a fraction of `texts` is held out. A hash of the text of
    each document decides whether it is held out, so that equal documents stay together.

    Args:
        texts: Documents as lists of sentences, which can be iterated several times.
        held_out: Held-out documents of the same form; None to hold out a fraction of `texts`.
        share: Approximate fraction of `texts` to hold out if `held_out` is None.
        seed: Seed of the choice of held-out documents.

    Example:

    >>> documents = SplitDocuments([["a b", "c"]], [["d"]])
    >>> list(documents), list(documents.training_sentences(9))
    ([(['a b', 'c'], False), (['d'], True)], ['a b', 'c'])
    """

    def __init__(
        self,
        texts: Iterable[Sequence[str]],
        held_out: Iterable[Sequence[str]] | None = None,
        share: float = 0.0,
        seed: int = 0,
    ):
        self.texts, self.held_out = texts, held_out
        self.share, self.seed = share, seed
        self.special_tokens: Counter[str] = Counter()
        """Counts of special tokens in `texts`, from the last iteration."""

    @property
    def skipped(self) -> int:
        """Number of bad lines of files (`Documents`) that were left out in the last iteration."""
        sides = self.texts, self.held_out
        return sum(side.skipped for side in sides if isinstance(side, Documents))

    def __iter__(self) -> Iterator[tuple[Sequence[str], bool]]:
        self.special_tokens.clear()
        for document in self.texts:
            self.special_tokens.update(written_special_tokens(document))
            yield document, self.held_out is None and self._drawn(document)
        for document in self.held_out or ():
            yield document, True

    def _drawn(self, document: Sequence[str]) -> bool:
        text = "\n".join(document).encode("utf-8", "replace")
        digest = hashlib.sha256(f"{self.seed}\n".encode() + text)
        return int.from_bytes(digest.digest()[:6], "big") < self.share * 2**48

    def training_sentences(self, characters: int) -> _TrainingSentences:
        """Returns the first training sentences, about `characters` characters in total."""
        return _TrainingSentences(self, characters)


@dataclass(frozen=True)
class _TrainingSentences:
    """The first training sentences of documents, which can be iterated several times."""

    documents: SplitDocuments
    characters: int

    def __iter__(self) -> Iterator[str]:
        left = self.characters
        for document, is_dev in self.documents:
            if is_dev:
                continue
            for sentence in document:
                yield sentence
                left -= len(sentence)
            if left <= 0:
                return


WholeDocument = str | tuple[str, str]
"""A text, or a tuple of a prompt and its answer."""


@dataclass(frozen=True)
class WholeDocuments(Records[WholeDocument]):
    """Documents of one or several files, and the problems of the documents that were left out.

    Example:

    >>> WholeDocuments(["It rains.", ("2 + 2 =", " 4")], "a.jsonl").summary()
    'a.jsonl: 2 documents of 18 characters'
    """

    documents: list[WholeDocument]
    """The documents."""
    where: str = "given"
    """The files, for messages."""
    problems: list[LineProblem] = field(default_factory=list, repr=False)
    """The problems of lines that were left out."""

    def summary(self) -> str:
        """Returns the numbers of documents and characters and the first problems, as text."""
        size = sum(len("".join(parts)) for parts in checked_documents(self.documents))
        counts = f"{many(len(self), 'document')} of {size:,} characters"
        return f"{self.where}: {counts}{self._left_out()}"


def checked_documents(documents: object) -> list[tuple[str, str]]:
    """Checks documents, and returns a prompt (which may be empty) and a text for each.

    Args:
        documents: A list of strings, a list of tuples (prompt, answer), or one long string.

    Raises:
        TypeError: If an element is neither a string nor a tuple of two strings.
        ValueError: If a text is empty.
    """
    if isinstance(documents, str):
        return [("", documents)]
    found = []
    for number, document in enumerate(listed(documents, "texts, or of prompts with answers")):
        parts = ["", document] if isinstance(document, str) else document
        pair = isinstance(parts, tuple | list) and len(parts) == 2
        if not pair or not all(isinstance(part, str) for part in parts):
            raise TypeError(
                "Expected a string, or a tuple of a prompt and its answer. Received: "
                f"{document!r:.100} at position {number}."
            )
        if not parts[1]:
            raise ValueError(
                f"Expected texts of at least one character. Received: {document!r} at position "
                f"{number}."
            )
        found.append((parts[0], parts[1]))
    return found


def read_whole_documents(
    path: Location,
    key: str = "text",
    prompt_key: str = "",
    blank_lines: bool = False,
    on_error: str = "error",
) -> Text | WholeDocuments:
    """Reads one long text, or several documents, from files.

    | files | |
    |---|---|
    | one text file | a long text; with `blank_lines`, documents separated by blank lines |
    | several text files | a document in each; with `blank_lines`, several documents in each |
    | `*.jsonl`, `*.ndjson`, `*.json` | each line is a JSON object with a document under `key` |
    | `*.parquet`, `*.pq`, `Rows` | each row has a document in the column `key` |

    Text files are UTF-8, or UTF-16 with a byte order mark, plain or gzipped (`*.gz`).

    Args:
        path: A file, a folder, a pattern, or a table in memory, as for `Documents`.
        key: JSON key or column of the documents, or of the answers if there are prompts.
        prompt_key: JSON key or column of the prompts; empty if there are none.
        blank_lines: Whether blank lines separate the documents of text files.
        on_error: `"error"` raises an error for bad lines of JSON and bad rows; `"skip"` leaves them
            out, and lists them in `problems`.

    Returns:
        A `Text`, which is a string, for one long text; otherwise a `WholeDocuments`, a sequence of
        strings, or of tuples (prompt, answer) with `prompt_key`.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If a file is a Parquet file, and `pyarrow` is not installed.
        ValueError: If a file has no document, a text file is damaged or not in its encoding, a
            setting does not apply to the files, or, with `on_error="error"`, a line or row is bad.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.txt"
    >>> _ = path.write_text("It rains.\\nI stay in.\\n\\nThe sun shines.\\n")
    >>> list(read_whole_documents(path, blank_lines=True))
    ['It rains.\\nI stay in.', 'The sun shines.']
    """
    files = _files(path)
    objects = [file for file in files if ending(file) in _JSON]
    for name, given, others in (
        ("prompt_key", prompt_key, len(objects) < len(files)),
        ("blank_lines", blank_lines, len(objects) == len(files)),
    ):
        if given and others:
            kind = "JSON lines and tables" if name == "prompt_key" else "text files"
            where = os.fspath(path)
            raise ValueError(
                f"`{name}` is only used with {kind}. Received: {name}={given!r} for {where}."
            )
    if len(files) == 1 and not objects and not blank_lines:
        return Text(read_text(files[0]), os.fspath(path))
    found: list[WholeDocument] = []
    problems: list[LineProblem] = []
    for file in files:
        if file in objects:
            reading = LineReading(file, on_error, _KINDS)
            with open_lines(file) as lines:
                some = list(_whole_objects(lines, reading, key, prompt_key))
            reading.refuse(len(some), f"a document as {key!r} on each line", "document")
            found += some
            problems += reading.problems
        else:
            text = read_text(file)
            found += _between_blank_lines(text) if blank_lines else [text]
    if not found:
        where = os.fspath(path)
        raise ValueError(
            f"Expected at least one document. Received: {where}, which has no document."
        )
    return WholeDocuments(found, os.fspath(path), problems)


def _whole_objects(
    lines: Iterator[bytes], reading: LineReading, key: str, prompt_key: str
) -> Iterator[WholeDocument]:
    names = (prompt_key, key) if prompt_key else (key,)
    for number, record in reading.records(lines):
        parts = []
        for name in names:
            if name not in record:
                reading.no_key(number, record, name)
            else:
                part = reading.string(number, record[name], name)
                parts += [] if part is None else [part]
        if len(parts) < len(names):
            continue
        if is_blank(parts[-1]):
            reading.problem(number, "empty", f"{key!r} has no text")
            continue
        yield (parts[0], parts[1]) if prompt_key else parts[0]


def _between_blank_lines(text: str) -> list[WholeDocument]:
    rows = (list(rows) for blank, rows in groupby(text.split("\n"), is_blank) if not blank)
    return ["\n".join(row) for row in rows]


def split_documents(
    given: str | Sequence[WholeDocument], dev_share: float, test_share: float
) -> tuple[Any, Any, Any]:
    """Splits a text or documents into training, development and test parts.

    `split_text` cuts a text into three parts. Documents are assigned by a hash of their text, so
    that equal documents stay together.

    Args:
        given: A text, or a list of documents: strings, or tuples (prompt, answer).
        dev_share: Fraction of the development part, at least 0. For documents, both fractions are
            met approximately.
        test_share: Fraction of the test part, at least 0. The sum of both fractions must be below
            1.

    Returns:
        A tuple `(train, dev, test)` of strings for a text, or of lists for documents.

    Raises:
        TypeError: If a document is neither a string nor a tuple of two strings.
        ValueError: If a fraction is out of range, or a document is empty.

    Example:

    >>> [len(part) for part in split_documents([f"It is {n}." for n in range(100)], 0.1, 0.2)]
    [70, 7, 23]
    """
    if isinstance(given, str):
        return split_text(given, dev_share, test_share)
    split_text("", dev_share, test_share)  # checks the shares
    rest: list[Any] = list(given)

    def drawn(share: float, seed: int) -> tuple[list[Any], list[Any]]:
        names = ["\x00".join(parts) for parts in checked_documents(rest)]
        return split_by_hash(rest, names, float(share), seed) if share else (rest, [])

    rest, test = drawn(test_share, 0)
    rest, dev = drawn(dev_share / (1 - test_share), 1)
    return rest, dev, test
