"""Functional Keras models composed of the layers."""

from keras_attn.models.token_decoder import TokenDecoder
from keras_attn.models.transformer import (
    SequenceDecoder,
    TransformerConfig,
    encoder_decoder_transformer,
)

__all__ = ["SequenceDecoder", "TokenDecoder", "TransformerConfig", "encoder_decoder_transformer"]
