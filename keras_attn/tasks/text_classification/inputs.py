"""What a classifier reads: single texts, or pairs of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from keras_attn.batches.classification_batches import TRUNCATIONS
from keras_attn.inputs import listed
from keras_attn.records.labelled_texts import Input

_PAIRS = "a pair of strings or a list of pairs"

Inputs = Input | Iterable[Input]
"""A text or a pair of texts, or several of them."""


def is_one(inputs: Any) -> bool:
    """Returns whether something is one text or one pair, and not a list of them.

    Args:
        inputs: A string, a tuple, or a list of these.

    Example:

    >>> is_one("A text."), is_one(("A text.", "Another.")), is_one(["A text."])
    (True, True, False)
    """
    return isinstance(inputs, str | tuple)


def checked_inputs(inputs: Any, pairs: bool) -> list[Input]:
    """Checks texts, or pairs of texts.

    Args:
        inputs: A string or a tuple of two strings, or a list of these.
        pairs: Whether pairs are expected.

    Returns:
        A list of strings, or of tuples of two strings.

    Raises:
        TypeError: If an input is neither a string nor a pair of strings.
        ValueError: If a pair is given where single texts are expected, or the reverse.

    Example:

    >>> checked_inputs(("A dog runs.", "An animal moves."), pairs=True)
    [('A dog runs.', 'An animal moves.')]
    >>> checked_inputs(["A dog runs."], pairs=True)
    Traceback (most recent call last):
        ...
    ValueError: Expected pairs of texts. Received: the single text 'A dog runs.' at position 0.
    """
    if is_one(inputs):
        inputs = [inputs]
    inputs = listed(inputs, _PAIRS if pairs else "a string or a list of strings", 1 + pairs)
    found: list[Input] = []
    for i, given in enumerate(inputs):
        pair = isinstance(given, tuple | list) and len(given) == 2
        if pair != pairs and (pair or isinstance(given, str)):
            expected = "pairs of texts" if pairs else "single texts"
            shown = f"a pair, {tuple(given)!r}," if pair else f"the single text {given!r}"
            raise ValueError(f"Expected {expected}. Received: {_cut(shown)} at position {i}.")
        parts = list(given) if pair else [given]
        if not all(isinstance(part, str) for part in parts):
            what = "pairs of strings" if pairs else "strings"
            raise TypeError(
                f"Expected {what}. Received: {_cut(repr(given))} of type {type(given).__name__} "
                f"at position {i}."
            )
        found.append((parts[0], parts[1]) if pair else given)
    return found


def texts_of(inputs: Sequence[Input]) -> list[str]:
    """Returns all texts, those of pairs one after the other.

    Args:
        inputs: Strings, or tuples of two strings.

    Example:

    >>> texts_of([("a", "b"), ("c", "d")])
    ['a', 'b', 'c', 'd']
    """
    parts = [(given,) if isinstance(given, str) else given for given in inputs]
    return [text for part in parts for text in part]


def _cut(shown: str) -> str:
    return shown if len(shown) <= 100 else f"{shown[:100]}..."


def checked_truncation(truncation: str | None, pairs: bool) -> str:
    """Returns which part of long texts is kept.

    Args:
        truncation: `"head"`, `"tail"` or `"head_tail"`; None for the default.
        pairs: Whether pairs of texts are read, of which the longer one loses its end.

    Raises:
        ValueError: If there is no such part, or it is chosen for pairs.

    Example:

    >>> checked_truncation(None, pairs=False)
    'head_tail'
    """
    if truncation is None:
        return "head" if pairs else "head_tail"
    if truncation not in TRUNCATIONS:
        raise ValueError(
            f"`truncation` must be one of {list(TRUNCATIONS)}. Received: {truncation!r}."
        )
    if pairs and truncation != "head":
        raise ValueError(
            "`truncation` is for single texts: long pairs lose the end of the longer text. "
            f"Received: {truncation!r}. Leave it out."
        )
    return truncation
