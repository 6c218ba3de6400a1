"""Special tokens that are written in training examples: they are counted, and said."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Mapping
from typing import Any

from keras_attn.text.special_tokens import counted, written_special_tokens


def say_special_tokens(task: object, examples: object, log: Callable[[str], Any]) -> None:
    """Says which special tokens are written in the texts of examples, and what they are read as.

    A task with `tokens_in_text`, their ids by their names, reads these as tokens.

    Args:
        task: The task that learns.
        examples: Training examples.
        log: Called with a line about those that are read as tokens.
    """
    tokenizer = getattr(task, "tokenizer", None)
    found = written_special_tokens(examples, tokenizer)
    known = getattr(task, "tokens_in_text", None)
    say_written(found, tokenizer, log, known)


def say_written(
    found: Mapping[str, int],
    tokenizer: object,
    log: Callable[[str], Any],
    known: Container[str] | None = None,
) -> None:
    """Says what special tokens in texts are read as.

    By default they are text like any other, which is seldom meant: a warning counts them. A
    tokenizer with `mask_in_text` reads `[MASK]` as a token.

    Args:
        found: How often each is there.
        tokenizer: The tokenizer of the texts.
        log: Called with a line about those that are read as tokens.
        known: Those that are read as tokens by a setting, or None if there is no such setting.
    """
    settable = known is not None
    if known is None:
        known = ("[MASK]",) if getattr(tokenizer, "mask_in_text", False) else ()
    as_text = {name: count for name, count in found.items() if name not in known}
    as_tokens = {name: count for name, count in found.items() if name in known}
    if as_text:
        advice = "If they are not meant as text, remove them"
        if settable:
            advice += ", or read those of the tokenizer as tokens: special_tokens=True "
            advice += "(--special-tokens)"
        warnings.warn(
            f"Special tokens in the examples are read as text: {counted(as_text)}. {advice}.",
            stacklevel=5,
        )
    if as_tokens:
        log(f"Special tokens in the examples are read as tokens: {counted(as_tokens)}.")
