"""Special tokens that are written in training examples: they are counted, and said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.text.special_tokens import say_written, written_special_tokens


def say_special_tokens(task: object, examples: object, log: Callable[[str], Any]) -> None:
    """Says what the special tokens in the texts of examples are read as.

    A task with `tokens_in_text`, their ids by their names, reads these as tokens.
    """
    tokenizer = getattr(task, "tokenizer", None)
    found = written_special_tokens(examples, tokenizer)
    known = getattr(task, "tokens_in_text", None)
    say_written(found, tokenizer, log, known)
