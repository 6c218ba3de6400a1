"""Pictures and their captions from files, checked, and a cache of their features."""

from keras_attn.images.captioned_images import CaptionedImage, CaptionedImages
from keras_attn.images.captions import (
    read_caption_csv,
    read_coco_captions,
    read_flickr8k,
    read_karpathy,
    read_ucm_captions,
)
from keras_attn.images.feature_cache import FeatureCache, encoder_fingerprint
from keras_attn.images.feature_filling import CacheFill
from keras_attn.images.image_problems import ImageProblem
from keras_attn.images.loading import CheckedImages, check_images, load_image

__all__ = [
    "CacheFill",
    "CaptionedImage",
    "CaptionedImages",
    "CheckedImages",
    "FeatureCache",
    "ImageProblem",
    "check_images",
    "encoder_fingerprint",
    "load_image",
    "read_caption_csv",
    "read_coco_captions",
    "read_flickr8k",
    "read_karpathy",
    "read_ucm_captions",
]
