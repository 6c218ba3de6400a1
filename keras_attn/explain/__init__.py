"""Which inputs decided: explanations, alignments, and how far to trust them."""

from keras_attn.explain.alignment import Alignment
from keras_attn.explain.explanation import Explanation
from keras_attn.explain.faithfulness import DeletionCurve, deletion_curve

__all__ = ["Alignment", "DeletionCurve", "Explanation", "deletion_curve"]
