"""Tokenizers that are trained in Python and also run inside a TensorFlow graph."""

from keras_attn.text.byte_pair import BytePairTokenizer
from keras_attn.text.characters import CharacterTokenizer
from keras_attn.text.registry import TOKENIZERS, tokenizer_name
from keras_attn.text.word_piece import WordPieceTokenizer

__all__ = [
    "TOKENIZERS",
    "BytePairTokenizer",
    "CharacterTokenizer",
    "WordPieceTokenizer",
    "tokenizer_name",
]
