"""The pictures that commands read."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import FILE
from keras_attn.images import ImageProblem
from keras_attn.records.problems import many

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .gif .bmp .tif .tiff .webp .ppm .pgm .pbm .pnm .jp2 .avif".split()
)

pictures_argument = click.argument("pictures", nargs=-1, type=FILE, required=True)


def find_pictures(given: tuple[Path, ...]) -> list[Path]:
    """Finds the pictures of files and folders.

    Args:
        given: Files, which are taken whatever their names are, and folders.

    Returns:
        The files, those of a folder sorted; a file that is given twice, once.

    Raises:
        FileNotFoundError: If a folder has no pictures.

    Example:

    >>> find_pictures((Path("b.png"), Path("a.png"), Path("b.png")))
    [PosixPath('b.png'), PosixPath('a.png')]
    """
    found: dict[Path, None] = {}
    for path in given:
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(
            file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()
        )
        if not inside:
            raise FileNotFoundError(f"Expected pictures in {path}. Received: a folder with none.")
        found |= dict.fromkeys(inside)
    return list(found)


def tell_broken(problems: Sequence[ImageProblem]) -> int:
    """Names broken pictures on standard error, and returns how many there are."""
    for problem in problems:
        click.echo(f"{as_text(problem.where)}: {problem.what}", err=True)
    return len(problems)


def exit_if_broken(broken: int, without: str = "Without a caption") -> None:
    """Ends the command with exit code 1 where pictures were broken.

    Args:
        broken: How many.
        without: What has not become of them.

    Raises:
        click.exceptions.Exit: If there are some.
    """
    if broken:
        click.echo(f"{without}: {many(broken, 'picture')}.", err=True)
        raise click.exceptions.Exit(1)


def as_text(path: Any) -> str:
    """A path as text that can be written as UTF-8."""
    return os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
