"""What the text classifiers share."""

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.layers import (
    AttentionPooling,
    Dropout,
    FinalStatesPooling,
    FirstTokenPooling,
    MaskedAveragePooling,
    MaskedMaxPooling,
    TokenEmbedding,
)
from keras_attn.layers.masked_layer import check_positive, check_rate

Tensor = Any

POOLINGS = {
    "attention": AttentionPooling,
    "average": MaskedAveragePooling,
    "max": MaskedMaxPooling,
    "first": FirstTokenPooling,
    "last": FinalStatesPooling,
}


def check_classifier(config: Any, choices: dict[str, tuple], counts: tuple[str, ...]) -> None:
    """Raises a ValueError for settings that are unknown, or out of range."""
    kind = type(config).__name__
    for name, known in choices.items():
        if getattr(config, name) not in known:
            raise ValueError(
                f"`{name}` of {kind} must be one of {list(known)}. "
                f"Received: {getattr(config, name)!r}."
            )
    counts = ("vocabulary_size", "num_classes", "dim", *counts)
    given = {name: getattr(config, name) for name in counts}
    check_positive(kind, **{name: value for name, value in given.items() if value is not None})
    rates = [name for name in vars(config) if name.endswith("dropout")]
    check_rate(kind, **{name: getattr(config, name) for name in rates})


def build_classifier(
    layers: list[keras.layers.Layer], embed: Callable, rest: Callable, name: str
) -> keras.Model:
    """Joins `embed(layers, ids)` and `rest(layers, embedded, ids)`; both get layers by name."""
    by_name = {layer.name: layer for layer in layers}
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    return keras.Model(ids, rest(by_name, embed(by_name, ids), ids), name=name)


def embed_tokens(layers: dict[str, keras.layers.Layer], ids: Tensor) -> list[Tensor]:
    """The embeddings of the tokens."""
    return [layers["embedding"](ids)]


def make_embedding(vocabulary_size: int, dim: int, dtype: Any, **settings: Any) -> TokenEmbedding:
    """Makes the layer `embedding`. Masks are explicit here, as they are made of ids once."""
    settings = {"name": "embedding", **settings}
    return TokenEmbedding(vocabulary_size, dim, mask_zero=False, dtype=dtype, **settings)


def make_word_dropout(rate: float, dtype: Any, prefix: str = "") -> list[keras.layers.Layer]:
    """Makes the layer `word_dropout`, if there is to be one: it takes whole embeddings."""
    if not rate:
        return []
    shape, name = (None, None, 1), f"{prefix}word_dropout"
    return [keras.layers.Dropout(rate, shape, dtype=dtype, name=name)]


def drop_words(layers: dict[str, keras.layers.Layer], x: Tensor, prefix: str = "") -> Tensor:
    """Applies it, if there is one."""
    name = f"{prefix}word_dropout"
    return layers[name](x) if name in layers else x


def make_pooling(kind: str, units: int | None, dtype: Any) -> keras.layers.Layer:
    """Makes the layer `pooling`; `units` are those of an attention."""
    settings = {"units": units} if kind == "attention" else {}
    return POOLINGS[kind](**settings, dtype=dtype, name="pooling")


def make_head(num_classes: int, dropout: float, dtype: Any) -> list[keras.layers.Layer]:
    """Makes the layers `head_dropout` and `head`: logits `(B, C)` of vectors `(B, D)`."""
    return [
        Dropout(dropout, dtype=dtype, name="head_dropout"),
        keras.layers.Dense(num_classes, dtype=dtype, name="head"),
    ]


def classify(layers: dict[str, keras.layers.Layer], x: Tensor) -> Tensor:
    """Applies the head."""
    return layers["head"](layers["head_dropout"](x))
