"""Decoding with the layers of a language model."""

from __future__ import annotations

from types import UnionType

import keras

from keras_attn.layers import AttentionDecoder, TokenEmbedding, TransformerDecoder
from keras_attn.models.token_decoder import TokenDecoder


def language_decoder(model: keras.Model) -> TokenDecoder:
    """Creates a decoder for searches and sampling from the layers of a language model.

    Args:
        model: A model built by `GptConfig` or `RecurrentLanguageModelConfig`; it may have been
            saved and loaded.

    Returns:
        A `TokenDecoder`, for `sample`, `greedy_search` and `beam_search`.

    Raises:
        ValueError: If the model does not have the layers of a language model.

    Example:

    >>> model = RecurrentLanguageModelConfig(50, dim=8, units=16).build()
    >>> logits, state = language_decoder(model).prefill(keras.ops.array([[1, 5]]))
    >>> tuple(logits.shape)
    (1, 50)
    """
    layers = {layer.name: layer for layer in getattr(model, "layers", [])}
    wanted: dict[str, type | UnionType] = {
        "embedding": TokenEmbedding,
        "decoder": AttentionDecoder | TransformerDecoder,
    }
    missing = [n for n, kind in wanted.items() if not isinstance(layers.get(n), kind)]
    if missing:
        raise ValueError(
            "Expected a model built by `GptConfig` or `RecurrentLanguageModelConfig`. Received: "
            f"{getattr(model, 'name', model)!r} without its layers {missing}. For other models use "
            "`keras_attn.generation.RecomputeDecoder`."
        )
    return TokenDecoder(
        layers["embedding"], layers.get("positions"), layers["decoder"], layers.get("head")
    )
