"""Explanations and alignments of predictions, and measures of their faithfulness."""

from keras_attn.explain.alignment import Alignment
from keras_attn.explain.contextual_view import ContextualView, contextual_view, sense_layer
from keras_attn.explain.encoder_study import EncoderStudy, study_encoder, study_texts
from keras_attn.explain.explanation import Explanation
from keras_attn.explain.faithfulness import DeletionCurve, deletion_curve
from keras_attn.explain.head_divergence import head_divergence
from keras_attn.explain.head_importance import HeadImportance, head_importance
from keras_attn.explain.head_outcomes import head_outcomes
from keras_attn.explain.head_roles import HeadRoles, head_roles
from keras_attn.explain.translations import NBestTranslations

__all__ = [
    "Alignment",
    "ContextualView",
    "DeletionCurve",
    "EncoderStudy",
    "Explanation",
    "HeadImportance",
    "HeadRoles",
    "NBestTranslations",
    "contextual_view",
    "deletion_curve",
    "head_divergence",
    "head_importance",
    "head_outcomes",
    "head_roles",
    "sense_layer",
    "study_encoder",
    "study_texts",
]
