"""Text to ids and back: tokenizers trained in Python that also run inside a TensorFlow graph."""

from keras_attn.text.byte_pair import BytePairTokenizer
from keras_attn.text.characters import CharacterTokenizer

__all__ = ["BytePairTokenizer", "CharacterTokenizer"]
