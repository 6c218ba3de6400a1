"""Matplotlib figures and their labels."""

import functools
import io
from collections.abc import Sequence

from keras_attn.packages import needed
from keras_attn.visualize.display import drawable


@functools.cache
def figure_class() -> type:
    """Creates the figure class; matplotlib is imported only here and in the plots."""
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
    """Replaces characters that matplotlib cannot draw without warnings.

    Letters that the fonts lack become boxes. Dollar signs are escaped, so that they do not start a
    formula.
    """
    import matplotlib
    from matplotlib import font_manager

    names = matplotlib.rcParams["font.family"] if fonts is None else fonts
    families = [font_manager.FontProperties(family=[name]) for name in names]
    known = _known_characters(tuple(map(font_manager.findfont, families)))
    boxed = "".join(c if c in known or c.isspace() else "\u25a1" for c in drawable(text))
    return boxed.replace("$", r"\$")


@functools.cache
def _known_characters(files: tuple[str, ...]) -> set[str]:
    from matplotlib import font_manager

    fonts = [font_manager.get_font(file) for file in files]
    return {chr(code) for font in fonts for code in font.get_charmap()}
