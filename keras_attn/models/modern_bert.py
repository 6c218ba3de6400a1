"""ModernBERT: an encoder with local attention in most blocks (Warner et al., 2024)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import keras

from keras_attn.hints import DType
from keras_attn.layers import InputEmbedding, TransformerEncoder
from keras_attn.models.bert import BertConfig
from keras_attn.models.roles import ENCODERS
from keras_attn.models.stack_settings import WindowSettings
from keras_attn.settings import setting, size, with_defaults


@ENCODERS.register("modern_bert")
@dataclass(frozen=True)
@with_defaults(attention_dropout=0.0)
class ModernBertConfig(WindowSettings, BertConfig):
    """Settings of ModernBERT, an encoder of texts (Warner et al., 2024).

        x        = dropout(norm(E[ids]))                                             (B, T, D)
        x        = x + attention(norm(x));  x = x + feed_forward(norm(x))            in each block
        sequence = norm(x)                                                           (B, T, D)
        pooled   = activation(sequence[:, 0] W + b)                                  (B, D)

    The first block does not normalise the input of its attention, which is normalised already.
    Queries and keys are rotated by their positions, so padding may be on either side. The blocks
    of `window_blocks` attend to tokens at a distance below `sliding_window`, on both sides, with
    rotary positions of their own. The feed-forward networks are GEGLU. Neither norms nor
    projections have biases.

    Args:
        vocabulary_size: Number V of tokens.
        rotary_base: Base of the wavelengths of rotary positions.
        sliding_window: Distance from which a block with a window does not see tokens.
        window_blocks: A boolean for each block, whether it has the window. If None, the first of
            every three blocks has none.
        window_rotary_base: Base of the wavelengths in blocks with a window.
        **kwargs: All other arguments of `BertConfig`, except `num_segments`.

    Raises:
        TypeError: If a setting has the wrong type.
        ValueError: If a setting is unknown or out of range, or the heads do not divide the width.

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
    pooler_activation: str | None = size(
        "activation of the pooler", default="gelu", kind=str, optional=True
    )
    rotary_base: float = setting(160000.0, "base of the wavelengths of rotary positions", above=1)
    sliding_window: int | None = size("distance that local attention does not see", default=65)
    window_rotary_base: float | None = size(  # noqa: RUF009 - it makes a field
        "base of the wavelengths in blocks with a window", default=10000.0, kind=float
    )

    gated = True
    use_bias = False
    normalize_first = True
    norm_bias = False
    first_norm = False

    def __post_init__(self) -> None:
        if self.window_blocks is None and type(self.num_layers) is int:
            windows = [i % 3 > 0 for i in range(self.num_layers)]
            object.__setattr__(self, "window_blocks", windows)
        super().__post_init__()
        self.check_windows(self.num_layers)
        if self.num_segments is not None:
            raise ValueError(
                f"ModernBERT has no segments. Received: num_segments={self.num_segments}."
            )

    def layers(self, dtype: DType = None, output_bias: bool = False) -> list[keras.layers.Layer]:
        """Creates the layers `embedding`, `encoder` and, if there is one, `pooler`.

        Args:
            dtype: Dtype or policy of the layers.
            output_bias: Whether the embedding has a bias for logits.

        Returns:
            A list of the layers.
        """
        initializer = keras.initializers.TruncatedNormal(stddev=self.initializer_range)
        embedding = InputEmbedding(
            self.vocabulary_size,
            self.dim,
            positions=None,
            mask_zero=False,
            layer_norm_epsilon=self.layer_norm_epsilon,
            norm_bias=False,
            dropout=self.dropout,
            embeddings_initializer=initializer,
            output_bias=output_bias,
            dtype=dtype,
            name="embedding",
        )
        encoder = TransformerEncoder(
            self.num_layers,
            **self.block(),
            positions="rotary",
            kernel_initializer=initializer,
            dtype=dtype,
            name="encoder",
        )
        return [embedding, encoder, *self.pooler(dtype)]
