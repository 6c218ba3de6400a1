"""Tokenizers by name."""

from keras_attn.text.byte_pair import BytePairTokenizer
from keras_attn.text.word_piece import WordPieceTokenizer

TOKENIZERS = {"byte_pair": BytePairTokenizer, "word_piece": WordPieceTokenizer}
"""The tokenizers of words that a task can choose by name."""


def tokenizer_name(tokenizer: object) -> str:
    """Returns the name of a tokenizer's class in `TOKENIZERS`.

    Args:
        tokenizer: A tokenizer.

    Returns:
        The name, such as `"byte_pair"`.

    Raises:
        TypeError: If its class is not in `TOKENIZERS`.

    Example:

    >>> tokenizer_name(BytePairTokenizer.train(["a text"], 259))
    'byte_pair'
    """
    for name, kind in TOKENIZERS.items():
        if isinstance(tokenizer, kind):
            return name
    known = " or ".join(kind.__name__ for kind in TOKENIZERS.values())
    raise TypeError(f"`tokenizer` must be a {known}. Received: {type(tokenizer).__name__}.")
