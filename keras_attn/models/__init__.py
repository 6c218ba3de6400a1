"""Functional Keras models composed of the layers."""

from keras_attn.models.encoder_decoder import ENCODER_DECODERS, encoder_decoder, model_kind
from keras_attn.models.recurrent import RecurrentConfig, recurrent_encoder_decoder
from keras_attn.models.recurrent_language_model import (
    RecurrentLanguageModelConfig,
    language_decoder,
    recurrent_language_model,
)
from keras_attn.models.sequence_decoder import SequenceDecoder
from keras_attn.models.token_decoder import TokenDecoder
from keras_attn.models.transformer import TransformerConfig, encoder_decoder_transformer

__all__ = [
    "ENCODER_DECODERS",
    "RecurrentConfig",
    "RecurrentLanguageModelConfig",
    "SequenceDecoder",
    "TokenDecoder",
    "TransformerConfig",
    "encoder_decoder",
    "encoder_decoder_transformer",
    "language_decoder",
    "model_kind",
    "recurrent_encoder_decoder",
    "recurrent_language_model",
]
