"""BERT: an encoder of tokens, segments and positions (Devlin et al., 2019)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import InputEmbedding, TransformerEncoder
from keras_attn.layers.activations import check_keras_activation
from keras_attn.layers.sinusoidal_initializer import SinusoidalInitializer
from keras_attn.models.roles import ENCODERS
from keras_attn.models.stack_settings import BlockSettings
from keras_attn.models.text_encoder import TextEncoderConfig
from keras_attn.settings import setting, size, with_defaults

Layers = dict[str, keras.layers.Layer]


@ENCODERS.register("bert")
@dataclass(frozen=True)
@with_defaults(attention_dropout=0.1)
class BertConfig(BlockSettings, TextEncoderConfig):
    """Settings of BERT, a text encoder (Devlin et al., 2019).

        x        = dropout(norm(E[ids] + S[segments] + P[positions]))         (B, T, D)
        sequence = block_N(... block_1(x))                                    (B, T, D)
        pooled   = activation(sequence[:, 0] W + b)                           (B, D)

    E, S and P are the tables of tokens, segments and positions, N is `num_layers`, and W and b are
    the weights of the pooler. The blocks are post-norm. `build` returns only the encoder.
    `keras_attn.models.with_heads` builds the encoder with heads, and `BertClassifierConfig` a text
    classifier with the same layers.

    Args:
        vocabulary_size: Number V of tokens.
        dim: Width D.
        num_layers: Number of blocks.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        activation: Activation of the feed-forward networks; `"gelu"` is the exact function.
        dropout: Dropout rate of the embeddings and sublayers, and of the states that heads for
            classes and tags read.
        attention_dropout: Dropout rate of the attention weights.
        layer_norm_epsilon: Epsilon of the norms.
        sequence_length: Maximum number of tokens of a text.
        num_segments: Number of segments; None for no segments, as in DistilBERT. With 1 or None,
            the model has no input for segments.
        pooler_activation: Activation of the pooled vector; None for an encoder without a pooler.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, or the heads do not
            divide the width.

    Example:

    >>> model = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32).build()
    >>> ids = keras.ops.array([[2, 9, 3, 0]])
    >>> inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    >>> {name: tuple(x.shape) for name, x in model(inputs).items()}
    {'sequence': (1, 4, 16), 'pooled': (1, 16)}
    """

    vocabulary_size: int = size("number of tokens")
    _: KW_ONLY
    layer_norm_epsilon: float = setting(1e-12, "epsilon of the norms", above=0)
    sequence_length: int = size("largest number of tokens of a text", default=512)
    num_segments: int | None = size("number of segments", default=2, optional=True)
    pooler_activation: str | None = size(
        "activation of the pooler", default="tanh", kind=str, optional=True,
        check=check_keras_activation,
    )  # fmt: skip

    @property
    def head_activation(self) -> str:
        """Activation of the head for masked words."""
        return self.activation

    @property
    def initializer_range(self) -> float:
        """Standard deviation of new weights: 0.02 for BERT's width of 768, `0.02 sqrt(768 / D)`."""
        return 0.02 * (768 / self.dim) ** 0.5

    def layers(self, dtype: DType = None, output_bias: bool = False) -> list[keras.layers.Layer]:
        """Creates the layers of the encoder.

        Args:
            dtype: Dtype or policy of the layers.
            output_bias: Whether the embedding has a bias for logits.

        Returns:
            A list of the layers `embedding`, `encoder` and, unless `pooler_activation` is None,
            `pooler`.
        """
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        layers = [
            InputEmbedding(
                self.vocabulary_size,
                self.dim,
                num_segments=self.num_segments,
                sequence_length=self.sequence_length,
                first_position=self.first_position,
                mask_zero=False,
                layer_norm_epsilon=self.layer_norm_epsilon,
                dropout=self.dropout,
                embeddings_initializer=initializer,
                positions_initializer=SinusoidalInitializer(self.initializer_range),
                output_bias=output_bias,
                dtype=dtype,
                name="embedding",
            ),
            TransformerEncoder(
                self.num_layers,
                **self.block(),
                kernel_initializer=initializer,
                last_states=getattr(self, "pooled_layers", 1),
                dtype=dtype,
                name="encoder",
            ),
        ]
        return [*layers, *self.pooler(dtype)]

    def pooler(self, dtype: DType = None) -> list[keras.layers.Layer]:
        """Creates the dense layer `pooler`.

        Args:
            dtype: Dtype or policy of the layer.

        Returns:
            A list with the layer; an empty list if `pooler_activation` is None.
        """
        if self.pooler_activation is None:
            return []
        return [
            keras.layers.Dense(
                self.dim,
                activation=self.pooler_activation,
                kernel_initializer=keras.initializers.TruncatedNormal(
                    stddev=self.initializer_range
                ),
                dtype=dtype,
                name="pooler",
            )
        ]

    @staticmethod
    def encode(layers: Layers, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Calls the layers on the inputs of the encoder.

        Args:
            layers: The layers, keyed by name.
            inputs: `token_ids`, `segment_ids` (if there are several segments) and `padding_mask`,
                `(B, T)`.

        Returns:
            A dict with `sequence` `(B, T, D)` and, if there is a pooler, `pooled` `(B, D)`, which
            is computed from the state of the first token.
        """
        mask = inputs["padding_mask"]
        x = layers["embedding"](inputs["token_ids"], inputs.get("segment_ids"), mask=mask)
        found = {"sequence": layers["encoder"](x, padding_mask=mask)}
        if "pooler" in layers:
            found["pooled"] = layers["pooler"](found["sequence"][:, 0])
        return found


def pooler_output(layers: Layers, x: Tensor) -> Tensor:
    """Applies the layers `pooler` and `pooler_norm` if the model has them."""
    for name in ("pooler", "pooler_norm"):
        x = layers[name](x) if name in layers else x
    return x
