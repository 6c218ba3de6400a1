"""Losses, metrics and learning rate schedules for sequences; `keras.ops` alone."""

from keras_attn.training.losses import MaskedCrossEntropy
from keras_attn.training.metrics import MaskedAccuracy, Perplexity
from keras_attn.training.schedules import InverseSquareRootSchedule, WarmupCosineSchedule

__all__ = [
    "InverseSquareRootSchedule",
    "MaskedAccuracy",
    "MaskedCrossEntropy",
    "Perplexity",
    "WarmupCosineSchedule",
]
