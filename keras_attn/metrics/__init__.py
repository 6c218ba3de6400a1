"""Scores of captions, of classes and of tokens, with intervals by resampling."""

from keras_attn.metrics.caption_tokens import tokenize_captions
from keras_attn.metrics.captions import CaptionScores, ImageScores, caption_scores
from keras_attn.metrics.classification import (
    ClassificationReport,
    ClassScores,
    Estimate,
    evaluate_probabilities,
    fit_temperature,
)
from keras_attn.metrics.tokens import MaskedAccuracy, Perplexity

__all__ = [
    "CaptionScores",
    "ClassScores",
    "ClassificationReport",
    "Estimate",
    "ImageScores",
    "MaskedAccuracy",
    "Perplexity",
    "caption_scores",
    "evaluate_probabilities",
    "fit_temperature",
    "tokenize_captions",
]
