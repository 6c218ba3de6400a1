"""Text to ids and back: tokenizers trained in Python that also run inside a TensorFlow graph."""

from keras_attn.text.byte_pair import BytePairTokenizer

__all__ = ["BytePairTokenizer"]
