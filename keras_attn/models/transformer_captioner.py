"""Captions by a Transformer decoder."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import (
    Dropout,
    GridPositionalEncoding,
    LearnedPositionalEncoding,
    PositionalEncoding,
    TokenEmbedding,
    TransformerDecoder,
)
from keras_attn.layers.masked_layer import check_positive, check_rate

Tensor = Any

REGION_POSITIONS = (None, "sinusoidal", "learned")


@dataclass(frozen=True)
class TransformerCaptionerConfig:
    """Settings of `transformer_captioner`.

    Args:
        vocabulary_size: Number V of tokens; id 0 is padding.
        region_dim: Width Dr of a region: `region_dim` of the `ImageEncoder`.
        num_layers: Number of decoder blocks.
        dim: Width D.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        dropout: Dropout of embeddings, of projected regions and of sublayers.
        attention_dropout: Dropout of attention weights.
        activation: Activation of the feed-forward networks.
        normalize_first: Pre-norm instead of post-norm.
        region_positions: None, `"sinusoidal"` (of rows and columns) or `"learned"`: what says where
            a region is.
        grid: Rows and columns of the regions, where they have positions: `grid` of the
            `ImageEncoder`.

    Raises:
        ValueError: For unknown names, settings out of range, and options that do not apply.

    Example:

    >>> TransformerCaptionerConfig(vocabulary_size=4000, region_dim=512).dim
    256
    """

    vocabulary_size: int
    region_dim: int
    num_layers: int = 2
    dim: int = 256
    num_heads: int = 4
    intermediate_dim: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    normalize_first: bool = True
    region_positions: str | None = None
    grid: tuple[int, int] | None = None

    def __post_init__(self):
        owner = "TransformerCaptionerConfig"
        names = (
            "vocabulary_size", "region_dim", "num_layers", "dim", "num_heads", "intermediate_dim",
        )  # fmt: skip
        check_positive(owner, **{name: getattr(self, name) for name in names})
        check_rate(owner, dropout=self.dropout, attention_dropout=self.attention_dropout)
        if self.dim % self.num_heads:
            raise ValueError(
                f"`dim` of {owner} must be divisible by `num_heads`. Received: dim={self.dim}, "
                f"num_heads={self.num_heads}."
            )
        if self.region_positions not in REGION_POSITIONS:
            raise ValueError(
                f"`region_positions` must be one of {list(REGION_POSITIONS)}. Received: "
                f"{self.region_positions!r}."
            )
        if (self.grid is None) != (self.region_positions is None):
            raise ValueError(
                "`region_positions` needs a `grid`, and `grid` belongs to it. Received: "
                f"region_positions={self.region_positions!r}, grid={self.grid!r}."
            )
        if self.grid is not None:
            if not isinstance(self.grid, Sequence) or len(self.grid) != 2:
                raise ValueError(f"`grid` must be rows and columns. Received: {self.grid!r}.")
            for size in self.grid:
                check_positive(owner, grid=size)
            object.__setattr__(self, "grid", tuple(self.grid))  # JSON has lists
        if self.region_positions == "sinusoidal" and self.dim % 2:
            raise ValueError(
                "`dim` must be even for sinusoidal positions of rows and columns. Received: "
                f"{self.dim}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return {**asdict(self), "grid": None if self.grid is None else list(self.grid)}


def transformer_captioner(
    config: TransformerCaptionerConfig, dtype: Any = None, name: str = "transformer_captioner"
) -> keras.Model:
    """Builds a captioner with the decoder of Vaswani et al., 2017, as a functional model.

        memory = norm(regions Wr + br + positions of the regions)        (B, R, D)
        logits = decoder(positions(embed(target_ids)), memory) E^T       (B, T, V)

    Without `region_positions` the regions are a set, and their order changes nothing. The output
    is tied to the embedding. Padding is id 0.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from `{"regions": (B, R, Dr), "target_ids": (B, T)}` to logits
        `(B, T, V)`, for any number of regions, or for those of the `grid`; decoded by
        `CaptionDecoder`.

    Example:

    >>> config = TransformerCaptionerConfig(50, region_dim=6, dim=8, intermediate_dim=16)
    >>> model = transformer_captioner(config)
    >>> inputs = {"regions": ops.ones((1, 9, 6)), "target_ids": ops.array([[1, 5, 6]])}
    >>> tuple(model(inputs).shape)
    (1, 3, 50)
    """
    count = None if config.grid is None else config.grid[0] * config.grid[1]
    regions = keras.Input((count, config.region_dim), name="regions")
    target_ids = keras.Input((None,), dtype="int32", name="target_ids")
    embedding = TokenEmbedding(config.vocabulary_size, config.dim, dtype=dtype, name="embedding")
    dropout = Dropout(config.dropout, dtype=dtype, name="embedding_dropout")
    decoder = TransformerDecoder(
        config.num_layers,
        num_heads=config.num_heads,
        intermediate_dim=config.intermediate_dim,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation=config.activation,
        normalize_first=config.normalize_first,
        dtype=dtype,
        name="decoder",
    )
    memory = keras.layers.Dense(config.dim, dtype=dtype, name="region_projection")(regions)
    if config.region_positions == "sinusoidal":
        positions = GridPositionalEncoding(config.grid[1], dtype=dtype, name="region_positions")
        memory = positions(memory)
    elif config.region_positions == "learned":
        positions = LearnedPositionalEncoding(count, dtype=dtype, name="region_positions")
        memory = positions(memory)
    memory = keras.layers.LayerNormalization(dtype=dtype, name="region_norm")(memory)
    memory = Dropout(config.dropout, dtype=dtype, name="region_dropout")(memory)
    x = PositionalEncoding(dtype=dtype, name="positions")(embedding(target_ids))
    logits = embedding(decoder(dropout(x), memory), reverse=True)
    return keras.Model({"regions": regions, "target_ids": target_ids}, logits, name=name)
