"""Registry of tokenizers, and digests of vocabularies."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from keras_attn.text.byte_pair import BytePairTokenizer
from keras_attn.text.characters import CharacterTokenizer
from keras_attn.text.sentence_piece import SentencePieceTokenizer
from keras_attn.text.tokenizer import Tokenizer
from keras_attn.text.word_piece import WordPieceTokenizer
from keras_attn.text.words import WordTokenizer

TOKENIZERS = {
    "byte_pair": BytePairTokenizer,
    "sentence_piece": SentencePieceTokenizer,
    "word_piece": WordPieceTokenizer,
    "words": WordTokenizer,
}
"""The word and subword tokenizers that a task can choose by name."""

PieceTokenizer = BytePairTokenizer | SentencePieceTokenizer
"""Subword tokenizers whose ids decode to the original text."""
TextTokenizer = CharacterTokenizer | PieceTokenizer
"""Tokenizers whose ids decode to the original text, for models that generate text."""
PIECES: dict[str, type[BytePairTokenizer] | type[SentencePieceTokenizer]] = {
    "byte_pair": BytePairTokenizer,
    "sentence_piece": SentencePieceTokenizer,
}


def tokenizer_name(tokenizer: object) -> str:
    """Returns the name of a tokenizer's class in `TOKENIZERS`.

    Args:
        tokenizer: A tokenizer.

    Returns:
        The name, such as `"byte_pair"`.

    Raises:
        TypeError: If the class of the tokenizer is not in `TOKENIZERS`.

    Example:

    >>> tokenizer_name(BytePairTokenizer.train(["a text"], 259))
    'byte_pair'
    """
    for name, kind in TOKENIZERS.items():
        if isinstance(tokenizer, kind):
            return name
    known = " or ".join(kind.__name__ for kind in TOKENIZERS.values())
    raise TypeError(f"`tokenizer` must be a {known}. Received: {type(tokenizer).__name__}.")


def train_pieces(
    name: str, texts: Iterable[str], vocabulary_size: int, vocabulary_file: str = ""
) -> BytePairTokenizer | SentencePieceTokenizer | WordPieceTokenizer:
    """Trains a subword tokenizer, or reads `vocabulary_file`, a `vocab.txt` of BERT."""
    if vocabulary_file:
        return WordPieceTokenizer.from_vocabulary_file(vocabulary_file)
    if name == "word_piece":
        return WordPieceTokenizer.train(texts, vocabulary_size, allow_fewer=True)
    if name == "sentence_piece":
        return SentencePieceTokenizer.train(texts, vocabulary_size, allow_fewer=True)
    return BytePairTokenizer.train(texts, vocabulary_size, allow_fewer=True)


def load_tokenizer(directory: str | os.PathLike[str]) -> TextTokenizer:
    """Loads a tokenizer of any class for text generation, as written by `save_assets`."""
    for kind in (*PIECES.values(), CharacterTokenizer):
        if Path(directory, f"{kind.assets_name}.json").exists():
            return kind.load_assets(directory)
    return BytePairTokenizer.load_assets(directory)


def vocabulary_digest(tokenizer: Tokenizer) -> str:
    """Returns a digest of a tokenizer's vocabulary and settings, for comparing tokenizers.

    Args:
        tokenizer: A tokenizer with `get_config`.

    Returns:
        The first 16 hexadecimal digits of the SHA-256 of the config.

    Example:

    >>> tokenizers = [CharacterTokenizer.train([text]) for text in ("ab", "ab", "abc")]
    >>> len(set(map(vocabulary_digest, tokenizers)))
    2
    """
    text = json.dumps(tokenizer.get_config(), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
