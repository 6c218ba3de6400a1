"""Strings in, strings out: a model with its text processing and its decoding."""

from keras_attn.explain import Alignment, DeletionCurve, Explanation, deletion_curve
from keras_attn.tasks.attention_views import (
    caption_view,
    classification_view,
    translation_view,
)
from keras_attn.tasks.captioner import Captioner
from keras_attn.tasks.captioning_decoding import Caption
from keras_attn.tasks.captioning_settings import (
    CaptioningData,
    CaptioningTest,
    CaptioningTraining,
    CaptioningUse,
)
from keras_attn.tasks.task import Examples, Task
from keras_attn.tasks.task_run import Scored, TrainingRun
from keras_attn.tasks.tensors import LoadReport
from keras_attn.tasks.text_classification_predictions import Prediction
from keras_attn.tasks.text_classification_settings import (
    TextClassificationData,
    TextClassificationTest,
    TextClassificationTraining,
    TextClassificationUse,
)
from keras_attn.tasks.text_classifier import TextClassifier
from keras_attn.tasks.text_generation_predictions import TextScore
from keras_attn.tasks.text_generation_settings import (
    TextGenerationData,
    TextGenerationTest,
    TextGenerationTraining,
    TextGenerationUse,
)
from keras_attn.tasks.text_generator import TextGenerator
from keras_attn.tasks.training_settings import TrainingSettings
from keras_attn.tasks.translation_data import PreparedTranslation
from keras_attn.tasks.translation_decoding import NBestTranslations
from keras_attn.tasks.translation_scores import TranslationScores
from keras_attn.tasks.translation_settings import (
    TranslationData,
    TranslationTest,
    TranslationTraining,
    TranslationUse,
)
from keras_attn.tasks.translator import Translator

__all__ = [
    "Alignment",
    "Caption",
    "Captioner",
    "CaptioningData",
    "CaptioningTest",
    "CaptioningTraining",
    "CaptioningUse",
    "DeletionCurve",
    "Examples",
    "Explanation",
    "LoadReport",
    "NBestTranslations",
    "Prediction",
    "PreparedTranslation",
    "Scored",
    "Task",
    "TextClassificationData",
    "TextClassificationTest",
    "TextClassificationTraining",
    "TextClassificationUse",
    "TextClassifier",
    "TextGenerationData",
    "TextGenerationTest",
    "TextGenerationTraining",
    "TextGenerationUse",
    "TextGenerator",
    "TextScore",
    "TrainingRun",
    "TrainingSettings",
    "TranslationData",
    "TranslationScores",
    "TranslationTest",
    "TranslationTraining",
    "TranslationUse",
    "Translator",
    "caption_view",
    "classification_view",
    "deletion_curve",
    "translation_view",
]
