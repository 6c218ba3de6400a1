"""Reading of lines and prompts for the command."""

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from keras_attn.cli.pictures import find_pictures
from keras_attn.records.encodings import encoding_of
from keras_attn.records.opened_lines import unpacked_lines

_CHUNK = 1024


def check_files(files: tuple[Path, ...]) -> None:
    """Raises an error if a path is no existing file; `-` stands for standard input."""
    for path in files:
        if str(path) != "-" and (path.is_dir() or not path.exists()):  # a pipe is one too
            raise FileNotFoundError(f"Expected a file. Received: {path}, which is not a file.")


def read_chunks(files: tuple[Path, ...], size: int = 0) -> Iterator[list[str]]:
    r"""Reads lines of files or of standard input in chunks.

    Files may be gzipped. Lines end at "\n", "\r\n" or "\r". Bytes that are not UTF-8 are read as
    U+FFFD, with a warning at the end. A terminal is read line by line unless `size` is given.
    """
    standard = sys.stdin is not None and (not files or Path("-") in files)
    one = standard and sys.stdin.isatty()  # who types wants an answer
    yield from _chunks(_lines(files), size or (1 if one else _CHUNK))


def _lines(files: tuple[Path, ...]) -> Iterator[str]:
    broken = 0
    for path in files or (Path("-"),):
        with _opened(path) as lines:
            for line in lines:
                broken += not _is_utf8(line)
                yield line.decode("utf-8", errors="replace")
    if broken:
        click.echo(f"{broken} lines are no UTF-8: bad bytes were read as U+FFFD.", err=True)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a file, plain or gzipped, or of standard input, in UTF-8."""
    standard = str(path) == "-"
    where = "standard input" if standard else str(path)
    if standard and sys.stdin is None:  # Python found it closed
        raise ValueError("Expected lines in standard input, which is closed. Give files instead.")
    with open(0 if standard else path, "rb", closefd=not standard) as file:
        if file.peek(4)[:4] == b"PAR1":
            raise ValueError(
                f"Expected lines of text. Received: {where}, a Parquet file. To read a Parquet "
                "file as a table, name its columns; `--help` says with which options."
            )
        with unpacked_lines(file, where, encoding_of(path)) as lines:
            yield lines


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, size)):
        yield chunk


class Reader(NamedTuple):
    """A kind of input of a step: the argument for its paths, their check, and how to read them."""

    argument: str
    """Name of the argument for paths; empty if there is none."""
    help: str
    check: Callable[[tuple[Path, ...], bool], None]
    """Check that is called first, with the paths and whether bad inputs are skipped."""
    chunks: Callable[[tuple[Path, ...]], Iterable[Any]]
    """Function of the paths that yields lists of inputs."""


def _pairs(files: tuple[Path, ...]) -> Iterator[list[Any]]:
    """Lines; lines with a tab become pairs."""
    for lines in read_chunks(files):
        parts = [line.partition("\t") for line in lines]
        yield [(first, second) if tab else first for first, tab, second in parts]


def _only_pairs(files: tuple[Path, ...]) -> Iterator[list[Any]]:
    """Lines as pairs separated by a tab; raises a ValueError for a line without a tab."""
    for path in files or (Path("-"),):
        before = 0
        for pairs in _pairs((path,)):
            for number, pair in enumerate(pairs, start=before + 1):
                if isinstance(pair, str):
                    raise _no_tab(path, number, pair)
            before += len(pairs)
            yield pairs


def _check_pairs(files: tuple[Path, ...], pictures: bool = False) -> None:
    """Finds bad lines of files in advance; lines of pipes are checked when they are read.

    A line is bad if it has no tab or, with `pictures`, if its first part is not a file.
    """
    check_files(files)
    for path in files:
        if path.is_file():
            with _opened(path) as lines:
                for number, line in enumerate(lines, start=1):
                    text = line.decode("utf-8", "replace")
                    if "\t" not in text:
                        raise _no_tab(path, number, text)
                    picture = text.partition("\t")[0]
                    if pictures and not os.path.exists(picture):
                        raise FileNotFoundError(
                            f"Expected the path of a picture in line {number} of {path}. "
                            f"Received: {picture[:200]!r}, which is not a file."
                        )


def _no_tab(path: Path, number: int, line: str) -> ValueError:
    where = "standard input" if str(path) == "-" else path
    return ValueError(
        "Expected two texts with a tab between them on each line. Received: no tab in line "
        f"{number} of {where}, {line[:80]!r}."
    )


def _turns(files: tuple[Path, ...]) -> Iterator[list[Any]]:
    """Lines as tuples of their parts, separated by tabs."""
    for lines in read_chunks(files):
        yield [tuple(line.split("\t")) for line in lines]


def _prompts(files: tuple[Path, ...]) -> Iterator[list[str]]:
    """Lines of the files, or of standard input unless it is a terminal."""
    piped = sys.stdin is not None and not sys.stdin.isatty()
    yield from read_chunks(files) if files or piped else ()


def _check_lines(files: tuple[Path, ...], skip: bool) -> None:
    check_files(files)


def _check_pictures(files: tuple[Path, ...], skip: bool) -> None:
    find_pictures(files)


READERS = {
    "pairs": Reader(
        "files",
        "FILES have one text on each line, or two with a tab between them; standard input is read "
        "if there are none. Bytes that are not UTF-8 are read as U+FFFD, with a warning.",
        _check_lines,
        _pairs,
    ),
    "only_pairs": Reader(
        "files",
        "FILES have two texts on each line, with a tab between them; standard input is read if "
        "there are none. Bytes that are not UTF-8 are read as U+FFFD, with a warning.",
        lambda files, skip: _check_pairs(files),
        _only_pairs,
    ),
    "picture_pairs": Reader(
        "files",
        "FILES have the path of a picture, a tab and a text on each line; standard input is read "
        "if there are none. Bytes that are not UTF-8 are read as U+FFFD, with a warning.",
        lambda files, skip: _check_pairs(files, pictures=not skip),
        _only_pairs,
    ),
    "turns": Reader(
        "files",
        "FILES have the turns so far of a conversation on each line, with tabs between them; "
        "standard input is read if there are none. Bytes that are not UTF-8 are read as U+FFFD, "
        "with a warning.",
        _check_lines,
        _turns,
    ),
    "lines": Reader(
        "files",
        "FILES have one text on each line; standard input is read if there are none. A "
        "line ends at a line feed, a carriage return, or both. Bytes that are not UTF-8 are read "
        "as U+FFFD, with a warning.",
        _check_lines,
        read_chunks,
    ),
    "prompts": Reader(
        "files",
        "FILES have a prompt on each line. Without --prompt and FILES, standard input is read if "
        "it is a file or a pipe, and else a text is written from its beginning. A prompt of "
        "several lines is given with --prompt. Bytes that are not UTF-8 are read as U+FFFD, with "
        "a warning.",
        _check_lines,
        _prompts,
    ),
    "typed": Reader(
        "",
        "Standard input is read line by line.",
        lambda files, skip: None,
        lambda files: read_chunks((), size=1),
    ),
    "pictures": Reader(
        "pictures",
        "PICTURES are files or folders. Of folders, and the folders within, all files are read "
        "whose names end as those of pictures do.",
        _check_pictures,
        find_pictures,
    ),
}  # fmt: skip
"""The readers, keyed by the names in `Step.reads` and `Task.reads`."""
