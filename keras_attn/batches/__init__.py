"""Batches for `fit` on any backend: bucketed by length, packed in rows, or windows of a text.

Each of them is a `keras.utils.PyDataset` that does not import TensorFlow, so that the same batches
work on TensorFlow, JAX and PyTorch.
"""

from keras_attn.batches.answer_batches import AnswerBatches
from keras_attn.batches.batching import EpochOrder, TokenBatches
from keras_attn.batches.bucketed_batches import BucketedBatches
from keras_attn.batches.caption_batches import CaptionBatches
from keras_attn.batches.classification_batches import TextBatches, class_weights
from keras_attn.batches.encoder_batches import EncoderBatches
from keras_attn.batches.masked_batches import MaskedBatches
from keras_attn.batches.packing import PackedBatches
from keras_attn.batches.pair_batches import PairBatches
from keras_attn.batches.picture_sources import CachedRegions, PictureFiles
from keras_attn.batches.scored_pair_batches import ScoredPairBatches
from keras_attn.batches.sentence_ids import SentenceIds
from keras_attn.batches.sentence_shards import Shard, ShardWriter, make_shard, open_shards
from keras_attn.batches.text_windows import DocumentWindows, TextWindows, scoring_windows
from keras_attn.batches.visual_question_batches import VisualQuestionBatches
from keras_attn.batches.word_ids import WordChoice, WordIds
from keras_attn.batches.word_windows import WordWindows, kept_shares, row_loads
from keras_attn.text.truncation import truncate

__all__ = [
    "AnswerBatches",
    "BucketedBatches",
    "CachedRegions",
    "CaptionBatches",
    "DocumentWindows",
    "EncoderBatches",
    "EpochOrder",
    "MaskedBatches",
    "PackedBatches",
    "PairBatches",
    "PictureFiles",
    "ScoredPairBatches",
    "SentenceIds",
    "Shard",
    "ShardWriter",
    "TextBatches",
    "TextWindows",
    "TokenBatches",
    "VisualQuestionBatches",
    "WordChoice",
    "WordIds",
    "WordWindows",
    "class_weights",
    "kept_shares",
    "make_shard",
    "open_shards",
    "row_loads",
    "scoring_windows",
    "truncate",
]
