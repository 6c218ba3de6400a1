"""Images that the command reads."""

from pathlib import Path

SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .png .gif .bmp .tif .tiff .webp .ppm .pgm .pbm .pnm .jp2 .avif".split()
)


def find_pictures(given: tuple[Path, ...]) -> list[Path]:
    """Returns the given files (with any name) and the images within the given folders, once."""
    found: dict[Path, None] = {}
    for path in given:
        if not path.is_dir():
            found[path] = None
            continue
        inside = sorted(
            file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()
        )
        if not inside:
            raise FileNotFoundError(
                f"Expected pictures in {path}. Received: a folder without pictures."
            )
        found |= dict.fromkeys(inside)
    return list(found)
