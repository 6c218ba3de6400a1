"""Functional Keras models composed of the layers."""

from keras_attn.models.bag_classifier import BagClassifierConfig
from keras_attn.models.captioner import (
    CAPTIONERS,
    CaptionDecoder,
    captioner,
    captioner_kind,
    image_captioner,
)
from keras_attn.models.image_encoder import ImageEncoder
from keras_attn.models.image_encoders import applications_encoder, encoder_from_model
from keras_attn.models.packed_transformer import packed_transformer
from keras_attn.models.recurrent import RecurrentEncoderDecoderConfig
from keras_attn.models.recurrent_classifier import RecurrentClassifierConfig
from keras_attn.models.recurrent_language_model import (
    RecurrentLanguageModelConfig,
    language_decoder,
)
from keras_attn.models.roles import ENCODER_DECODERS, LANGUAGE_MODELS, TEXT_CLASSIFIERS
from keras_attn.models.sequence_decoder import SequenceDecoder
from keras_attn.models.small_image_encoders import patch_encoder, small_cnn_encoder
from keras_attn.models.soft_attention_captioner import (
    SoftAttentionCaptionerConfig,
    soft_attention_captioner,
)
from keras_attn.models.text_classifier import classifier_kind, embedding_and_rest
from keras_attn.models.token_decoder import TokenDecoder
from keras_attn.models.transformer import TransformerEncoderDecoderConfig
from keras_attn.models.transformer_captioner import (
    TransformerCaptionerConfig,
    transformer_captioner,
)
from keras_attn.models.transformer_classifier import TransformerClassifierConfig
from keras_attn.models.vgg16_weights import read_lpips_vgg16, vgg16_from_lpips

__all__ = [
    "CAPTIONERS",
    "ENCODER_DECODERS",
    "LANGUAGE_MODELS",
    "TEXT_CLASSIFIERS",
    "BagClassifierConfig",
    "CaptionDecoder",
    "ImageEncoder",
    "RecurrentClassifierConfig",
    "RecurrentEncoderDecoderConfig",
    "RecurrentLanguageModelConfig",
    "SequenceDecoder",
    "SoftAttentionCaptionerConfig",
    "TokenDecoder",
    "TransformerCaptionerConfig",
    "TransformerClassifierConfig",
    "TransformerEncoderDecoderConfig",
    "applications_encoder",
    "captioner",
    "captioner_kind",
    "classifier_kind",
    "embedding_and_rest",
    "encoder_from_model",
    "image_captioner",
    "language_decoder",
    "packed_transformer",
    "patch_encoder",
    "read_lpips_vgg16",
    "small_cnn_encoder",
    "soft_attention_captioner",
    "transformer_captioner",
    "vgg16_from_lpips",
]
