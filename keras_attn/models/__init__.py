"""Functional Keras models composed of the layers."""

from keras_attn.models.bag_classifier import BagClassifierConfig
from keras_attn.models.captioner import (
    CAPTIONERS,
    CaptionDecoder,
    captioner,
    captioner_kind,
    image_captioner,
)
from keras_attn.models.classifier_parts import TEXT_CLASSIFIERS
from keras_attn.models.encoder_decoder import ENCODER_DECODERS, encoder_decoder, model_kind
from keras_attn.models.image_encoder import ImageEncoder
from keras_attn.models.image_encoders import applications_encoder, encoder_from_model
from keras_attn.models.packed_transformer import packed_transformer
from keras_attn.models.recurrent import RecurrentConfig, recurrent_encoder_decoder
from keras_attn.models.recurrent_classifier import RecurrentClassifierConfig
from keras_attn.models.recurrent_language_model import (
    LANGUAGE_MODELS,
    RecurrentLanguageModelConfig,
    language_decoder,
)
from keras_attn.models.sequence_decoder import SequenceDecoder
from keras_attn.models.small_image_encoders import patch_encoder, small_cnn_encoder
from keras_attn.models.soft_attention_captioner import (
    SoftAttentionCaptionerConfig,
    soft_attention_captioner,
)
from keras_attn.models.text_classifier import classifier_kind, embedding_and_rest
from keras_attn.models.token_decoder import TokenDecoder
from keras_attn.models.transformer import TransformerConfig, encoder_decoder_transformer
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
    "RecurrentConfig",
    "RecurrentLanguageModelConfig",
    "SequenceDecoder",
    "SoftAttentionCaptionerConfig",
    "TokenDecoder",
    "TransformerCaptionerConfig",
    "TransformerClassifierConfig",
    "TransformerConfig",
    "applications_encoder",
    "captioner",
    "captioner_kind",
    "classifier_kind",
    "embedding_and_rest",
    "encoder_decoder",
    "encoder_decoder_transformer",
    "encoder_from_model",
    "image_captioner",
    "language_decoder",
    "model_kind",
    "packed_transformer",
    "patch_encoder",
    "read_lpips_vgg16",
    "recurrent_encoder_decoder",
    "small_cnn_encoder",
    "soft_attention_captioner",
    "transformer_captioner",
    "vgg16_from_lpips",
]
