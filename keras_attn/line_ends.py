r"""Lines of files, cut in one way by all readers.

A line ends at "\n" or "\r", and the carriage returns before a "\n" belong to it: "\n", "\r\n",
"\r\r\n" and "\r" alone are one end each. No other character ends a line, whatever Unicode calls a
line end (U+000B, U+000C, U+001C to U+001E, U+0085, U+2028, U+2029).
"""

import io
import re
from collections.abc import Iterator
from typing import IO

_RETURNS = re.compile(r"\r+\n?")


def cut_lines(file: IO[bytes], longest: int = -1) -> Iterator[bytes]:
    """Yields the lines of a file while it is read."""
    # In Latin-1 each byte is one character, and Python cuts at these ends.
    text = io.TextIOWrapper(file, "latin-1", newline="")
    returned = False  # whether the end before was "\r"
    blanks = 0  # further ones, which belong to a "\n" if that follows
    try:
        while piece := text.readline(longest):
            if returned and piece == "\r":
                blanks += 1
            elif returned and piece in ("\n", "\r\n"):
                returned, blanks = False, 0
            else:
                yield from [b""] * blanks
                returned, blanks = piece.endswith("\r"), 0
                yield piece.rstrip("\r\n").encode("latin-1")
        yield from [b""] * blanks
    finally:
        if not file.closed:
            text.detach()  # which leaves the file to whoever opened it


def with_newlines(text: str) -> str:
    r"""Converts all line ends of a text to "\n"."""
    if "\r" not in text:
        return text
    return _RETURNS.sub(lambda ends: "\n" if ends[0][-1] == "\n" else "\n" * len(ends[0]), text)
