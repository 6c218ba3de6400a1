"""An HTML page of the result of a task's `explain`."""

from collections.abc import Sequence

from keras_attn.explain.encoder_study import EncoderStudy
from keras_attn.explain.explanation import Explanation
from keras_attn.visualize import text_weights_html


def explained_page(found: EncoderStudy | Sequence[Explanation], title: str) -> str:
    """Returns an HTML page of an `EncoderStudy`, or of several `Explanation`s.

    Example:

    >>> page = explained_page([Explanation("good", ["good"], [(0, 4)], [0.5])], "Why?")
    >>> "<title>Why?</title>" in page
    True
    """
    if isinstance(found, EncoderStudy):
        return found.html(title=title)
    return text_weights_html(found, title)
