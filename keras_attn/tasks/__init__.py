"""Strings in, strings out: a model with its text processing and its decoding."""

from keras_attn.tasks.translator import Alignment, TranslationScores, Translator

__all__ = ["Alignment", "TranslationScores", "Translator"]
