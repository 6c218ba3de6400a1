"""Pretraining: an encoder learns from plain text, by masked words and next sentences."""
