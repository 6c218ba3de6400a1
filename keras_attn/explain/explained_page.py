"""A page of what a task's `explain` returned."""

from collections.abc import Sequence

from keras_attn.explain.encoder_study import EncoderStudy
from keras_attn.explain.explanation import Explanation
from keras_attn.visualize import text_weights_html


def explained_page(found: EncoderStudy | Sequence[Explanation], title: str) -> str:
    """Writes a page of HTML: the study of an encoder, or texts with the weights of their words.

    Example:

    >>> page = explained_page([Explanation("good", ["good"], [(0, 4)], [0.5])], "Why?")
    >>> "<title>Why?</title>" in page
    True
    """
    if isinstance(found, EncoderStudy):
        return found.html(title=title)
    return text_weights_html(found, title)
