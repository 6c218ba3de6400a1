"""Reports of special tokens that occur as strings in training examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.text.special_tokens import say_written, written_special_tokens


def say_special_tokens(task: object, examples: object, log: Callable[[str], Any]) -> None:
    """Reports how special tokens in the texts of examples are read.

    If the task has `tokens_in_text`, a dict from strings to ids, it reads these strings as tokens.
    """
    tokenizer = getattr(task, "tokenizer", None)
    found = written_special_tokens(examples, tokenizer)
    known = getattr(task, "tokens_in_text", None)
    say_written(found, tokenizer, log, known)
