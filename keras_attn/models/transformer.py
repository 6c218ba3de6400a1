"""The encoder-decoder Transformer."""

from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import (
    Dropout,
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from keras_attn.layers.masked_layer import check_choice

Tensor = Any

TRANSFORMER_POSITIONS = ("sinusoidal", "rotary", "alibi")


@dataclass(frozen=True)
class TransformerConfig:
    """Settings of `encoder_decoder_transformer`.

    Args:
        source_vocabulary_size: Number of source tokens; id 0 is padding.
        target_vocabulary_size: Number of target tokens; None: one vocabulary and one embedding for
            both sides.
        num_layers: Number of encoder and of decoder blocks.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout of embeddings and sublayers.
        attention_dropout: Dropout of attention weights.
        activation: Activation of the feed-forward networks.
        normalize_first: Pre-norm instead of post-norm.
        num_decoder_layers: Number of decoder blocks where it differs from `num_layers`.
        normalization: `"layer_norm"` or `"rms_norm"`.
        gated: Whether the feed-forward networks are gated: with `activation="silu"` SwiGLU.
        use_bias: Whether the projections of the blocks have biases.
        positions: `"sinusoidal"`, added to the embeddings, or `"rotary"` or `"alibi"`, in the
            self-attention of each block.
        rematerialize: Whether training computes each block again for its gradients, to save memory.
        attention_kernel: `"auto"`, `"plain"`, `"chunked"` or `"flash"`: what computes attention.
        tied_output: Whether the embedding of the targets makes the logits; else a matrix of its
            own, without a bias.
        right_padding: Whether padding stands at the end of rows alone, on both sides, as a promise:
            attention kernels then get lengths in the place of masks.

    Raises:
        ValueError: For unknown positions; the layers check the rest.

    Example:

    >>> TransformerConfig(source_vocabulary_size=4000).dim
    128
    """

    source_vocabulary_size: int
    target_vocabulary_size: int | None = None
    num_layers: int = 2
    dim: int = 128
    num_heads: int = 4
    intermediate_dim: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    normalize_first: bool = True
    num_decoder_layers: int | None = None
    normalization: str = "layer_norm"
    gated: bool = False
    use_bias: bool = True
    positions: str = "sinusoidal"
    rematerialize: bool = False
    attention_kernel: str = "auto"
    right_padding: bool = False
    tied_output: bool = True

    def __post_init__(self):
        check_choice("TransformerConfig", TRANSFORMER_POSITIONS, positions=self.positions)

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def encoder_decoder_transformer(
    config: TransformerConfig, dtype: Any = None, name: str = "transformer"
) -> keras.Model:
    """Builds the Transformer of Vaswani et al., 2017, as a functional model.

        memory = encoder(positions(embed(source_ids)))          (B, S, D)
        logits = decoder(positions(embed(target_ids)), memory) E^T   (B, T, V)

    Rotary positions and those of ALiBi are the blocks' own: nothing is added to the embeddings
    then. The output is tied to the target embedding, or a layer `head`. Padding is id 0 on both
    sides; the masks are made by the embeddings and reach every block.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from `{"source_ids": (B, S), "target_ids": (B, T)}` to logits
        `(B, T, V)`. Its layers `source_embedding` (and `target_embedding` where there are two
        vocabularies), `encoder` and `decoder` are what `SequenceDecoder` decodes with.

    Example:

    >>> model = encoder_decoder_transformer(TransformerConfig(50, dim=16, intermediate_dim=32))
    >>> ids = keras.ops.array([[5, 6, 2]])
    >>> tuple(model({"source_ids": ids, "target_ids": ids}).shape)
    (1, 3, 50)
    """
    source_ids = keras.Input((None,), dtype="int32", name="source_ids")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    shared = config.target_vocabulary_size is None
    source_embedding = TokenEmbedding(
        config.source_vocabulary_size, config.dim, dtype=dtype, name="source_embedding"
    )
    target_embedding = (
        source_embedding
        if shared
        else TokenEmbedding(
            config.target_vocabulary_size, config.dim, dtype=dtype, name="target_embedding"
        )
    )
    block = {
        "num_heads": config.num_heads,
        "intermediate_dim": config.intermediate_dim,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation": config.activation,
        "normalize_first": config.normalize_first,
        "normalization": config.normalization,
        "gated": config.gated,
        "use_bias": config.use_bias,
        "rematerialize": config.rematerialize,
        "attention_kernel": config.attention_kernel,
        "right_padding": config.right_padding,
        "dtype": dtype,
    }
    if config.positions == "sinusoidal":
        positions = PositionalEncoding(dtype=dtype, name="positions")
    else:
        block["positions"] = config.positions
        positions = keras.layers.Identity(dtype=dtype, name="no_positions")
    dropout = Dropout(config.dropout, dtype=dtype, name="embedding_dropout")
    encoder = TransformerEncoder(config.num_layers, **block, name="encoder")
    decoder_layers = config.num_decoder_layers
    decoder_layers = config.num_layers if decoder_layers is None else decoder_layers
    decoder = TransformerDecoder(decoder_layers, **block, name="decoder")

    memory = encoder(dropout(positions(source_embedding(source_ids))))
    output = decoder(dropout(positions(target_embedding(target_ids))), memory)
    if config.tied_output:
        logits = target_embedding(output, reverse=True)
    else:
        size = config.target_vocabulary_size or config.source_vocabulary_size
        logits = keras.layers.Dense(size, use_bias=False, dtype=dtype, name="head")(output)
    inputs = {"source_ids": source_ids, "target_ids": target_ids}
    return keras.Model(inputs, logits, name=name)
