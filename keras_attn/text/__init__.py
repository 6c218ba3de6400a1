"""Tokenizers, in Python and inside TensorFlow graphs."""

from keras_attn.text.byte_pair import BytePairTokenizer
from keras_attn.text.characters import CharacterTokenizer
from keras_attn.text.places import (
    Word,
    byte_places,
    character_places_graph,
    split_words,
    split_words_graph,
)
from keras_attn.text.registry import TOKENIZERS, tokenizer_name, vocabulary_digest
from keras_attn.text.sentence_piece import SentencePieceTokenizer
from keras_attn.text.sentences import split_sentences
from keras_attn.text.word_piece import WordPieceTokenizer
from keras_attn.text.word_scores import WordScores
from keras_attn.text.words import WordTokenizer

__all__ = [
    "TOKENIZERS",
    "BytePairTokenizer",
    "CharacterTokenizer",
    "SentencePieceTokenizer",
    "Word",
    "WordPieceTokenizer",
    "WordScores",
    "WordTokenizer",
    "byte_places",
    "character_places_graph",
    "split_sentences",
    "split_words",
    "split_words_graph",
    "tokenizer_name",
    "vocabulary_digest",
]
