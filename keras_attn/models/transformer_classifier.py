"""A classifier of texts with a Transformer encoder."""

from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import (
    Dropout,
    LearnedPositionalEncoding,
    PositionalEncoding,
    TransformerEncoder,
)
from keras_attn.models.classifier_parts import (
    build_classifier,
    check_classifier,
    classify,
    drop_words,
    embed_tokens,
    make_embedding,
    make_head,
    make_pooling,
    make_word_dropout,
)

Tensor = Any
Layers = dict[str, keras.layers.Layer]

_SEQUENCE_LENGTH = 512  # of BERT


@dataclass(frozen=True)
class TransformerClassifierConfig:
    """Settings of `transformer_classifier`.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        dim: Width D.
        dropout: Dropout of embeddings, sublayers and of the output.
        word_dropout: Share of the tokens that are left out in training.
        attention_dropout: Dropout of the attention weights of the encoder.
        num_layers: Number of blocks.
        num_heads: Number of attention heads.
        intermediate_dim: Width of the hidden layer of the feed-forward networks.
        activation: Activation of the feed-forward networks.
        normalize_first: Pre-norm instead of post-norm.
        positions: `"sinusoidal"`, which have no limit, or `"learned"`.
        sequence_length: Greatest length with learned positions; 512 if None.
        pooling: `"attention"`, `"average"`, `"max"` or `"first"` (a token such as `[CLS]`).
        attention_units: Width of the hidden layer of the attention of the pooling; D if None.

    Raises:
        ValueError: For unknown names, settings out of range, and options that do not apply.

    Example:

    >>> TransformerClassifierConfig(vocabulary_size=8000, num_classes=2).dim
    128
    """

    vocabulary_size: int
    num_classes: int
    dim: int = 128
    dropout: float = 0.1
    word_dropout: float = 0.0
    attention_dropout: float = 0.0
    num_layers: int = 2
    num_heads: int = 4
    intermediate_dim: int = 512
    activation: str = "gelu"
    normalize_first: bool = True
    positions: str = "sinusoidal"
    sequence_length: int | None = None
    pooling: str = "attention"
    attention_units: int | None = None

    def __post_init__(self):
        choices = {
            "positions": ("sinusoidal", "learned"),
            "pooling": ("attention", "average", "max", "first"),
        }
        counts = (
            "num_layers", "num_heads", "intermediate_dim", "sequence_length", "attention_units"
        )  # fmt: skip
        check_classifier(self, choices, counts)
        if self.dim % self.num_heads:
            raise ValueError(
                "`dim` must be divisible by `num_heads`. "
                f"Received: dim={self.dim}, num_heads={self.num_heads}."
            )
        for name, setting, value in (
            ("sequence_length", "positions", "learned"),
            ("attention_units", "pooling", "attention"),
        ):
            if getattr(self, name) is not None and getattr(self, setting) != value:
                raise ValueError(
                    f"`{name}` belongs to {setting}={value!r}. Received: "
                    f"{name}={getattr(self, name)} with {setting}={getattr(self, setting)!r}."
                )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def transformer_classifier(
    config: TransformerClassifierConfig, dtype: Any = None, name: str = "transformer_classifier"
) -> keras.Model:
    """Builds a Transformer encoder (Vaswani et al., 2017) that classifies.

        x      = encoder(dropout(positions(embed(ids))))        (B, S, D)
        logits = pool(x) W + b                                  (B, C)

    The pooling is attention with one learned query, an average, a maximum, or the first token, as
    in BERT (Devlin et al., 2019). Padding is id 0.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from ids `(B, S)` to logits `(B, C)`.

    Example:

    >>> config = TransformerClassifierConfig(50, num_classes=3, dim=16, intermediate_dim=32)
    >>> tuple(transformer_classifier(config)(keras.ops.array([[5, 6, 2, 0]])).shape)
    (1, 3)
    """
    if config.positions == "learned":
        length = config.sequence_length or _SEQUENCE_LENGTH
        positions = LearnedPositionalEncoding(length, dtype=dtype, name="positions")
    else:
        positions = PositionalEncoding(dtype=dtype, name="positions")
    layers = [
        make_embedding(config.vocabulary_size, config.dim, dtype),
        *make_word_dropout(config.word_dropout, dtype),
        positions,
        Dropout(config.dropout, dtype=dtype, name="embedding_dropout"),
        TransformerEncoder(
            config.num_layers,
            config.num_heads,
            intermediate_dim=config.intermediate_dim,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation=config.activation,
            normalize_first=config.normalize_first,
            dtype=dtype,
            name="encoder",
        ),
        make_pooling(config.pooling, config.attention_units, dtype),
        *make_head(config.num_classes, config.dropout, dtype),
    ]
    return build_classifier(layers, embed_tokens, rest_of_transformer, name)


def rest_of_transformer(layers: Layers, embedded: list[Tensor], ids: Tensor) -> Tensor:
    """Logits of embeddings."""
    mask = keras.ops.not_equal(ids, 0)
    x = layers["embedding_dropout"](layers["positions"](drop_words(layers, embedded[0])))
    x = layers["encoder"](x, padding_mask=mask)
    return classify(layers, layers["pooling"](x, mask=mask))
