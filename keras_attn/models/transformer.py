"""Encoder-decoder Transformer."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import keras
from keras import ops

from keras_attn.hints import DType
from keras_attn.layers import (
    Dropout,
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
    TransformerEncoder,
)
from keras_attn.layers.attention_settings import check_attention_kernel, check_rotary_width
from keras_attn.models.roles import CONVERSATION_MODELS, ENCODER_DECODERS
from keras_attn.models.stack_settings import BlockSettings, LlamaSettings, NormSettings
from keras_attn.ops import token_positions
from keras_attn.ops.attention_kernels import KERNELS
from keras_attn.settings import setting, size, with_defaults

TRANSFORMER_POSITIONS = (
    "sinusoidal", "sinusoidal_halves", "sinusoidal_from_one", "rotary", "alibi",
)  # fmt: skip


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

    With rotary positions and ALiBi, no positions are added to the embeddings. The output is tied to
    the target embedding E, or is a layer `head`. Padding has the same id in sources and targets, 0
    by default; the embeddings create the masks, which reach every block.

    Args:
        source_vocabulary_size: Number of source tokens.
        target_vocabulary_size: Number of target tokens. If None, sources and targets share one
            vocabulary and one embedding.
        num_layers: Number of encoder blocks, and of decoder blocks unless `num_decoder_layers` is
            given.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout rate of embeddings and sublayers.
        attention_dropout: Dropout rate of attention weights.
        activation: Activation of the feed-forward networks.
        normalize_first: Whether to use pre-norm instead of post-norm.
        num_decoder_layers: Number of decoder blocks; `num_layers` if None.
        normalization: `"layer_norm"` or `"rms_norm"`.
        gated: Whether the feed-forward networks have a gate; with `activation="silu"`, this is
            SwiGLU.
        use_bias: Whether the projections of the blocks have biases.
        layer_norm_epsilon: Epsilon of the norms.
        positions: `"sinusoidal"` adds sinusoids to the embeddings. `"sinusoidal_halves"` puts all
            sines before all cosines. `"sinusoidal_from_one"` also puts all sines before all
            cosines, counts positions from 1, and has the wavelengths of Tensor2Tensor and
            OpenNMT-tf, of which the longest is exactly 10000 times the shortest. `"rotary"` and
            `"alibi"` are applied in the self-attention of each block.
        rematerialize: Whether training recomputes each block for its gradients, to save memory.
        attention_kernel: Kernel of `keras_attn.ops.dot_product_attention`: `"auto"`, `"plain"`,
            `"chunked"` or `"flash"`.
        right_padding: Promises that padding is only at the end of rows, in sources and targets.
            Attention kernels then receive lengths instead of masks.
        tied_output: Whether the output is tied to the target embedding; otherwise, it is a separate
            matrix.
        output_bias: Whether the logits have a bias `(V,)`.
        scale_embeddings: Whether embeddings are multiplied by `sqrt(D)`.
        pad_id: Id of padding in sources and targets.
        starts_with_padding: Whether the start token of targets has the id of padding, as in Marian
            and T5. The first target id then always counts as a token.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, the heads do not divide
            the width, the width of a head is odd with `positions="rotary"`, or the kernel
            `"chunked"` or `"flash"` is chosen with `attention_dropout`.

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
        None, "blocks of the decoder, if it differs from the encoder", kind=int, at_least=1
    )
    positions: str = setting("sinusoidal", "positions of the tokens", choices=TRANSFORMER_POSITIONS)
    rematerialize: bool = setting(
        False, "recompute blocks for gradients, to save memory", shapes_result=False
    )
    attention_kernel: str = setting(
        "auto", "kernel that computes the attention", choices=KERNELS, shapes_result=False
    )
    right_padding: bool = size("padding at the end of rows alone", default=False, kind=bool)
    tied_output: bool = setting(True, "tie the output to the embedding of the targets")
    layer_norm_epsilon: float = size("epsilon of the norms", default=1e-5, kind=float)
    output_bias: bool = size("bias of the logits", default=False, kind=bool)
    scale_embeddings: bool = size("scale of the embeddings", default=True, kind=bool)
    pad_id: int = size("id of padding", default=0, at_least=0)
    starts_with_padding: bool = size("padding as start token", default=False, kind=bool)

    recurrent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_attention_kernel(type(self).__name__, self.attention_kernel, self.attention_dropout)
        if self.positions == "rotary":
            check_rotary_width(self.dim // self.num_heads)

    def layers(self, dtype: DType = None) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers `source_embedding`, `target_embedding` if there are two
            vocabularies, `positions` or `no_positions`, `embedding_dropout`, `encoder`, `decoder`,
            and `head` if the output is not tied.
        """
        two = self.target_vocabulary_size is not None
        biased = self.output_bias and self.tied_output
        sizes = {"source_embedding": (self.source_vocabulary_size, biased and not two)}
        if self.target_vocabulary_size is not None:
            sizes["target_embedding"] = (self.target_vocabulary_size, biased)
        layers = [
            TokenEmbedding(
                size,
                self.dim,
                scale=self.scale_embeddings,
                pad_id=self.pad_id,
                output_bias=bias,
                dtype=dtype,
                name=name,
            )
            for name, (size, bias) in sizes.items()
        ]
        block: dict[str, Any] = {**self.block(), "dtype": dtype}
        if self.positions.startswith("sinusoidal"):
            layers.append(PositionalEncoding(**self._sinusoids(), dtype=dtype, name="positions"))
        else:
            block["positions"] = self.positions
            layers.append(keras.layers.Identity(dtype=dtype, name="no_positions"))
        layers.append(Dropout(self.dropout, dtype=dtype, name="embedding_dropout"))
        layers.append(TransformerEncoder(self.num_layers, **block, name="encoder"))
        decoder_layers = self.num_decoder_layers
        decoder_layers = self.num_layers if decoder_layers is None else decoder_layers
        layers.append(TransformerDecoder(decoder_layers, **block, name="decoder"))
        if not self.tied_output:
            size = self.target_vocabulary_size or self.source_vocabulary_size
            head = keras.layers.Dense(size, use_bias=self.output_bias, dtype=dtype, name="head")
            layers.append(head)
        return layers

    def _sinusoids(self) -> dict[str, Any]:
        """Returns the settings of the layer `positions`."""
        if self.positions != "sinusoidal_from_one":
            return {"halves": self.positions == "sinusoidal_halves"}
        waves = self.dim // 2
        exponent = waves / max(waves - 1, 1)
        return {"halves": True, "first": 1, "max_wavelength": 10000.0**exponent}

    def build(self, dtype: DType = None, name: str = "transformer") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

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
        layer = {layer.name: layer for layer in self.layers(dtype)}
        source_embedding = layer["source_embedding"]
        target_embedding = layer.get("target_embedding", source_embedding)
        positions = layer.get("positions") or layer["no_positions"]
        dropout = layer["embedding_dropout"]
        target_mask = None
        if self.starts_with_padding:
            first = ops.equal(token_positions(target_ids), 0)
            target_mask = ops.logical_or(ops.not_equal(target_ids, self.pad_id), first)

        memory = layer["encoder"](dropout(positions(source_embedding(source_ids))))
        targets = positions(target_embedding(target_ids, mask=target_mask))
        output = layer["decoder"](dropout(targets), memory)
        if self.tied_output:
            logits = target_embedding(output, reverse=True)
        else:
            logits = layer["head"](output)
        inputs = {"source_ids": source_ids, "target_ids": target_ids}
        return keras.Model(inputs, logits, name=name)
