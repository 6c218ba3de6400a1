"""Plain text from files."""

from __future__ import annotations

import codecs
import gzip
import os
from typing import Self

from keras_attn.input_files import read_input, undamaged
from keras_attn.line_ends import with_newlines
from keras_attn.records.encodings import encoding_of


def read_text(path: str | os.PathLike[str]) -> str:
    """Reads a text file, plain or gzipped; line breaks become newlines.

    Args:
        path: The file, in UTF-8, or in UTF-16 with a byte order mark; an `EncodedFile` for other
            encodings.

    Returns:
        The text.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is not in its encoding, is empty or damaged, or is not a regular
            file.

    Example:

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "text.txt"
    >>> _ = file.write_bytes(b"To be,\\r\\nor not")
    >>> read_text(file)
    'To be,\\nor not'
    """
    raw = read_input(path, "a text file")
    if raw[:2] == b"\x1f\x8b" or os.fspath(path).lower().endswith(".gz"):
        with undamaged(path, "a whole gzipped text file"):
            raw = gzip.decompress(raw)
    marked = raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = encoding_of(path) or ("utf-16" if marked else "utf-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected {encoding.upper()} text. Received: {os.fspath(path)}, with byte "
            f"0x{error.object[error.start]:02x} at byte {error.start + 1}. Convert the file "
            "(for example with iconv), or specify its encoding (--encoding cp1252)."
        ) from error
    text = with_newlines(text.removeprefix("\ufeff"))
    if not text:
        raise ValueError(f"Expected text. Received: {path}, which is empty.")
    return text


def split_text(text: str, dev_share: float, test_share: float) -> tuple[str, str, str]:
    """Splits a text in its order into training, development and test parts.

    The development part begins at character `int((1 - dev_share - test_share) * len(text))`, and
    the test part, the end of the text, at character `int((1 - test_share) * len(text))`, as is
    usual for character-level data.

    Args:
        text: The text.
        dev_share: Fraction of the development part, at least 0.
        test_share: Fraction of the test part, at least 0. The sum of both fractions must be below
            1.

    Returns:
        A tuple `(train, dev, test)` of strings, whose concatenation is the text.

    Raises:
        ValueError: If a fraction is out of range.

    Example:

    >>> split_text("0123456789", dev_share=0.2, test_share=0.1)
    ('0123456', '78', '9')
    """
    if dev_share < 0 or test_share < 0 or dev_share + test_share >= 1:
        raise ValueError(
            "`dev_share` and `test_share` must be at least 0 and together below 1. "
            f"Received: {dev_share} and {test_share}."
        )
    first = int(len(text) * round(1 - dev_share - test_share, 9))
    second = int(len(text) * round(1 - test_share, 9))
    return text[:first], text[first:second], text[second:]


class Text(str):
    """A string with the name of its source.

    Args:
        text: The text.
        where: Name of the source, for messages.

    Example:

    >>> Text("to be", "hamlet.txt").summary()
    'hamlet.txt: 5 characters'
    """

    where: str

    def __new__(cls, text: str, where: str = "given") -> Self:
        """Makes a text."""
        made = super().__new__(cls, text)
        made.where = where
        return made

    def summary(self) -> str:
        """Returns the name of the source and the number of characters, as text."""
        return f"{self.where}: {len(self):,} characters"
