"""Language marks such as `>>fra<<` and end tokens of translation sources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from keras_attn.text.sentence_piece import SentencePieceTokenizer
from keras_attn.text.tokenizer import Tokenizer

MARK = r">>[^<>\s]+<<"
"""A regular expression for language marks."""
IN_FRONT = rf"(?s)[ \t\r\n]*({MARK})(.*)"
"""A regular expression for a leading mark and the rest of a text, for Python and RE2."""


def language_marks(tokenizer: object) -> dict[str, int]:
    """Returns the ids of a vocabulary's language marks, keyed by mark."""
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return {}
    marks = [token for token in tokenizer.special_tokens if re.fullmatch(MARK, token)]
    return {mark: tokenizer.vocabulary.index(mark) for mark in marks}


def unknown_mark(mark: str, marks: Mapping[str, int]) -> str:
    """Returns the error message for a mark that is not in `marks`."""
    names = list(marks)
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return f"The model has no language mark {mark!r}. It has {str(names[:20])[1:-1]}{more}."


def checked_mark(language: str, marks: Mapping[str, int]) -> str:
    """Returns the mark of a language given as `"fra"` or `">>fra<<"`; empty for no language."""
    if not language:
        return ""
    mark = language if re.fullmatch(MARK, language) else f">>{language}<<"
    if mark not in marks:
        what = unknown_mark(mark, marks) if marks else "The model has one target language."
        raise ValueError(f"`language` must be a language that the model knows. {what}")
    return mark


def parted(text: str, marks: Mapping[str, int], default: str = "") -> tuple[str, str]:
    """Splits a text into its leading language mark (or the default mark) and the remaining text.

    Raises a ValueError if the mark is not in `marks`.
    """
    found = re.fullmatch(IN_FRONT, text) if marks else None
    mark, rest = (found[1], found[2]) if found else (default, text)
    if mark and mark not in marks:
        raise ValueError(f"{unknown_mark(mark, marks)} Received: {text[:80]!r}.")
    return mark, rest


def ended(row: list[int], end_id: int, ends: bool, max_length: int | None = None) -> list[int]:
    """Truncates the ids of a source text, and adds the end token if necessary.

    Args:
        row: Ids of a text.
        end_id: Id of the end token.
        ends: Whether the end token is added to each text. If False, it is only added to empty
            texts.
        max_length: Maximum number of ids, including the end token; longer rows are truncated.

    Example:

    >>> ended([5, 6, 7], 2, True, max_length=3), ended([5], 2, False), ended([], 2, False)
    ([5, 6, 2], [5], [2])
    """
    kept = row if max_length is None else row[: max_length - ends]
    return [*kept, end_id] if ends or not kept else kept


def encode_marked(
    tokenizer: Tokenizer, texts: Sequence[str], language: str = ""
) -> list[list[int]]:
    """Returns the ids of source texts without end tokens; a leading language mark is one token."""
    marks = language_marks(tokenizer)
    default = checked_mark(language, marks)
    if not texts:
        return []
    if not marks:
        return tokenizer.encode(texts)
    given, rests = zip(*(parted(text, marks, default) for text in texts), strict=True)
    rows = zip(given, tokenizer.encode(list(rests)), strict=True)
    return [[marks[mark], *row] if mark else row for mark, row in rows]
