"""The text classifiers by name, and their embeddings apart from the rest."""

from collections.abc import Callable
from typing import Any

import keras

from keras_attn.layers import (
    MaskedAveragePooling,
    RecurrentEncoder,
    TokenEmbedding,
    TransformerEncoder,
)
from keras_attn.models.bag_classifier import (
    BagClassifierConfig,
    bag_classifier,
    embed_bag,
    rest_of_bag,
)
from keras_attn.models.classifier_parts import embed_tokens
from keras_attn.models.recurrent_classifier import (
    RecurrentClassifierConfig,
    recurrent_classifier,
    rest_of_recurrent,
)
from keras_attn.models.transformer_classifier import (
    TransformerClassifierConfig,
    rest_of_transformer,
    transformer_classifier,
)

Tensor = Any
Config = BagClassifierConfig | RecurrentClassifierConfig | TransformerClassifierConfig

TEXT_CLASSIFIERS = {
    "bag": (BagClassifierConfig, bag_classifier),
    "rnn": (RecurrentClassifierConfig, recurrent_classifier),
    "transformer": (TransformerClassifierConfig, transformer_classifier),
}
_OWN_LAYER = {"rnn": RecurrentEncoder, "transformer": TransformerEncoder}
_PARTS = {
    "bag": (embed_bag, rest_of_bag),
    "rnn": (embed_tokens, rest_of_recurrent),
    "transformer": (embed_tokens, rest_of_transformer),
}


def text_classifier(config: Config, dtype: Any = None) -> keras.Model:
    """Builds the classifier that a config is of.

    Args:
        config: `BagClassifierConfig`, `RecurrentClassifierConfig` or `TransformerClassifierConfig`.
        dtype: Dtype or policy of the layers.

    Returns:
        The functional model, from ids `(B, S)`, 0 for padding, to logits `(B, num_classes)`.

    Raises:
        TypeError: For anything else.

    Example:

    >>> text_classifier(BagClassifierConfig(50, num_classes=2)).name
    'bag_classifier'
    """
    for kind, build in TEXT_CLASSIFIERS.values():
        if isinstance(config, kind):
            return build(config, dtype=dtype)
    kinds = [kind.__name__ for kind, _ in TEXT_CLASSIFIERS.values()]
    raise TypeError(f"`config` must be one of {kinds}. Received: {type(config).__name__}.")


def classifier_kind(model: Config | keras.Model) -> str:
    """Returns the name of the kind of classifier: a key of `TEXT_CLASSIFIERS`.

    Args:
        model: The model, reloaded perhaps, or its config.

    Returns:
        `"bag"`, `"rnn"` or `"transformer"`.

    Raises:
        TypeError: For anything else.

    Example:

    >>> classifier_kind(RecurrentClassifierConfig(50, num_classes=2))
    'rnn'
    """
    for name, (kind, _) in TEXT_CLASSIFIERS.items():
        if isinstance(model, kind):
            return name
    layers = {layer.name: layer for layer in getattr(model, "layers", [])}
    if isinstance(layers.get("embedding"), TokenEmbedding) and "head" in layers:
        for name, kind in _OWN_LAYER.items():
            if isinstance(layers.get("encoder"), kind):
                return name
        if isinstance(layers.get("pooling"), MaskedAveragePooling):
            return "bag"
    raise TypeError(
        "Expected a model of `text_classifier`, or its config. Received: "
        f"{getattr(model, 'name', model)!r} of type {type(model).__name__}."
    )


def embedding_and_rest(model: keras.Model) -> tuple[Callable[[Tensor], list], keras.Model]:
    """Splits a classifier behind its embeddings, for gradients with respect to them.

        embed(ids)                  -> [x] or [x, pairs], each (B, S, D)
        rest([*embed(ids), ids])    -> logits, those of model(ids)

    The layers are shared: what is trained in one is trained in all. The second tensor is that of a
    bag with `pair_buckets`: its position s is the pair of the tokens s and s + 1.

    Args:
        model: What `text_classifier` returned, or a reloaded one.

    Returns:
        `(embed, rest)`: a function, and a functional model that takes a list of tensors (Keras
        refuses lists of tensors and arrays).

    Raises:
        TypeError: For another model.

    Example:

    >>> model = text_classifier(BagClassifierConfig(50, num_classes=2, pair_buckets=100))
    >>> embed, rest = embedding_and_rest(model)
    >>> ids = keras.ops.array([[5, 6, 2, 0]])
    >>> [tuple(x.shape) for x in embed(ids)], tuple(rest([*embed(ids), ids]).shape)
    ([(1, 4, 64), (1, 4, 8)], (1, 2))
    """
    embed, rest = _PARTS[classifier_kind(model)]
    layers = {layer.name: layer for layer in model.layers}
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    embedded = embed(layers, ids)
    inputs = [
        keras.Input(x.shape[1:], dtype=x.dtype, name=f"embedded_{i}")
        for i, x in enumerate(embedded)
    ]
    logits = rest(layers, inputs, ids)
    embeddings = keras.Model(ids, embedded, name="embed")
    rest_model = keras.Model([*inputs, ids], logits, name="rest")
    # Keras gives one output without its list.
    return lambda ids: keras.tree.flatten(embeddings(ids)), rest_model
