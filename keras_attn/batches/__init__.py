"""Batches for `fit` on any backend: bucketed by length, packed in rows, windows of a text.

Nothing here imports TensorFlow; all are a `keras.utils.PyDataset`, so that the same batches feed
`fit` on the TensorFlow, JAX and PyTorch backends.
"""

from keras_attn.batches.batching import EpochOrder, TokenBatches
from keras_attn.batches.caption_batches import CachedRegions, CaptionBatches, PictureFiles
from keras_attn.batches.classification_batches import TextBatches, class_weights, truncate
from keras_attn.batches.packing import PackedBatches
from keras_attn.batches.text_windows import TextWindows, scoring_windows

__all__ = [
    "CachedRegions",
    "CaptionBatches",
    "EpochOrder",
    "PackedBatches",
    "PictureFiles",
    "TextBatches",
    "TextWindows",
    "TokenBatches",
    "class_weights",
    "scoring_windows",
    "truncate",
]
