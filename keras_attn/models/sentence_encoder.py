"""Encoders from texts to vectors, and their training on pairs."""

from __future__ import annotations

import keras
from keras import ops

from keras_attn.arrays import unit_length
from keras_attn.hints import DType
from keras_attn.layers import FirstTokenPooling, MaskedAveragePooling, MaskedMaxPooling
from keras_attn.models.text_encoder import TextEncoderConfig

SENTENCE_POOLINGS = {
    "average": MaskedAveragePooling,
    "first": FirstTokenPooling,
    "max": MaskedMaxPooling,
}
"""The layers that pool the states of a text into one vector, by name."""


def sentence_encoder(
    config: TextEncoderConfig,
    pooling: str = "average",
    dtype: DType = None,
    name: str = "sentence_encoder",
    unit_length: bool = False,
) -> keras.Model:
    """Builds an encoder that returns a vector for each text (Reimers and Gurevych, 2019).

        vectors = pool(encoder(ids))       (B, D), without padding

    Args:
        config: Settings of an encoder, such as a `BertConfig`.
        pooling: How the states are pooled: `"average"` is the mean over all tokens, including
            `[CLS]` and `[SEP]`; `"first"` is the state of the first token; `"max"` is the maximum
            of each feature over all tokens.
        dtype: Dtype or policy of the layers.
        name: Name of the model.
        unit_length: Whether the vectors are scaled to length 1.

    Returns:
        A functional model from the inputs of the encoder to `{"vectors": (B, D)}`.

    Raises:
        ValueError: If the pooling is unknown.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> ids = ops.array([[2, 9, 3, 0]])
    >>> inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    >>> tuple(sentence_encoder(config)(inputs)["vectors"].shape)
    (1, 16)
    """
    if pooling not in SENTENCE_POOLINGS:
        raise ValueError(
            f"`pooling` must be one of {list(SENTENCE_POOLINGS)}. Received: {pooling!r}."
        )
    inputs = config.inputs()
    layers = {layer.name: layer for layer in config.layers(dtype)}
    sequence = config.encode(layers, inputs)["sequence"]
    pool = SENTENCE_POOLINGS[pooling](dtype=dtype, name="pooling")
    vectors = pool(sequence, mask=inputs["padding_mask"])
    if unit_length:
        vectors = keras.layers.UnitNormalization(dtype=dtype, name="unit_length")(vectors)
    return keras.Model(inputs, {"vectors": vectors}, name=name)


def paired_encoder(encoder: keras.Model, each_with_all: bool = False) -> keras.Model:
    """Builds a model that compares pairs of texts, and shares the layers of a text encoder.

        similarity = cosine(vectors(first), vectors(second))       (B,)

    Args:
        encoder: A model built by `sentence_encoder`.
        each_with_all: Whether each first text is compared with all second texts of the batch.

    Returns:
        A functional model from a dict of the inputs of `encoder` for both texts, each `(B, 2, T)`,
        as in `keras_attn.batches.ScoredPairBatches`, to `{"similarity": (B,)}` in float32. With
        `each_with_all=True`, the similarities are `(B, B)`, with a row for each first text.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> ids = ops.array([[[2, 9, 3, 0], [2, 9, 3, 0]]])
    >>> inputs = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0}
    >>> found = paired_encoder(sentence_encoder(config))(inputs)["similarity"]
    >>> round(float(found[0]), 5)
    1.0
    """
    inputs = {
        name: keras.Input((2, None), dtype=x.dtype, name=name) for name, x in encoder.input.items()
    }
    vectors = (
        encoder({name: x[:, side] for name, x in inputs.items()})["vectors"] for side in (0, 1)
    )
    first, second = (unit_length(ops, ops.cast(x, "float32")) for x in vectors)
    if each_with_all:
        similarity = ops.matmul(first, ops.transpose(second))
    else:
        similarity = ops.sum(first * second, axis=-1)
    return keras.Model(inputs, {"similarity": similarity}, name=f"paired_{encoder.name}")
