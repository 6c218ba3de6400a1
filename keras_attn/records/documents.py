"""Documents of sentences, read from files one by one."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from keras_attn.records.problems import PROBLEMS
from keras_attn.records.reading import LineReading, Location, ending, is_blank, open_lines
from keras_attn.text.sentences import split_sentences

Document = list[str]

MAX_CHARACTERS = 100_000
"""Largest number of characters of a sentence."""
_JSON = (".jsonl", ".ndjson", ".json")
_KINDS = {**PROBLEMS, "empty": "that are empty", "long": "with a sentence that is too long"}


class Documents:
    """Documents of one or several files, each a list of sentences.

    Each iteration reads the files again, so a corpus may be larger than memory.

    | file | documents |
    |---|---|
    | `*.jsonl`, `*.ndjson`, `*.json` | a JSON object on each line; the text under `key` is a whole document, which `split_sentences` cuts |
    | any other | a sentence on each line; blank lines separate the documents |

    Files are UTF-8, plain or gzipped (`*.gz`).

    Args:
        path: A file, a folder, or a pattern such as `"texts/*.txt"`. Of a folder, all files are
            read that end in `.txt` or as JSON lines do. Several of these may be joined by
            `os.pathsep` (`:`).
        key: Key of the text in JSON objects.
        on_error: `"error"`: bad lines are errors; `"skip"`: they are left out and counted.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: While they are read: if a file has no document, or lines that are not UTF-8,
            not JSON, empty documents, or sentences of more than `MAX_CHARACTERS` characters.

    Example:

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "texts.txt"
    >>> _ = path.write_text("It rains.\\nI stay in.\\n\\nThe sun shines.\\nI go out.\\n")
    >>> list(Documents(path))
    [['It rains.', 'I stay in.'], ['The sun shines.', 'I go out.']]
    """  # noqa: E501  a table

    def __init__(self, path: Location, key: str = "text", on_error: str = "error"):
        self.path = os.fspath(path)
        self.files = _files(self.path)
        self.key = key
        self.on_error = on_error
        self.skipped = 0
        """Number of bad lines that the last iteration left out."""

    def __iter__(self) -> Iterator[Document]:
        self.skipped = 0
        for file in self.files:
            reading = LineReading(file, self.on_error, _KINDS)
            count = 0
            for document in self._of_file(file, reading):
                count += 1
                yield document
            reading.refuse(count, "documents of sentences", "document")
            self.skipped += reading.bad_lines

    def _of_file(self, file: Path, reading: LineReading) -> Iterator[Document]:
        with open_lines(file) as lines:
            if ending(file) in _JSON:
                yield from self._of_objects(lines, reading)
            else:
                yield from self._of_lines(lines, reading)

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


def _files(path: str) -> list[Path]:
    """The files that a path stands for, in a fixed order."""
    found: list[Path] = []
    for part in path.split(os.pathsep):
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
                "Expected a text file, a folder of *.txt or *.jsonl files, or a pattern. "
                f"Received: {part!r}, where there is none."
            )
        found += files
    return found
