"""T5: an encoder-decoder with relative positions (Raffel et al., 2020)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.hints import DType
from keras_attn.layers import Dropout, TokenEmbedding, TransformerDecoder, TransformerEncoder
from keras_attn.layers.attention_settings import check_buckets
from keras_attn.models.roles import ENCODER_DECODERS
from keras_attn.models.stack_settings import BlockSettings
from keras_attn.ops import token_positions
from keras_attn.settings import setting, size, with_defaults


@ENCODER_DECODERS.register("t5")
@dataclass(frozen=True)
@with_defaults(
    num_layers=3,
    activation="relu",
    help={
        "num_layers": "blocks of the encoder, and of the decoder",
        "dropout": "dropout of embeddings and sublayers",
    },
)
class T5Config(BlockSettings):
    """Settings of T5, an encoder-decoder with relative positions (Raffel et al., 2020).

        memory = encoder(embed(source_ids))                          (B, S, D)
        x      = decoder(embed(target_ids), memory) / sqrt(D)        (B, T, D)
        logits = x E^T, or x W if the output is not tied             (B, T, V)

    E is the target embedding, and W the matrix of a separate output layer; `scale_output=False`
    leaves out the division by `sqrt(D)`.

    The blocks are pre-norm, with RMS norms and without biases. Products of queries and keys are not
    scaled; in self-attention, a learned bias, which depends on the head and the distance, is added
    to the products. All blocks of the encoder share one table of these biases, and so do all blocks
    of the decoder. The defaults give a small T5 of version 1.0. For version 1.1, which Flan-T5 also
    uses, set `gated=True`, `activation="gelu_tanh"`, `tied_output=False` and `scale_output=False`.

    Padding has id 0 in sources and targets. The start token of T5's own weights also has id 0, so
    the first target id always counts as a token.

    Args:
        source_vocabulary_size: Number of source tokens.
        target_vocabulary_size: Number of target tokens. If None, as in T5, sources and targets
            share one vocabulary and one embedding.
        num_layers: Number of encoder blocks, and of decoder blocks unless `num_decoder_layers` is
            given.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout rate of embeddings and sublayers.
        attention_dropout: Dropout rate of attention weights.
        activation: Activation of the feed-forward networks.
        key_dim: Width of a head; D / `num_heads` if None.
        num_decoder_layers: Number of decoder blocks; `num_layers` if None.
        gated: Whether the feed-forward networks have a gate.
        layer_norm_epsilon: Epsilon of the norms.
        num_buckets: Number of buckets of relative positions; even and at least 4.
        max_distance: Distance from which relative positions of one direction share a bucket; more
            than `num_buckets / 2`.
        tied_output: Whether the output is tied to the embedding; otherwise, it has its own matrix.
        scale_output: Whether the output of the decoder is divided by `sqrt(D)`.
        right_padding: Promises that padding is only at the end of rows, in sources and targets.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range, or `key_dim` is None and `num_heads` does not
            divide `dim`.

    Example:

    >>> model = T5Config(50, num_layers=1, dim=16, num_heads=2, intermediate_dim=32).build()
    >>> ids = {"source_ids": [[5, 6, 1]], "target_ids": [[0, 7]]}  # 0 starts the target
    >>> tuple(model({name: keras.ops.array(rows) for name, rows in ids.items()}).shape)
    (1, 2, 50)
    """

    source_vocabulary_size: int = size("number of source tokens")
    target_vocabulary_size: int | None = size("number of target tokens", default=None)
    _: KW_ONLY
    key_dim: int | None = setting(
        None, "width of a head; the width of the model divided by the heads if not given",
        kind=int, at_least=1,
    )  # fmt: skip
    num_decoder_layers: int | None = setting(
        None, "blocks of the decoder, if it differs from the encoder", kind=int, at_least=1
    )
    gated: bool = setting(False, "give the feed-forward networks a gate")
    layer_norm_epsilon: float = setting(1e-6, "epsilon of the norms", above=0)
    num_buckets: int = setting(32, "buckets of relative positions, an even number", at_least=4)
    max_distance: int = setting(
        128, "distance from which relative positions of one direction share a bucket", at_least=1
    )
    tied_output: bool = setting(True, "tie the output to the embedding of the targets")
    scale_output: bool = setting(True, "divide the decoder's output by the root of its width")
    right_padding: bool = size("padding at the end of rows alone", default=False, kind=bool)

    recurrent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_buckets(type(self).__name__, self.num_buckets, self.max_distance)

    def check_heads(self) -> None:
        """Raises a ValueError if `key_dim` is None and `num_heads` does not divide `dim`."""
        if self.key_dim is None:
            super().check_heads()

    def layers(self, dtype: DType = None) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers `source_embedding`, `encoder`, `decoder`, `target_embedding` if
            there are two vocabularies, and `head` if the output is not tied.
        """
        sizes = {"source": self.source_vocabulary_size, "target": self.target_vocabulary_size}
        layers: list[keras.layers.Layer] = [
            TokenEmbedding(
                size,
                self.dim,
                scale=False,
                embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
                dtype=dtype,
                name=f"{side}_embedding",
            )
            for side, size in sizes.items()
            if size is not None
        ]
        stack: dict[str, Any] = {
            **self.block(),
            "normalize_first": True,
            "normalization": "rms_norm",
            "use_bias": False,
            "positions": "relative",
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "scale": 1.0,
            "kernel_initializer": _initializer(),
            "dtype": dtype,
        }
        output_scale = self.dim**-0.5 if self.scale_output else None
        layers += [
            TransformerEncoder(self.num_layers, **stack, name="encoder"),
            TransformerDecoder(
                self.num_decoder_layers or self.num_layers,
                **stack,
                output_scale=output_scale,
                name="decoder",
            ),
        ]
        if not self.tied_output:
            head = keras.layers.Dense(
                self.target_vocabulary_size or self.source_vocabulary_size,
                use_bias=False,
                kernel_initializer=_initializer(),
                dtype=dtype,
                name="head",
            )
            layers.append(head)
        return layers

    def build(self, dtype: DType = None, name: str = "t5") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        The initial weights are normal. Their standard deviations are chosen so that the products of
        queries and keys, which are not scaled, and the results of all other projections of
        normalized vectors have standard deviation 1.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"source_ids": (B, S), "target_ids": (B, T)}` to logits
            `(B, T, V)`, built from the layers that `layers()` creates and a dropout of the
            embeddings. `SequenceDecoder` decodes with it.
        """
        source_ids = keras.Input((None,), dtype="int32", name="source_ids")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        layers = {layer.name: layer for layer in self.layers(dtype)}
        source_embedding, encoder, decoder = (
            layers[name] for name in ("source_embedding", "encoder", "decoder")
        )
        target_embedding = layers.get("target_embedding", source_embedding)
        dropout = Dropout(self.dropout, dtype=dtype, name="embedding_dropout")
        first = ops.equal(token_positions(target_ids), 0)
        seen = ops.logical_or(ops.not_equal(target_ids, 0), first)

        memory = encoder(dropout(source_embedding(source_ids)))
        output = decoder(dropout(target_embedding(target_ids, mask=seen)), memory)
        self._scale_queries([*encoder.blocks, *decoder.blocks])
        if self.tied_output:
            logits = target_embedding(output, reverse=True)
        else:
            logits = layers["head"](output)
        return keras.Model({"source_ids": source_ids, "target_ids": target_ids}, logits, name=name)

    def _scale_queries(self, blocks: list[Any]) -> None:
        """Divides the initial projections of queries by `sqrt(key_dim)`."""
        width = self.key_dim or self.dim // self.num_heads
        dense = [block.self_attention.qkv_dense for block in blocks]
        cross = [getattr(block, "cross_attention", None) for block in blocks]
        dense += [attention.query_dense for attention in cross if attention is not None]
        for layer in dense:
            if layer.quantization_mode is None:  # else the weights come from a file
                factors = np.ones(layer.kernel.shape[1], "float32")
                factors[: self.num_heads * width] = width**-0.5
                layer.kernel.assign(layer.kernel * ops.cast(factors, layer.kernel.dtype))


def _initializer() -> keras.initializers.Initializer:
    return keras.initializers.VarianceScaling(1.0, "fan_in", "untruncated_normal")
