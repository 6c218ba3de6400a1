"""A recurrent classifier of texts with attention."""

from dataclasses import asdict, dataclass
from typing import Any

import keras

from keras_attn.layers import RecurrentEncoder
from keras_attn.layers.recurrent_cells import CELLS
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


@dataclass(frozen=True)
class RecurrentClassifierConfig:
    """Settings of `recurrent_classifier`.

    Args:
        vocabulary_size: Number of tokens; id 0 is padding.
        num_classes: Number C of classes.
        dim: Width of the embeddings.
        dropout: Dropout of whole channels of the embeddings, between layers and of the output.
        word_dropout: Share of the tokens that are left out in training.
        recurrent_dropout: Dropout of the states, one mask for all steps.
        cell: `"lstm"` or `"gru"`.
        num_layers: Number of layers.
        units: Width of the states, half of it for each direction: an even number.
        pooling: `"attention"`, `"average"`, `"max"` or `"last"` (the final states).
        attention_units: Width of the hidden layer of the attention; `units` if None.

    Raises:
        ValueError: For unknown names, odd units, and options that do not apply.

    Example:

    >>> RecurrentClassifierConfig(vocabulary_size=8000, num_classes=2).units
    128
    """

    vocabulary_size: int
    num_classes: int
    dim: int = 128
    dropout: float = 0.3
    word_dropout: float = 0.0
    recurrent_dropout: float = 0.0
    cell: str = "lstm"
    num_layers: int = 1
    units: int = 128
    pooling: str = "attention"
    attention_units: int | None = None

    def __post_init__(self):
        choices = {"cell": tuple(CELLS), "pooling": ("attention", "average", "max", "last")}
        check_classifier(self, choices, ("num_layers", "units", "attention_units"))
        if self.units % 2:
            raise ValueError(
                f"`units` must be even: the encoder has two directions. Received: {self.units}."
            )
        if self.attention_units is not None and self.pooling != "attention":
            raise ValueError(
                "`attention_units` belongs to pooling='attention'. Received: "
                f"attention_units={self.attention_units} with pooling={self.pooling!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as a JSON-safe dict."""
        return asdict(self)


def recurrent_classifier(
    config: RecurrentClassifierConfig, dtype: Any = None, name: str = "recurrent_classifier"
) -> keras.Model:
    """Builds a bidirectional recurrent classifier with attention over its states.

        x      = encoder(dropout(embed(ids)))           (B, S, U)
        logits = attend(x) W + b                        (B, C)

    It is one level of the hierarchical attention network of Yang et al., 2016. Dropout of whole
    channels of the embeddings is that of Gal and Ghahramani, 2016. Padding is id 0.

    Args:
        config: The settings.
        dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
        name: Name of the model.

    Returns:
        A functional model from ids `(B, S)` to logits `(B, C)`.

    Example:

    >>> model = recurrent_classifier(RecurrentClassifierConfig(50, num_classes=3, dim=8, units=16))
    >>> tuple(model(keras.ops.array([[5, 6, 2, 0]])).shape)
    (1, 3)
    """
    layers = [
        make_embedding(config.vocabulary_size, config.dim, dtype),
        *make_word_dropout(config.word_dropout, dtype),
        keras.layers.SpatialDropout1D(config.dropout, dtype=dtype, name="embedding_dropout"),
        RecurrentEncoder(
            config.units // 2,
            num_layers=config.num_layers,
            cell=config.cell,
            dropout=config.dropout,
            recurrent_dropout=config.recurrent_dropout,
            dtype=dtype,
            name="encoder",
        ),
        make_pooling(config.pooling, config.attention_units, dtype),
        *make_head(config.num_classes, config.dropout, dtype),
    ]
    return build_classifier(layers, embed_tokens, rest_of_recurrent, name)


def rest_of_recurrent(layers: Layers, embedded: list[Tensor], ids: Tensor) -> Tensor:
    """Logits of embeddings."""
    mask = keras.ops.not_equal(ids, 0)
    x = layers["encoder"](
        layers["embedding_dropout"](drop_words(layers, embedded[0])), padding_mask=mask
    )
    return classify(layers, layers["pooling"](x, mask=mask))
