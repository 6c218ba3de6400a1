"""Texts as inputs: checked, and the odd ones that every export is tried with."""

from collections.abc import Iterable, Mapping
from typing import Any

ODD_TEXTS = [
    "A film to remember.",
    "A second, somewhat longer sentence: 42.",
    "",
    " \n\t ",
    "It was NOT good, I'd say: 2/10!",
    "two  spaces, \u00a0 others\u00a0too, and some behind  ",
    " before; one\ntwo\r\n\tthree",
    "naïve café, e\u0301 n\u0303 😀👩\u200d👧 ☕\ufe0f שלום, عالم 漢字",
    "a \x00 b\x01",
    "word " * 700,
]
"""Texts that every export is tried with: the odd beside the ordinary."""


def checked_texts(texts: Any) -> list[str]:
    """Checks texts.

    Args:
        texts: Strings.

    Returns:
        A list of them.

    Raises:
        TypeError: If an input is not a string.

    Example:

    >>> checked_texts(["a", 7])
    Traceback (most recent call last):
        ...
    TypeError: Expected strings. Received: 7 of type int at position 1.
    """
    if isinstance(texts, bytes | Mapping) or not isinstance(texts, Iterable):
        raise TypeError(
            f"Expected a string or a list of strings. Received: {type(texts).__name__}."
        )
    texts = list(texts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"Expected strings. Received: {text!r} of type {type(text).__name__} at "
                f"position {i}."
            )
    return texts
