"""Strings in, strings out: a model with its text processing and its decoding."""

from keras_attn.explain import Alignment, DeletionCurve, Explanation, deletion_curve
from keras_attn.tasks.attention_views import (
    caption_view,
    classification_view,
    translation_view,
)
from keras_attn.tasks.captioning.captioner import Captioner
from keras_attn.tasks.captioning.decoding import Caption
from keras_attn.tasks.captioning.settings import (
    CaptioningData,
    CaptioningTest,
    CaptioningTraining,
    CaptioningUse,
)
from keras_attn.tasks.task import Examples, Task
from keras_attn.tasks.task_run import Scored, TrainingRun
from keras_attn.tasks.tensors import LoadReport
from keras_attn.tasks.text_classification.classifier import TextClassifier
from keras_attn.tasks.text_classification.predictions import Prediction
from keras_attn.tasks.text_classification.settings import (
    TextClassificationData,
    TextClassificationTest,
    TextClassificationTraining,
    TextClassificationUse,
)
from keras_attn.tasks.text_generation.generator import TextGenerator
from keras_attn.tasks.text_generation.predictions import TextScore
from keras_attn.tasks.text_generation.settings import (
    TextGenerationData,
    TextGenerationTest,
    TextGenerationTraining,
    TextGenerationUse,
)
from keras_attn.tasks.training_settings import TrainingSettings
from keras_attn.tasks.translation.data import PreparedTranslation
from keras_attn.tasks.translation.decoding import NBestTranslations
from keras_attn.tasks.translation.scores import TranslationScores
from keras_attn.tasks.translation.settings import (
    TranslationData,
    TranslationTest,
    TranslationTraining,
    TranslationUse,
)
from keras_attn.tasks.translation.translator import Translator

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
