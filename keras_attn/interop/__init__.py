"""Weights and models of other libraries: transformers, KerasHub, GloVe, word2vec, ONNX, LiteRT."""

from keras_attn.interop.from_keras import from_keras
from keras_attn.interop.keras_hub_backbones import to_keras_hub
from keras_attn.interop.pretrained import load_pretrained, read_pretrained
from keras_attn.interop.pretrained_model import Pretrained
from keras_attn.interop.runtimes import export_model
from keras_attn.interop.saving import save_pretrained
from keras_attn.interop.sentence_folders import SentenceSettings
from keras_attn.interop.word_vectors import (
    WordVectors,
    read_word_vectors,
    word_vector_width,
    write_word_vectors,
)

__all__ = [
    "Pretrained",
    "SentenceSettings",
    "WordVectors",
    "export_model",
    "from_keras",
    "load_pretrained",
    "read_pretrained",
    "read_word_vectors",
    "save_pretrained",
    "to_keras_hub",
    "word_vector_width",
    "write_word_vectors",
]
