"""Kinds of text classifiers, and their split after the embeddings."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import keras

from keras_attn.hints import Tensor
from keras_attn.layers import MaskedAveragePooling, TokenEmbedding
from keras_attn.models.classifier_parts import TextClassifierConfig
from keras_attn.models.roles import TEXT_CLASSIFIERS
from keras_attn.settings import Choice, Settings


def classifier_config(
    model: Choice | Settings | Mapping[str, Any] | None,
    max_length: int,
    separator_id: int | None = None,
    **sizes: int,
) -> TextClassifierConfig:
    """Returns the settings of a classifier with positions for texts of `max_length` tokens.

    `separator_id` is the id from which some models compute segments; None for single texts.
    """
    config = TEXT_CLASSIFIERS.make(model, **sizes)
    if separator_id is not None and getattr(config, "reads_segments", False):
        config = TEXT_CLASSIFIERS.make(config, separator_id=separator_id)
    if not getattr(config, "has_positions", False):
        return config
    if config.sequence_length is None:
        return TEXT_CLASSIFIERS.make(config, sequence_length=max_length)
    if config.sequence_length < max_length:
        raise ValueError(
            f"`sequence_length` must be at least max_length={max_length}, so that every "
            f"token has a position. Received: {config.sequence_length}. Use "
            f"max_length={config.sequence_length} (--max-length), or a larger "
            "`sequence_length`."
        )
    return config


def known_kind(model: keras.Model) -> str | None:
    """Returns the name of the kind of a classifier, or None for a classifier of your own."""
    layers = {layer.name: layer for layer in getattr(model, "layers", [])}
    first, encoder = layers.get("embedding"), layers.get("encoder")
    if "head" in layers:
        for name, kind in TEXT_CLASSIFIERS.items():
            own = getattr(kind, "encoder", None)  # architectures of others have none
            starts = getattr(kind, "first_layer", TokenEmbedding)
            if own is not None and isinstance(encoder, own) and isinstance(first, starts):
                return name
        bag = isinstance(first, TokenEmbedding) and encoder is None
        if bag and isinstance(layers.get("pooling"), MaskedAveragePooling):
            return "bag"
    return None


def classifier_kind(model: keras.Model) -> str:
    """Returns the name of the kind of a classifier, a key of `TEXT_CLASSIFIERS`.

    Args:
        model: A text classifier of this package; it may have been saved and loaded.

    Returns:
        `"bag"`, `"bert"` (also for RoBERTa and ModernBERT), `"rnn"` or `"transformer"`.

    Raises:
        TypeError: If `model` is not a text classifier of this package.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> classifier_kind(BagClassifierConfig(50, num_classes=2, pair_buckets=0).build())
    'bag'
    """
    kind = known_kind(model)
    if kind is not None:
        return kind
    raise TypeError(
        "Expected a text classifier, a model built by one of "
        f"{[kind.__name__ for kind in TEXT_CLASSIFIERS.values()]}. Received: "
        f"{getattr(model, 'name', model)!r} of type {type(model).__name__}."
    )


def embedding_and_rest(model: keras.Model) -> tuple[Callable[[Tensor], list], Callable]:
    """Splits a classifier after its embeddings, for gradients with respect to them.

        embed(ids)               -> [x] or [x, pairs], vectors (B, S, D) of tokens and (B, S, P)
        rest([*embed(ids), ids]) -> logits (B, C), equal to model(ids)

    Both parts share the layers of the model. A bag classifier with `pair_buckets` has a second
    tensor, in which position s is the pair of the tokens s and s + 1. A functional model of any
    other architecture is split after all layers that embed its ids, with a tensor for each of them.

    Args:
        model: A text classifier; it may have been saved and loaded.

    Returns:
        A tuple `(embed, rest)`: a function, and a functional model that accepts a list of tensors.
        (Keras does not accept lists that mix tensors and arrays.)

    Raises:
        TypeError: If the model is not a functional model with one input, or no layer embeds the ids
            as vectors `(B, S, D)`.

    Example:

    >>> from keras_attn.models import BagClassifierConfig
    >>> model = BagClassifierConfig(50, num_classes=2, pair_buckets=100).build()
    >>> embed, rest = embedding_and_rest(model)
    >>> ids = keras.ops.array([[5, 6, 2, 0]])
    >>> [tuple(x.shape) for x in embed(ids)], tuple(rest([*embed(ids), ids]).shape)
    ([(1, 4, 64), (1, 4, 8)], (1, 2))
    """
    name = known_kind(model)
    if name is None:
        return _cut_behind_vectors(model)
    kind = cast(type[TextClassifierConfig], TEXT_CLASSIFIERS[name])
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


def _cut_behind_vectors(model: keras.Model) -> tuple[Callable[[Tensor], list], Callable]:
    """`embedding_and_rest` of an architecture that the package does not know."""
    # A Sequential model has no `input` before its first call.
    inputs = getattr(model, "inputs", None) or []
    embeddings = _readers(model, inputs[0]) if len(inputs) == 1 else []
    if not embeddings:
        raise TypeError(
            "Expected a functional model with a layer that makes vectors (B, S, D) of the "
            "ids, such as `keras.layers.Embedding` or `TokenEmbedding`. Received: "
            f"{getattr(model, 'name', model)!r} of type {type(model).__name__}, which has no "
            "such layer."
        )
    cut = keras.Model([*(x for _, x in embeddings), *inputs], model.outputs[0], name="rest")
    # The graph computes the masks of `mask_zero` from the ids. Vectors may bring theirs, too.
    cut.supports_masking = True
    return lambda given: [layer(given) for layer, _ in embeddings], cut


def _readers(model: keras.Model, ids: Tensor) -> list[tuple[keras.layers.Layer, Tensor]]:
    """The layers that embed ids in a functional model, with their symbolic outputs."""
    if not isinstance(ids, keras.KerasTensor) or len(ids.shape) != 2 or "int" not in ids.dtype:
        return []
    found = []
    for layer in model.layers:
        for node in layer._inbound_nodes:
            output = node.output_tensors[0]
            reads = len(node.input_tensors) == 1 and node.input_tensors[0] is ids
            is_layer = hasattr(layer, "compute_mask") and node.operation is layer
            if reads and is_layer and len(output.shape) == 3:
                found.append((layer, output))
    return found
