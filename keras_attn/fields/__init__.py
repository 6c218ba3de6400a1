"""Kinds of inputs and outputs of tasks."""

from keras_attn.fields.text import ODD_TEXTS, checked_texts

__all__ = ["ODD_TEXTS", "checked_texts"]
