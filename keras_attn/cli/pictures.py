"""The pictures that commands read."""

from pathlib import Path

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .gif .bmp .tif .tiff .webp .ppm .pgm .pbm .pnm .jp2 .avif".split()
)


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
