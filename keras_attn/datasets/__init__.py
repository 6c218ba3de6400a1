"""Readers of real data, leak-free splits and token batches; NumPy and the standard library.

Nothing here imports TensorFlow; `TokenBatches` is a `keras.utils.PyDataset`, so that the same
batches feed `fit` on the TensorFlow, JAX and PyTorch backends.
"""

from keras_attn.datasets.batching import EpochOrder, TokenBatches
from keras_attn.datasets.caption_batches import CachedRegions, CaptionBatches, PictureFiles
from keras_attn.datasets.captioned_images import CaptionedImage, CaptionedImages
from keras_attn.datasets.captions import (
    read_caption_csv,
    read_coco_captions,
    read_flickr8k,
    read_karpathy,
    read_ucm_captions,
)
from keras_attn.datasets.classification_batches import TextBatches, class_weights, truncate
from keras_attn.datasets.download import DownloadError
from keras_attn.datasets.drawn_shapes import (
    DrawnObject,
    DrawnPicture,
    draw_shapes,
    save_drawn_shapes,
)
from keras_attn.datasets.emoji_pictures import (
    EmojiPicture,
    EmojiSplits,
    load_emoji_pictures,
    save_emoji_pictures,
    split_by_concept,
)
from keras_attn.datasets.feature_cache import FeatureCache, encoder_fingerprint
from keras_attn.datasets.feature_filling import CacheFill
from keras_attn.datasets.home_assistant import load_home_assistant
from keras_attn.datasets.image_problems import ImageProblem
from keras_attn.datasets.images import CheckedImages, check_images, load_image
from keras_attn.datasets.labelled_readers import read_imdb, read_labelled, read_sst2
from keras_attn.datasets.labelled_splits import (
    LabelledSplits,
    remove_labelled_overlap,
    split_labelled,
)
from keras_attn.datasets.labelled_texts import LabelledText, LabelledTexts
from keras_attn.datasets.movie_reviews import load_movie_reviews
from keras_attn.datasets.near_duplicates import duplicate_groups
from keras_attn.datasets.packing import PackedBatches
from keras_attn.datasets.parallel import LineProblem, ParallelText, TranslationPair
from keras_attn.datasets.readers import (
    read_json_lines,
    read_multi30k,
    read_pairs,
    read_parallel,
    read_tatoeba,
    read_tsv,
)
from keras_attn.datasets.shakespeare import Work, load_shakespeare
from keras_attn.datasets.splits import (
    TranslationSplits,
    remove_overlap,
    split_pairs,
    template,
)
from keras_attn.datasets.text_windows import TextWindows, scoring_windows
from keras_attn.datasets.texts import read_text, split_text

__all__ = [
    "CacheFill",
    "CachedRegions",
    "CaptionBatches",
    "CaptionedImage",
    "CaptionedImages",
    "CheckedImages",
    "DownloadError",
    "DrawnObject",
    "DrawnPicture",
    "EmojiPicture",
    "EmojiSplits",
    "EpochOrder",
    "FeatureCache",
    "ImageProblem",
    "LabelledSplits",
    "LabelledText",
    "LabelledTexts",
    "LineProblem",
    "PackedBatches",
    "ParallelText",
    "PictureFiles",
    "TextBatches",
    "TextWindows",
    "TokenBatches",
    "TranslationPair",
    "TranslationSplits",
    "Work",
    "check_images",
    "class_weights",
    "draw_shapes",
    "duplicate_groups",
    "encoder_fingerprint",
    "load_emoji_pictures",
    "load_home_assistant",
    "load_image",
    "load_movie_reviews",
    "load_shakespeare",
    "read_caption_csv",
    "read_coco_captions",
    "read_flickr8k",
    "read_imdb",
    "read_json_lines",
    "read_karpathy",
    "read_labelled",
    "read_multi30k",
    "read_pairs",
    "read_parallel",
    "read_sst2",
    "read_tatoeba",
    "read_text",
    "read_tsv",
    "read_ucm_captions",
    "remove_labelled_overlap",
    "remove_overlap",
    "save_drawn_shapes",
    "save_emoji_pictures",
    "scoring_windows",
    "split_by_concept",
    "split_labelled",
    "split_pairs",
    "split_text",
    "template",
    "truncate",
]
