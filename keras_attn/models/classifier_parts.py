"""Base class and layers of the text classifiers."""

import dataclasses
from typing import Any, ClassVar

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import (
    AttentionPooling,
    Dropout,
    FinalStatesPooling,
    FirstTokenPooling,
    MaskedAveragePooling,
    MaskedMaxPooling,
    TokenEmbedding,
)
from keras_attn.models.roles import TEXT_CLASSIFIERS
from keras_attn.settings import Settings, size

POOLINGS = {
    "attention": AttentionPooling,
    "average": MaskedAveragePooling,
    "max": MaskedMaxPooling,
    "first": FirstTokenPooling,
    "last": FinalStatesPooling,
}


@dataclasses.dataclass(frozen=True)
class TextClassifierConfig(Settings):
    """Base class of the settings of text classifiers.

    A subclass creates the layers. `embed` and `rest` each call a part of the layers, so that
    gradients with respect to the embeddings can be computed.
    """

    vocabulary_size: int = size("number of tokens")
    num_classes: int = size("number of classes")

    encoder: ClassVar[type | None] = None
    """Class of the layer `encoder`. Together with `first_layer`, it identifies a model of this
    kind."""
    first_layer: ClassVar[type] = TokenEmbedding
    """Class of the layer `embedding`."""
    special_tokens: ClassVar[bool] = False
    """Whether the model reads a start token before a text, and an end token after it."""
    has_positions: ClassVar[bool] = False
    """Whether the model has `sequence_length` learned positions."""
    reads_words: ClassVar[bool] = True
    """Whether the embedding can be initialized with word vectors."""
    recurrent: ClassVar[bool] = False
    """Whether the model is recurrent."""

    def layers(self, dtype: DType) -> list[keras.layers.Layer]:
        """Creates the layers of the model, and returns them as a list."""
        raise NotImplementedError

    @staticmethod
    def embed(layers: dict[str, keras.layers.Layer], ids: Tensor) -> list[Tensor]:
        """Returns a list of the embeddings of ids `(B, S)`; `layers` are keyed by name."""
        return [layers["embedding"](ids)]

    @staticmethod
    def rest(layers: dict[str, keras.layers.Layer], embedded: list[Tensor], ids: Tensor) -> Tensor:
        """Computes the logits `(B, C)` from `embedded`, the result of `embed` for the ids."""
        raise NotImplementedError

    def build(self, dtype: DType = None, name: str | None = None) -> keras.Model:
        """Builds the Keras model that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model.

        Returns:
            A functional model from ids `(B, S)`, 0 for padding, to logits `(B, C)`.
        """
        layers = {layer.name: layer for layer in self.layers(dtype)}
        ids = keras.Input((None,), dtype="int32", name="token_ids")
        logits = self.rest(layers, self.embed(layers, ids), ids)
        name = name or f"{TEXT_CLASSIFIERS.name_of(self)}_classifier"
        return keras.Model(ids, logits, name=name)


def check_belongs(config: Settings, name: str, other: str, value: str) -> None:
    """Raises a ValueError if a setting is given that the setting `other` does not allow."""
    if getattr(config, name) is not None and getattr(config, other) != value:
        raise ValueError(
            f"`{name}` is only used with {other}={value!r}. Received: "
            f"{name}={getattr(config, name)} with {other}={getattr(config, other)!r}."
        )


def make_embedding(vocabulary_size: int, dim: int, dtype: DType, **settings: Any) -> TokenEmbedding:
    """Creates the layer `embedding`, without masks: classifiers compute them from the ids."""
    settings = {"name": "embedding", **settings}
    return TokenEmbedding(vocabulary_size, dim, mask_zero=False, dtype=dtype, **settings)


def make_word_dropout(rate: float, dtype: DType, prefix: str = "") -> list[keras.layers.Layer]:
    """Returns a list with the layer `word_dropout`, which drops whole embeddings.

    For a rate of 0, the list is empty.
    """
    if not rate:
        return []
    shape, name = (None, None, 1), f"{prefix}word_dropout"
    return [keras.layers.Dropout(rate, shape, dtype=dtype, name=name)]


def drop_words(layers: dict[str, keras.layers.Layer], x: Tensor, prefix: str = "") -> Tensor:
    """Applies the layer `word_dropout` to embeddings `x` if the model has this layer."""
    name = f"{prefix}word_dropout"
    return layers[name](x) if name in layers else x


def make_pooling(kind: str, units: int | None, dtype: DType) -> keras.layers.Layer:
    """Creates the layer `pooling`; `units` is the hidden width of attention pooling."""
    settings = {"units": units} if kind == "attention" else {}
    return POOLINGS[kind](**settings, dtype=dtype, name="pooling")


def make_head(num_classes: int, dropout: float, dtype: DType) -> list[keras.layers.Layer]:
    """Creates the layers `head_dropout` and `head`, from vectors `(B, D)` to logits `(B, C)`."""
    return [
        Dropout(dropout, dtype=dtype, name="head_dropout"),
        keras.layers.Dense(num_classes, dtype=dtype, name="head"),
    ]


def classify(layers: dict[str, keras.layers.Layer], x: Tensor) -> Tensor:
    """Applies the layers of the head to vectors `(B, D)`, and returns logits `(B, C)`."""
    return layers["head"](layers["head_dropout"](x))
