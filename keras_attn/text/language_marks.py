"""Marks of target languages in front of sources, such as `>>fra<<` of multilingual translators."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from keras_attn.text.byte_pair import BytePairTokenizer
from keras_attn.text.sentence_piece import SentencePieceTokenizer

MARK = r">>[^<>\s]+<<"
"""A regular expression for language marks."""
IN_FRONT = rf"(?s)[ \t\r\n]*({MARK})(.*)"
"""A text with a mark in front, for Python and RE2: the mark and the rest."""


def language_marks(tokenizer: object) -> dict[str, int]:
    """Returns the language marks of a vocabulary, with their ids.

    Args:
        tokenizer: A tokenizer; only a `SentencePieceTokenizer` may have marks.

    Example:

    >>> language_marks(BytePairTokenizer.train(["a"], 259))
    {}
    """
    if not isinstance(tokenizer, SentencePieceTokenizer):
        return {}
    marks = {token for token in tokenizer.special_tokens if re.fullmatch(MARK, token)}
    return {piece: i for i, piece in enumerate(tokenizer.vocabulary) if piece in marks}


def unknown_mark(mark: str, marks: Mapping[str, int]) -> str:
    """Returns the message about a mark that a model lacks.

    Example:

    >>> unknown_mark(">>de<<", {">>fr<<": 5})
    "The model has no language mark '>>de<<'. It has '>>fr<<'."
    """
    names = list(marks)
    more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
    return f"The model has no language mark {mark!r}. It has {str(names[:20])[1:-1]}{more}."


def checked_mark(language: str, marks: Mapping[str, int]) -> str:
    """Returns the mark of a language, which may be named with or without the signs around it.

    Args:
        language: Such as `"fra"` or `">>fra<<"`; empty for none.
        marks: What `language_marks` returned.

    Raises:
        ValueError: If there is no such mark.

    Example:

    >>> checked_mark("fra", {">>fra<<": 5})
    '>>fra<<'
    """
    if not language:
        return ""
    mark = language if re.fullmatch(MARK, language) else f">>{language}<<"
    if mark not in marks:
        what = unknown_mark(mark, marks) if marks else "The model has one target language."
        raise ValueError(f"`language` must be one that the model has. {what}")
    return mark


def encode_marked(
    tokenizer: BytePairTokenizer | SentencePieceTokenizer, texts: Sequence[str], language: str = ""
) -> list[list[int]]:
    """Returns the ids of sources, without an end. A language mark in front of a text is one token.

    Args:
        tokenizer: Tokenizer of the sources.
        texts: Strings.
        language: Language of the texts that have no mark, see `checked_mark`.

    Raises:
        ValueError: If the tokenizer has marks, but not that of a text or `language`.

    Example:

    >>> tokenizer = BytePairTokenizer.train(["a"], 259)
    >>> encode_marked(tokenizer, ["a"]) == tokenizer.encode(["a"])
    True
    """
    marks = language_marks(tokenizer)
    default = checked_mark(language, marks)
    if not texts:
        return []
    if not marks:
        return tokenizer.encode(texts)
    given, rests = [], []
    for text in texts:
        found = re.fullmatch(IN_FRONT, text)
        mark, rest = (found[1], found[2]) if found else (default, text)
        if mark and mark not in marks:
            raise ValueError(f"{unknown_mark(mark, marks)} Received: {text[:80]!r}.")
        given.append([marks[mark]] if mark else [])
        rests.append(rest)
    return [[*mark, *row] for mark, row in zip(given, tokenizer.encode(rests), strict=True)]
