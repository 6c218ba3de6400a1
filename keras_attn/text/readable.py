"""Conversion of ids to readable tokens, for alignments and plots."""

from collections.abc import Sequence

from keras_attn.text.tokenizer import Tokenizer

END = "</s>"
"""How the end token is shown."""


def readable_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Returns `tokenizer.tokens(ids)`, with `</s>` for the end token."""
    tokens = tokenizer.tokens(list(ids))
    return [END if i == tokenizer.end_id else t for i, t in zip(ids, tokens, strict=True)]
