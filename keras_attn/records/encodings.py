"""Files in other encodings than UTF-8, and expanded paths."""

from __future__ import annotations

import codecs
import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

Location = str | os.PathLike[str]
_ENCODING: ContextVar[str] = ContextVar("encoding", default="")


class EncodedFile(os.PathLike[str]):
    """A text file that is not in UTF-8, which readers of text files accept instead of a path.

    Args:
        path: The file. It may be gzipped if the reader accepts gzipped files.
        encoding: Name of a Python codec for text, such as `"cp1252"`.

    Raises:
        ValueError: If Python has no codec for text of this name.

    Example:

    >>> os.fspath(EncodedFile("reviews.csv", "cp1252"))
    'reviews.csv'
    """

    def __init__(self, path: Location, encoding: str):
        check_encoding(encoding)
        self.path = os.path.expanduser(os.fspath(path))
        self.encoding = encoding

    def __fspath__(self) -> str:
        return self.path


def check_encoding(encoding: str) -> None:
    """Raises a ValueError for an unknown encoding; an empty string is accepted."""
    try:
        known = not encoding or codecs.lookup(encoding)._is_text_encoding
    except LookupError:
        known = False
    if not known:
        raise ValueError(
            "Expected `encoding` to be the name of a codec of Python, such as 'cp1252', 'latin-1', "
            f"'utf-16' or 'shift_jis'. Received: {encoding!r}."
        )


def expanded(path: Location) -> Location:
    """Expands `~` in a path; returns `Rows` and `EncodedFile`s unchanged."""
    return os.path.expanduser(path) if isinstance(path, str) else path


@contextlib.contextmanager
def files_in(encoding: str) -> Iterator[None]:
    """Sets the encoding of files that are read inside the `with` block; UTF-8 if empty.

    Example:

    >>> with files_in("cp1252"):
    ...     encoding_of("reviews.csv")
    'cp1252'
    """
    check_encoding(encoding)
    before = _ENCODING.set(encoding)
    try:
        yield
    finally:
        _ENCODING.reset(before)


def encoding_of(path: Location) -> str:
    """Returns the encoding given for a file or for all files; an empty string if none was given."""
    return path.encoding if isinstance(path, EncodedFile) else _ENCODING.get()
