"""ModernBERT: an encoder with local attention in most blocks (Warner et al., 2024)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import InputEmbedding, LayerNormalization, TransformerEncoder
from keras_attn.layers.activations import check_keras_activation
from keras_attn.layers.attention_settings import check_rotary_width
from keras_attn.layers.masked_layer import check_rotary_base
from keras_attn.models.bert import BertConfig, pooler_output
from keras_attn.models.bert_classifier import BertClassifierConfig
from keras_attn.models.classifier_parts import make_head, make_pooling
from keras_attn.models.roles import ENCODERS, TEXT_CLASSIFIERS
from keras_attn.models.stack_settings import WindowSettings
from keras_attn.settings import setting, size, with_defaults

Layers = dict[str, keras.layers.Layer]
POOLINGS = ("first", "average")


@ENCODERS.register("modern_bert")
@dataclass(frozen=True)
@with_defaults(attention_dropout=0.0)
class ModernBertConfig(WindowSettings, BertConfig):
    """Settings of ModernBERT, a text encoder (Warner et al., 2024).

        x        = dropout(norm(E[ids]))                                             (B, T, D)
        x        = x + attention(norm(x));  x = x + feed_forward(norm(x))            in each block
        sequence = norm(x)                                                           (B, T, D)
        pooled   = norm(activation(pool(sequence) W))                                (B, D)

    E is the table of tokens, and W the matrix of the pooler.

    The first block does not normalize the input of its attention, which is already normalized.
    Queries and keys are rotated by their positions, so padding may be on either side. The blocks of
    `window_blocks` attend only to tokens at a distance of less than `sliding_window` on both sides,
    and have their own rotary base. The feed-forward networks are GEGLU: their activation is applied
    to the gate. Neither norms nor projections have biases. Heads for tags and spans read
    `norm(activation(sequence W))`, with the same W and norm as `pooled`.

    Args:
        vocabulary_size: Number V of tokens.
        pad_id: Id of padding, from which a classifier computes its mask.
        rotary_base: Base of the rotary positions.
        sliding_window: Blocks with a window do not attend to tokens at this distance or farther:
            with 65, a token sees 64 tokens before it and 64 tokens after it. If None, all blocks
            attend to all tokens; `window_blocks` and `window_rotary_base` must then have their
            defaults.
        window_blocks: For each block, whether it has the window. If None, all blocks except 0, 3, 6
            and so on have the window.
        window_rotary_base: Base of the rotary positions in blocks with a window; `rotary_base` if
            None.
        pooling: How the states are pooled: `"first"` uses the first token, and `"average"` the mean
            of all tokens.
        pooler_activation: Activation of the pooler; None for an encoder without a pooler.
        **kwargs: All other arguments of `BertConfig`, except `num_segments`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, the heads do not divide
            the width, the width of a head is odd, `num_segments` is given, or the windows do not
            match the blocks.

    References:
        - [Warner et al., 2024](https://arxiv.org/abs/2412.13663): ModernBERT.

    Example:

    >>> config = ModernBertConfig(50, dim=16, num_layers=2, num_heads=2, intermediate_dim=24)
    >>> ids = keras.ops.array([[1, 9, 2, 0]])
    >>> found = config.build()({"token_ids": ids, "padding_mask": ids != 0})
    >>> {name: tuple(x.shape) for name, x in found.items()}
    {'sequence': (1, 4, 16), 'pooled': (1, 16)}
    """

    _: KW_ONLY
    layer_norm_epsilon: float = setting(1e-5, "epsilon of the norms", above=0)
    sequence_length: int = size("largest number of tokens of a text", default=8192)
    num_segments: int | None = size("number of segments", default=None, optional=True)
    pad_id: int = size("id of padding", default=0, at_least=0)
    pooling: str = size("how the states are pooled", default="first", kind=str)
    pooler_activation: str | None = size(
        "activation of the pooler", default="gelu", kind=str, optional=True,
        check=check_keras_activation,
    )  # fmt: skip
    rotary_base: float = size("base of the rotary positions", default=160000.0, kind=float)
    sliding_window: int | None = size(
        "distance that local attention does not reach", default=65, optional=True
    )
    window_rotary_base: float | None = size(
        "base of the rotary positions in blocks with a window", default=10000.0, kind=float,
        optional=True,
    )  # fmt: skip

    gated = True
    use_bias = norm_bias = head_bias = first_norm = False
    normalize_first = True
    head_activation = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_segments is not None:
            raise ValueError(
                f"ModernBERT has no segments. Received: num_segments={self.num_segments}. "
                "Leave it out."
            )
        if self.pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {POOLINGS}. Received: {self.pooling!r}.")
        self.check_windows(self.num_layers)
        check_rotary_base(self.rotary_base)
        check_rotary_width(self.dim // self.num_heads)

    def block(self) -> dict[str, Any]:
        """Returns the arguments of the stack of blocks as a dict."""
        found = super().block()
        if self.sliding_window is None:
            return {**found, "window_rotary_base": None}
        windows = self.window_blocks or [i % 3 > 0 for i in range(self.num_layers)]
        return {**found, "window_blocks": windows}

    def layers(self, dtype: DType = None, output_bias: bool = False) -> list[keras.layers.Layer]:
        """Creates the layers of the encoder.

        Args:
            dtype: Dtype or policy of the layers.
            output_bias: Whether the embedding has a bias for logits.

        Returns:
            A list of the layers `embedding`, `encoder` and, unless `pooler_activation` is None,
            `pooling`, `pooler` and `pooler_norm`.
        """
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        given = {"kernel_initializer": initializer, "dtype": dtype, "name": "encoder"}
        embedding = InputEmbedding(
            self.vocabulary_size,
            self.dim,
            positions=None,
            mask_zero=False,
            pad_id=self.pad_id,
            layer_norm_epsilon=self.layer_norm_epsilon,
            norm_bias=False,
            dropout=self.dropout,
            embeddings_initializer=initializer,
            output_bias=output_bias,
            dtype=dtype,
            name="embedding",
        )
        encoder = TransformerEncoder(self.num_layers, **self.block(), positions="rotary", **given)
        return [embedding, encoder, *self.pooler(dtype)]

    def pooler(self, dtype: DType = None) -> list[keras.layers.Layer]:
        """Creates the layers `pooling`, `pooler` and `pooler_norm`.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers; an empty list if `pooler_activation` is None.
        """
        if self.pooler_activation is None:
            return []
        (dense,) = super().pooler(dtype)
        dense.use_bias = False
        norm = {"epsilon": self.layer_norm_epsilon, "center": False, "dtype": dtype}
        pooling = make_pooling(self.pooling, None, dtype)
        return [pooling, dense, LayerNormalization(**norm, name="pooler_norm")]

    @staticmethod
    def encode(layers: Layers, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Calls the layers on the inputs of the encoder.

        Args:
            layers: The layers, keyed by name.
            inputs: `token_ids` and `padding_mask`, `(B, T)`.

        Returns:
            A dict with `sequence` `(B, T, D)` and, if there is a pooler, `pooled` `(B, D)`.
        """
        mask = inputs["padding_mask"]
        x = layers["embedding"](inputs["token_ids"], mask=mask)
        found = {"sequence": layers["encoder"](x, padding_mask=mask)}
        if "pooler" in layers:
            x = layers["pooling"](found["sequence"], mask=mask)
            found["pooled"] = pooler_output(layers, x)
        return found

    @staticmethod
    def token_states(layers: Layers, sequence: Tensor) -> Tensor:
        """Computes the states that heads for tags and spans read.

        Args:
            layers: The layers, keyed by name.
            sequence: The states of the encoder, `(B, T, D)`.

        Returns:
            The result `(B, T, D)` of the layers `pooler` and `pooler_norm` for `sequence`;
            `sequence` itself if there is no pooler.
        """
        return pooler_output(layers, sequence)


@TEXT_CLASSIFIERS.register("modern_bert")
@dataclass(frozen=True)
class ModernBertClassifierConfig(ModernBertConfig, BertClassifierConfig):
    """Settings of a text classifier with ModernBERT as its encoder (Warner et al., 2024).

        sequence = encoder([CLS] text [SEP])                          (B, T, D)
        sequence = encoder([CLS] text [SEP] second [SEP])             of pairs
        logits   = dropout(norm(activation(pool(sequence) W))) U + b  (B, C)

    W is the matrix of the pooler, and U and b are the weights of the output layer. The layers have
    the same names as in `ModernBertConfig`, so that the weights of an encoder can be loaded.

    Args:
        vocabulary_size: Number V of tokens.
        num_classes: Number C of classes.
        **kwargs: All other arguments of `ModernBertConfig`; with `pooler_activation=None`, neither
            W nor the activation nor the norm is applied to the pooled states.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range, not one of its choices or not available for
            ModernBERT, the heads do not divide the width, the width of a head is odd, or the
            windows do not match the blocks.

    Example:

    >>> config = ModernBertClassifierConfig(50, 3, dim=16, num_heads=2, intermediate_dim=24)
    >>> tuple(config.build()(keras.ops.array([[1, 9, 2, 0]])).shape)
    (1, 3)
    """

    _: KW_ONLY
    pooling: str = setting("first", "how the states are pooled", choices=POOLINGS)

    has_positions = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooled_layers != 1 or self.unit_length:
            raise ValueError(
                "`pooled_layers` and `unit_length` are only used with model='bert' and "
                "'roberta', because ModernBERT has a dense layer after the pooling. "
                f"Received: pooled_layers={self.pooled_layers} and "
                f"unit_length={self.unit_length}. Leave them out."
            )

    def layers(  # type: ignore[override]  # a classifier has no logits of tokens
        self, dtype: DType
    ) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers `embedding`, `encoder`, `pooling`, `pooler` and `pooler_norm`
            (unless `pooler_activation` is None), `head_dropout` and `head`.
        """
        layers = ModernBertConfig.layers(self, dtype)
        if self.pooler_activation is None:
            layers.append(make_pooling(self.pooling, None, dtype))
        return [*layers, *make_head(self.num_classes, self.dropout, dtype)]
