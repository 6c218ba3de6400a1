"""Layers for Keras models: attention, Transformer blocks, embeddings, pooling."""

from keras_attn.layers.ablation import ablate, heads_of
from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.attention_decoder import AttentionDecoder
from keras_attn.layers.attention_pooling import AttentionPooling
from keras_attn.layers.cbam import CBAM
from keras_attn.layers.channel_attention import ChannelAttention
from keras_attn.layers.collect import (
    AttentionKey,
    AttentionMaps,
    attention_maps,
    collect_attention,
)
from keras_attn.layers.decoder_block import DecoderBlock
from keras_attn.layers.doubly_stochastic_loss import DoublyStochasticLoss
from keras_attn.layers.dropout import Dropout
from keras_attn.layers.feed_forward import FeedForward
from keras_attn.layers.grid_positional_encoding import GridPositionalEncoding
from keras_attn.layers.image_preprocessing import ImagePreprocessing
from keras_attn.layers.input_embedding import InputEmbedding
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.multi_head_self_attention import MultiHeadSelfAttention
from keras_attn.layers.normalization import LayerNormalization, RMSNormalization
from keras_attn.layers.pooling import (
    FinalStatesPooling,
    FirstTokenPooling,
    MaskedAveragePooling,
    MaskedMaxPooling,
)
from keras_attn.layers.positional_encoding import LearnedPositionalEncoding, PositionalEncoding
from keras_attn.layers.recurrent_encoder import RecurrentEncoder
from keras_attn.layers.rotary_embedding import RotaryEmbedding
from keras_attn.layers.self_attention import SelfAttention
from keras_attn.layers.sequence_attention import SequenceAttention
from keras_attn.layers.spatial_attention import SpatialAttention
from keras_attn.layers.token_embedding import TokenEmbedding
from keras_attn.layers.token_pairs import HashedTokenPairs
from keras_attn.layers.token_segments import TokenSegments
from keras_attn.layers.token_weighting import TokenWeighting
from keras_attn.layers.transformer_encoder_block import TransformerEncoderBlock
from keras_attn.layers.transformer_stacks import TransformerDecoder, TransformerEncoder
from keras_attn.layers.word_by_word_attention import WordByWordAttention

__all__ = [
    "CBAM",
    "AdditiveAttention",
    "AttentionDecoder",
    "AttentionKey",
    "AttentionMaps",
    "AttentionPooling",
    "ChannelAttention",
    "DecoderBlock",
    "DoublyStochasticLoss",
    "Dropout",
    "FeedForward",
    "FinalStatesPooling",
    "FirstTokenPooling",
    "GridPositionalEncoding",
    "HashedTokenPairs",
    "ImagePreprocessing",
    "InputEmbedding",
    "LayerNormalization",
    "LearnedPositionalEncoding",
    "LuongAttention",
    "MaskedAveragePooling",
    "MaskedMaxPooling",
    "MultiHeadAttention",
    "MultiHeadSelfAttention",
    "PositionalEncoding",
    "RMSNormalization",
    "RecurrentEncoder",
    "RotaryEmbedding",
    "SelfAttention",
    "SequenceAttention",
    "SpatialAttention",
    "TokenEmbedding",
    "TokenSegments",
    "TokenWeighting",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerEncoderBlock",
    "WordByWordAttention",
    "ablate",
    "attention_maps",
    "collect_attention",
    "heads_of",
]
