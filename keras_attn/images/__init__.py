"""Readers of images with captions or questions, and a cache of image features."""

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
from keras_attn.images.picture_questions import PictureQuestion, PictureQuestions
from keras_attn.images.question_readers import read_easy_vqa, read_question_table, read_vqa

__all__ = [
    "CacheFill",
    "CaptionedImage",
    "CaptionedImages",
    "CheckedImages",
    "FeatureCache",
    "ImageProblem",
    "PictureQuestion",
    "PictureQuestions",
    "check_images",
    "encoder_fingerprint",
    "load_image",
    "read_caption_csv",
    "read_coco_captions",
    "read_easy_vqa",
    "read_flickr8k",
    "read_karpathy",
    "read_question_table",
    "read_ucm_captions",
    "read_vqa",
]
