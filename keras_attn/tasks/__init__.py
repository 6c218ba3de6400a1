"""Strings in, strings out: a model with its text processing and its decoding."""

from keras_attn.tasks.alignment import Alignment
from keras_attn.tasks.translation_data import PreparedTranslation
from keras_attn.tasks.translation_decoding import NBestTranslations
from keras_attn.tasks.translation_settings import (
    DataSettings,
    DecodingSettings,
    ModelSettings,
    TrainingSettings,
)
from keras_attn.tasks.translation_training import (
    DevelopmentScore,
    TranslationRun,
    train_translation,
)
from keras_attn.tasks.translator import TranslationScores, Translator

__all__ = [
    "Alignment",
    "DataSettings",
    "DecodingSettings",
    "DevelopmentScore",
    "ModelSettings",
    "NBestTranslations",
    "PreparedTranslation",
    "TrainingSettings",
    "TranslationRun",
    "TranslationScores",
    "Translator",
    "train_translation",
]
