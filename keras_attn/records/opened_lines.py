"""Lines of files that are plain, gzipped, in a zip archive, or in another encoding than UTF-8."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from keras_attn.input_files import DAMAGE, input_file
from keras_attn.line_ends import cut_lines
from keras_attn.records.encodings import Location, encoding_of
from keras_attn.records.rows import Rows, is_parquet, parquet_rows

_CHUNK = 2**16
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the latter: an empty archive


def is_zip(path: Location) -> bool:
    """Returns whether a file begins like a zip archive."""
    with open(input_file(path), "rb") as file:
        return file.read(4) in _ZIP


@contextmanager
def open_lines(path: Location) -> Iterator[Iterator[bytes]]:
    """Opens the lines of a plain or gzipped file; `Rows` become lines of JSON."""
    if isinstance(path, Rows) or is_parquet(path):
        if encoding_of(path) and not isinstance(path, Rows):
            raise ValueError(
                f"{os.fspath(path)}: `encoding` is only used for text files. Received: "
                f"{encoding_of(path)!r} with a Parquet file. Leave it out."
            )
        yield (path if isinstance(path, Rows) else parquet_rows(path)).lines()
        return
    where = os.fspath(path)
    with (
        open(input_file(path), "rb") as file,
        unpacked_lines(file, where, encoding_of(path)) as lines,
    ):
        yield lines


@contextmanager
def unpacked_lines(
    file: io.BufferedReader, where: str, encoding: str = ""
) -> Iterator[Iterator[bytes]]:
    """The lines of an open file, plain or gzipped, as `byte_lines` yields them."""
    start = file.peek(4)[:4]  # its first bytes say better than its name what it is
    if start in _ZIP:
        raise ValueError(
            f"{where}: expected text, plain or gzipped. Received: a zip archive. "
            "Unpack it (`read_tatoeba` reads Tatoeba's)."
        )
    if start[:2] == b"\x1f\x8b" or where.lower().endswith(".gz"):
        with gzip.open(file) as packed:
            yield byte_lines(cast(IO[bytes], packed), where, encoding)
    else:
        yield byte_lines(file, where, encoding)


@contextmanager
def open_member(path: Location) -> Iterator[Iterator[bytes]]:
    """Opens the lines of the only text file in a zip archive."""
    try:
        archive = zipfile.ZipFile(input_file(path))
    except DAMAGE as error:
        raise _damaged(os.fspath(path), 0, error) from error
    with archive:
        names = [
            name
            for name in archive.namelist()
            if name.endswith((".txt", ".tsv"))
            and not name.rpartition("/")[2].startswith(("_", "."))
        ]
        if len(names) != 1:
            raise ValueError(
                f"{os.fspath(path)}: expected an archive with one file of sentences (*.txt "
                f"or *.tsv). Received: an archive with {', '.join(names) or 'no files'}. "
                "Unpack it and give the file."
            )
        try:
            file = archive.open(names[0])
        except (*DAMAGE, RuntimeError) as error:  # the latter: it wants a password
            raise _damaged(os.fspath(path), 0, error) from error
        with file:
            yield byte_lines(file, os.fspath(path), encoding_of(path))


def byte_lines(file: IO[bytes], where: str, encoding: str = "") -> Iterator[bytes]:
    """Yields lines in UTF-8 without line ends; UTF-16 with a byte order mark is recoded."""
    number, says = 0, "`encoding` says"
    try:
        start = cast(io.BufferedReader, file).peek(2)[:2]
        if not encoding and start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding, says = "utf-16", "its first two bytes say"
        if encoding:
            file = io.BufferedReader(_Recoded(file, encoding))
        for number, raw in enumerate(cut_lines(file), start=1):
            yield raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: expected text in {encoding.upper()}, as {says}. Received: other bytes after "
            f"line {number:,} ({error.reason}). Save the file as UTF-8."
        ) from error
    except DAMAGE as error:
        raise _damaged(where, number, error) from error


class _Recoded(io.RawIOBase):
    """The UTF-8 bytes of a file in another encoding."""

    def __init__(self, file: IO[bytes], encoding: str):
        self._file, self._left = file, b""
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer."""
        chunk = b"."
        while chunk and not self._left:
            chunk = self._file.read(_CHUNK)
            self._left = self._decoder.decode(chunk, final=not chunk).encode("utf-8")
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _damaged(where: str, number: int, error: Exception) -> ValueError:
    return ValueError(
        f"{where}: expected a whole compressed file. Received: one that is cut off or damaged "
        f"after line {number:,} ({error}). Fetch or pack it again; skipping does not help here."
    )
