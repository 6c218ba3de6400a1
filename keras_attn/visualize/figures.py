"""Figures of matplotlib that notebooks show."""

import functools
import io


@functools.cache
def figure_class() -> type:
    """Makes the class, so that matplotlib is imported when it is needed.

    Returns:
        A subclass of `matplotlib.figure.Figure`, which shows itself in notebooks without pyplot.

    Example:

    >>> figure_class()(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """
    from matplotlib import figure

    class Figure(figure.Figure):
        """A figure that notebooks show without pyplot, which would keep it open."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    return Figure
