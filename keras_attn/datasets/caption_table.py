"""Rows of a table of pictures and captions."""

from __future__ import annotations

from collections.abc import Iterator

from keras_attn.datasets.labelled_reading import Column, LabelledReading, long_cells
from keras_attn.datasets.reading import Location, open_lines


class CaptionTable(LabelledReading):
    """The cells of two columns of a table, and the problems of its rows."""

    def __init__(self, path: Location, where: str):
        super().__init__(where, "skip")
        self.path = path

    def cells(
        self, delimiter: str, quotes: bool, columns: dict[str, Column], header: bool
    ) -> Iterator[tuple[str, str]]:
        """The picture and the caption of each row that has them."""
        with open_lines(self.path) as lines, long_cells():
            width, places = None, None if header else columns
            for number, row in self._rows(lines, delimiter, quotes):
                if not any(map(str.strip, row)):
                    continue
                if places is None:
                    width = len(row)
                    names = [name.strip() for name in row]
                    places = {name: self._place(names, at, name) for name, at in columns.items()}
                    continue
                width = len(row) if width is None else width
                if len(row) != width or max(places.values()) >= width:
                    least = max(width, 1 + max(places.values()))
                    self.problem(number, "columns", f"{least} expected, {len(row)} found")
                    continue
                image, caption = (self._cell(number, row[at], n) for n, at in places.items())
                if image is not None and not image.strip():
                    self.problem(number, "columns", "the picture is empty")
                elif image is not None and caption is not None:
                    yield image.strip(), caption
