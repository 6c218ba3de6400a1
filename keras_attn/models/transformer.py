"""Encoder-decoder Transformer."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import keras

from keras_attn.hints import DType
from keras_attn.layers import (
    Dropout,
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from keras_attn.models.roles import CONVERSATION_MODELS, ENCODER_DECODERS
from keras_attn.models.stack_settings import BlockSettings, LlamaSettings, NormSettings
from keras_attn.ops.attention_kernels import KERNELS
from keras_attn.settings import setting, size, with_defaults

TRANSFORMER_POSITIONS = ("sinusoidal", "rotary", "alibi")


@CONVERSATION_MODELS.register("transformer")
@ENCODER_DECODERS.register("transformer")
@dataclass(frozen=True)
@with_defaults(
    num_layers=3,
    activation="relu",
    help={
        "num_layers": "blocks of the encoder, and of the decoder",
        "dropout": "dropout of embeddings and sublayers",
    },
)
class TransformerEncoderDecoderConfig(LlamaSettings, NormSettings, BlockSettings):
    """Settings of the encoder-decoder Transformer (Vaswani et al., 2017).

        memory = encoder(positions(embed(source_ids)))          (B, S, D)
        logits = decoder(positions(embed(target_ids)), memory) E^T   (B, T, V)

    With rotary positions and ALiBi nothing is added to the embeddings. The output is tied to the
    target embedding, or is a layer `head`. Padding is id 0 on both sides; the embeddings make the
    masks, which reach every block.

    Args:
        source_vocabulary_size: Number of source tokens; id 0 is padding.
        target_vocabulary_size: Number of target tokens. With None both sides share one vocabulary
            and one embedding.
        num_layers: Number of encoder and of decoder blocks.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout rate of embeddings and sublayers.
        attention_dropout: Dropout rate of attention weights.
        activation: Activation of the feed-forward networks.
        normalize_first: Whether to use pre-norm instead of post-norm.
        num_decoder_layers: Number of decoder blocks; `num_layers` if None.
        normalization: `"layer_norm"` or `"rms_norm"`.
        gated: Whether the feed-forward networks are gated; SwiGLU with `activation="silu"`.
        use_bias: Whether the projections of the blocks have biases.
        positions: `"sinusoidal"`, added to the embeddings, or `"rotary"` or `"alibi"`, in the
            self-attention of each block.
        rematerialize: Whether training computes each block again for its gradients, to save memory.
        attention_kernel: `"auto"`, `"plain"`, `"chunked"` or `"flash"`; see
            `keras_attn.ops.dot_product_attention`.
        right_padding: A promise that padding stands only at the end of rows, on both sides.
            Attention kernels then get lengths instead of masks.
        tied_output: Whether the output is tied to the target embedding; else it is a separate
            matrix without a bias.

    Raises:
        TypeError: If a setting has the wrong type.
        ValueError: If a setting is unknown or out of range.

    Example:

    >>> model = TransformerEncoderDecoderConfig(50, num_layers=1, dim=16, num_heads=2).build()
    >>> ids = keras.ops.array([[5, 6, 2]])
    >>> tuple(model({"source_ids": ids, "target_ids": ids}).shape)
    (1, 3, 50)
    """

    source_vocabulary_size: int = size("number of source tokens")
    target_vocabulary_size: int | None = size("number of target tokens", default=None)
    _: KW_ONLY
    num_decoder_layers: int | None = setting(
        None, "blocks of the decoder, if not as many as of the encoder", kind=int, at_least=1
    )
    positions: str = setting("sinusoidal", "positions of the tokens", choices=TRANSFORMER_POSITIONS)
    rematerialize: bool = setting(
        False, "compute blocks again for gradients, to save memory", shapes_result=False
    )
    attention_kernel: str = setting(
        "auto", "what computes the attention", choices=KERNELS, shapes_result=False
    )
    right_padding: bool = size("padding at the end of rows alone", default=False, kind=bool)
    tied_output: bool = setting(True, "tie the output to the embedding of the targets")

    recurrent: ClassVar[bool] = False

    def build(self, dtype: DType = None, name: str = "transformer") -> keras.Model:
        """Builds the model.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"source_ids": (B, S), "target_ids": (B, T)}` to logits
            `(B, T, V)`. `SequenceDecoder` decodes with its layers `source_embedding` (and
            `target_embedding` if there are two vocabularies), `encoder` and `decoder`.
        """
        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        source_embedding = TokenEmbedding(
            self.source_vocabulary_size, self.dim, dtype=dtype, name="source_embedding"
        )
        target_embedding = (
            source_embedding
            if self.target_vocabulary_size is None
            else TokenEmbedding(
                self.target_vocabulary_size, self.dim, dtype=dtype, name="target_embedding"
            )
        )
        block: dict[str, Any] = {**self.block(), "dtype": dtype}
        if self.positions == "sinusoidal":
            positions = PositionalEncoding(dtype=dtype, name="positions")
        else:
            block["positions"] = self.positions
            positions = keras.layers.Identity(dtype=dtype, name="no_positions")
        dropout = Dropout(self.dropout, dtype=dtype, name="embedding_dropout")
        encoder = TransformerEncoder(self.num_layers, **block, name="encoder")
        decoder_layers = self.num_decoder_layers
        decoder_layers = self.num_layers if decoder_layers is None else decoder_layers
        decoder = TransformerDecoder(decoder_layers, **block, name="decoder")

        memory = encoder(dropout(positions(source_embedding(source_ids))))
        output = decoder(dropout(positions(target_embedding(target_ids))), memory)
        if self.tied_output:
            logits = target_embedding(output, reverse=True)
        else:
            size = self.target_vocabulary_size or self.source_vocabulary_size
            logits = keras.layers.Dense(size, use_bias=False, dtype=dtype, name="head")(output)
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        return keras.Model(inputs, logits, name=name)
