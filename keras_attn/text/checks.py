"""Checks and conversions of texts and ids for the tokenizers."""

import operator
from collections.abc import Callable
from typing import Any

from keras_attn.hints import TensorLike


def well_formed(text: object) -> str:
    """Replaces lone surrogates, which UTF-8 cannot encode; raises a TypeError for other types."""
    if not isinstance(text, str):
        raise TypeError(
            f"Texts must be strings. Received: {text!r} of type {type(text).__name__}. "
            "Decode bytes first, for example with `.decode('utf-8')`."
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return str(text)


def readable(piece: bytes) -> str:
    """Returns a piece of a text in readable form, for the labels of a plot."""
    characters = []
    # Bytes that are not UTF-8 become U+DC80 to U+DCFF.
    for character in piece.decode("utf-8", "surrogateescape"):
        if "\udc80" <= character <= "\udcff":
            characters.append(f"<0x{ord(character) - 0xDC00:02X}>")
        elif character == " ":
            characters.append("▁")
        elif character.isprintable():
            characters.append(character)
        else:
            characters.extend(f"<0x{byte:02X}>" for byte in character.encode("utf-8"))
    return "".join(characters)


def checked_ids(ids: list[Any], vocabulary_size: int) -> list[int]:
    """Checks that ids are in the vocabulary, and returns them as Python integers."""
    row = [operator.index(index) for index in ids]
    if row and not 0 <= min(row) <= max(row) < vocabulary_size:
        wrong = next(index for index in row if not 0 <= index < vocabulary_size)
        raise ValueError(
            f"Ids must be from 0 to {vocabulary_size - 1}. Received: {wrong}. Check that the "
            "ids were made by this tokenizer, or by a model with its vocabulary."
        )
    return row


def for_each_row(ids: TensorLike, function: Callable[[list[Any]], Any]) -> Any:
    """Calls a function on each innermost row of nested ids."""
    rank = getattr(ids, "ndim", None)
    rows = _plain(ids)
    if not isinstance(rows, list):
        raise TypeError(
            "`ids` must be a list of integers, or a nested list of them. Received: "
            f"{ids!r}. Wrap a single id in a list."
        )
    if rows and isinstance(rows[0], int):
        nested = False
    else:
        rows = [_plain(row) for row in rows]
        nested = any(isinstance(row, list) for row in rows) or (not rows and rank not in (None, 1))
    if nested:
        return [for_each_row(row, function) for row in rows]
    try:
        return function(rows)
    except TypeError as error:
        raise TypeError(f"`ids` must be integers. Received: {ids!r}. Cast them first.") from error


def _plain(value: object) -> Any:
    """Converts arrays, tensors, ragged tensors and tuples to lists; other values do not change."""
    if isinstance(value, tuple):
        return list(value)
    for name in ("to_list", "tolist"):  # ragged tensors; NumPy, JAX and PyTorch
        if hasattr(value, name):
            return getattr(value, name)()
    if hasattr(value, "numpy"):
        return value.numpy().tolist()
    return value
