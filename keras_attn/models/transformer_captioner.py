"""Captions by a Transformer decoder."""

from dataclasses import KW_ONLY, dataclass

import keras

from keras_attn.hints import DType
from keras_attn.layers import (
    Dropout,
    GridPositionalEncoding,
    LayerNormalization,
    LearnedPositionalEncoding,
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
)
from keras_attn.models.roles import CAPTIONERS
from keras_attn.models.stack_settings import BlockSettings, NormSettings
from keras_attn.settings import setting, size, with_defaults

REGION_POSITIONS = ("none", "sinusoidal", "learned")


@CAPTIONERS.register("transformer")
@dataclass(frozen=True)
@with_defaults(
    num_layers=2, dropout=0.3, activation="relu", help={"dropout": "dropout of the decoder"}
)
class TransformerCaptionerConfig(NormSettings, BlockSettings):
    """Settings of a captioner with the decoder of Vaswani et al., 2017.

        memory = norm(regions Wr + br + positions of the regions)        (B, R, D)
        logits = decoder(positions(embed(target_ids)), memory) E^T       (B, T, V)

    Wr and br are the weights of a projection of the regions. With `region_positions="none"`, the
    order of the regions has no effect. The output is tied to the embedding E. Padding is id 0.

    Args:
        vocabulary_size: Number V of tokens; id 0 is padding.
        region_dim: Width Dr of a region: `region_dim` of the `ImageEncoder`.
        num_layers: Number of decoder blocks.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout rate of the embeddings, the projected regions and the sublayers.
        attention_dropout: Dropout of attention weights.
        activation: Activation of the feed-forward networks.
        normalize_first: Whether to use pre-norm instead of post-norm.
        region_positions: Position encoding of the regions: `"sinusoidal"` (of rows and columns),
            `"learned"` or `"none"`.
        grid: Rows and columns of the regions, the `grid` of the `ImageEncoder`; required for
            `region_positions` other than `"none"`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, the heads do not divide
            the width, the width is odd with `region_positions="sinusoidal"`, or `grid` is not a
            pair of positive integers.

    Example:

    >>> config = TransformerCaptionerConfig(50, region_dim=6, num_layers=1, dim=8, grid=(3, 3))
    >>> inputs = {"regions": ops.ones((1, 9, 6)), "target_ids": ops.array([[1, 5, 6]])}
    >>> tuple(config.build()(inputs).shape)
    (1, 3, 50)
    """

    vocabulary_size: int = size("number of tokens")
    region_dim: int = size("width of a region")
    _: KW_ONLY
    region_positions: str = setting(
        "sinusoidal", "position encoding of the regions", choices=REGION_POSITIONS
    )
    grid: tuple[int, int] | None = size("rows and columns of the regions", default=None, kind=tuple)

    def __post_init__(self):
        if isinstance(self.grid, list):  # as JSON has it
            object.__setattr__(self, "grid", tuple(self.grid))
        super().__post_init__()
        if self.region_positions == "sinusoidal" and self.dim % 2:
            raise ValueError(
                "`dim` must be even, because rows and columns have sinusoidal positions. "
                f"Received: {self.dim}."
            )
        if self.grid is not None and (
            len(self.grid) != 2 or not all(type(n) is int and n > 0 for n in self.grid)
        ):
            raise ValueError(
                f"`grid` must be (rows, columns), integers of at least 1. Received: {self.grid!r}."
            )

    def build(self, dtype: DType = None, name: str = "transformer_captioner") -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from `{"regions": (B, R, Dr), "target_ids": (B, T)}` to logits
            `(B, T, V)`. `CaptionDecoder` decodes with it. With `region_positions="none"`, it
            accepts any number of regions.

        Raises:
            ValueError: If the regions have positions but `grid` is missing.
        """
        grid = None if self.region_positions == "none" else self.grid
        if self.region_positions != "none" and grid is None:
            raise ValueError(
                "`region_positions` requires the `grid` of the image encoder. Received: "
                f"region_positions={self.region_positions!r}, grid=None."
            )
        count = None if grid is None else grid[0] * grid[1]
        regions = keras.Input((count, self.region_dim), name="regions")
        target_ids = keras.Input((None,), dtype="int32", name="target_ids")
        embedding = TokenEmbedding(self.vocabulary_size, self.dim, dtype=dtype, name="embedding")
        dropout = Dropout(self.dropout, dtype=dtype, name="embedding_dropout")
        decoder = TransformerDecoder(self.num_layers, **self.block(), dtype=dtype, name="decoder")
        memory = keras.layers.Dense(self.dim, dtype=dtype, name="region_projection")(regions)
        if grid is not None and self.region_positions == "sinusoidal":
            positions = GridPositionalEncoding(grid[1], dtype=dtype, name="region_positions")
            memory = positions(memory)
        elif count is not None:
            positions = LearnedPositionalEncoding(count, dtype=dtype, name="region_positions")
            memory = positions(memory)
        memory = LayerNormalization(dtype=dtype, name="region_norm")(memory)
        memory = Dropout(self.dropout, dtype=dtype, name="region_dropout")(memory)
        x = PositionalEncoding(dtype=dtype, name="positions")(embedding(target_ids))
        logits = embedding(decoder(dropout(x), memory), reverse=True)
        return keras.Model({"regions": regions, "target_ids": target_ids}, logits, name=name)
