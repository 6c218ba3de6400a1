"""Kinds of text classifiers, and their split behind the embeddings."""

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.layers import MaskedAveragePooling, TokenEmbedding
from keras_attn.models.roles import TEXT_CLASSIFIERS

Tensor = Any


def classifier_kind(model: keras.Model) -> str:
    """Returns the name of the kind of a classifier, a key of `TEXT_CLASSIFIERS`.

    Args:
        model: A model of one of these kinds, or a reloaded one.

    Returns:
        `"bag"`, `"bert"` (of RoBERTa too), `"rnn"` or `"transformer"`.

    Raises:
        TypeError: If it is another model.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> classifier_kind(BagClassifierConfig(50, num_classes=2, pair_buckets=0).build())
    'bag'
    """
    layers = {layer.name: layer for layer in getattr(model, "layers", [])}
    first, encoder = layers.get("embedding"), layers.get("encoder")
    if "head" in layers:
        for name, kind in TEXT_CLASSIFIERS.items():
            known = kind.encoder is not None and isinstance(encoder, kind.encoder)
            if known and isinstance(first, kind.first_layer):
                return name
        bag = isinstance(first, TokenEmbedding) and encoder is None
        if bag and isinstance(layers.get("pooling"), MaskedAveragePooling):
            return "bag"
    raise TypeError(
        "Expected a text classifier, a model built by one of "
        f"{[kind.__name__ for kind in TEXT_CLASSIFIERS.values()]}. Received: "
        f"{getattr(model, 'name', model)!r} of type {type(model).__name__}."
    )


def embedding_and_rest(model: keras.Model) -> tuple[Callable[[Tensor], list], keras.Model]:
    """Splits a classifier behind its embeddings, for gradients with respect to them.

        embed(ids)                  -> [x] or [x, pairs], each (B, S, D)
        rest([*embed(ids), ids])    -> logits, those of model(ids)

    Both share the layers of the model. A bag with `pair_buckets` has a second tensor, whose
    position s is the pair of the tokens s and s + 1.

    Args:
        model: A text classifier, or a reloaded one.

    Returns:
        `(embed, rest)`: a function, and a functional model that takes a list of tensors (Keras
        refuses lists that mix tensors and arrays).

    Raises:
        TypeError: If it is another model.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> model = BagClassifierConfig(50, num_classes=2, pair_buckets=100).build()
    >>> embed, rest = embedding_and_rest(model)
    >>> ids = keras.ops.array([[5, 6, 2, 0]])
    >>> [tuple(x.shape) for x in embed(ids)], tuple(rest([*embed(ids), ids]).shape)
    ([(1, 4, 64), (1, 4, 8)], (1, 2))
    """
    kind = TEXT_CLASSIFIERS[classifier_kind(model)]
    layers = {layer.name: layer for layer in model.layers}
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    embedded = kind.embed(layers, ids)
    inputs = [
        keras.Input(x.shape[1:], dtype=x.dtype, name=f"embedded_{i}")
        for i, x in enumerate(embedded)
    ]
    logits = kind.rest(layers, inputs, ids)
    embeddings = keras.Model(ids, embedded, name="embed")
    rest_model = keras.Model([*inputs, ids], logits, name="rest")
    # Keras returns a single output without its list.
    return lambda ids: keras.tree.flatten(embeddings(ids)), rest_model
