"""Matplotlib figures and their labels."""

from __future__ import annotations

import functools
import io
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_attn.packages import needed
from keras_attn.visualize.display import drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BOXES = (
    "No installed font has some of the letters of this figure; they are drawn as boxes. Install a "
    "font that has them, such as Noto Sans CJK, or write an HTML page, which browsers draw with "
    "their fonts."
)


@functools.cache
def figure_class() -> type:
    """Returns the figure class; matplotlib is only imported here and in the plots."""
    with needed("A drawing"):
        from matplotlib import figure

    class Figure(figure.Figure):
        """A figure that notebooks display, without pyplot, which would keep each figure open."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return Figure


def label(text: str, fonts: Sequence[str] | None = None) -> str:
    """Replaces characters that matplotlib would not draw, or would draw with a warning.

    Letters that no installed font contains become boxes, and a warning is issued. Dollar signs are
    escaped, so that they do not start a formula.
    """
    import matplotlib

    known = _known(matplotlib.rcParams["font.family"] if fonts is None else fonts)
    shown = drawable(text)
    lacking = {c for c in shown if not (c in known or c.isspace() or font_of(c))}
    if lacking:
        warnings.warn(_BOXES, stacklevel=2)
    return "".join("\u25a1" if c in lacking else c for c in shown).replace("$", r"\$")


def finished(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """Sets fonts that contain the letters of a figure's texts, and saves it if there is a path."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        families = text.get_fontfamily()
        known = _known(families)
        letters = {c for c in text.get_text() if c not in known and not c.isspace()}
        more = {name for name in map(font_of, letters) if name}
        if more:
            text.set_fontfamily([*families, *sorted(more)])
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


@functools.cache
def font_of(character: str) -> str:
    """Returns the name of an installed font that contains a character; empty if there is none."""
    from matplotlib import font_manager

    for font in sorted(font_manager.fontManager.ttflist, key=lambda font: font.name):
        drawn = not font.name.startswith("Last Resort")  # which only has pictures of boxes
        if drawn and character in _known_characters((font.fname,)):
            return font.name
    return ""


def _known(families: Sequence[str]) -> set[str]:
    """The characters that the fonts of some families have."""
    from matplotlib import font_manager

    fonts = [font_manager.FontProperties(family=[name]) for name in families]
    return _known_characters(tuple(map(font_manager.findfont, fonts)))


@functools.cache
def _known_characters(files: tuple[str, ...]) -> set[str]:
    """The characters of font files, without those of pictures, such as coloured emoji."""
    from matplotlib import font_manager

    fonts = [font_manager.get_font(file) for file in files]
    return {chr(code) for font in fonts if font.scalable for code in font.get_charmap()}
