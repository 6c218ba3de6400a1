"""keras_attn: attention for Keras 3, from Bahdanau to GPT."""

from keras_attn import (
    datasets,
    generation,
    layers,
    models,
    ops,
    tasks,
    text,
    training,
    visualize,
)
from keras_attn.layers import (
    AdditiveAttention,
    DecoderBlock,
    MultiHeadSelfAttention,
    PositionalEncoding,
    TransformerEncoderBlock,
    attention_maps,
    collect_attention,
)
from keras_attn.version import __version__

__all__ = [
    "AdditiveAttention",
    "DecoderBlock",
    "MultiHeadSelfAttention",
    "PositionalEncoding",
    "TransformerEncoderBlock",
    "__version__",
    "attention_maps",
    "collect_attention",
    "datasets",
    "generation",
    "layers",
    "models",
    "ops",
    "tasks",
    "text",
    "training",
    "visualize",
]
