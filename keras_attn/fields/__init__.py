"""Kinds of inputs and outputs of tasks: the same in Python and in a TensorFlow graph."""

from keras_attn.fields.encoder_input import EncoderInput
from keras_attn.fields.outputs import Label, Numbers
from keras_attn.fields.text import ODD_TEXTS, TextInput, checked_texts
from keras_attn.fields.word_sums import WordList, WordSum

__all__ = [
    "ODD_TEXTS",
    "EncoderInput",
    "Label",
    "Numbers",
    "TextInput",
    "WordList",
    "WordSum",
    "checked_texts",
]
