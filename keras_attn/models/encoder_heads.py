"""Heads on an encoder of texts: masked words, next sentences, classes, tags and spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import keras
from keras import ops

from keras_attn.hints import DType, Tensor
from keras_attn.layers import Dropout, LayerNormalization
from keras_attn.layers.activations import activation
from keras_attn.models.text_encoder import TextEncoderConfig

HEADS = ("masked_words", "next_sentence", "classes", "tags", "spans")
"""The names of the heads."""
_POOLED = ("next_sentence", "classes")


def with_heads(
    config: TextEncoderConfig,
    heads: tuple[str, ...],
    num_classes: int | None = None,
    at_positions: bool = False,
    dtype: DType = None,
    name: str = "encoder_with_heads",
) -> keras.Model:
    """Builds a text encoder with heads.

        masked_words   norm(activation(x W + b)) E^T + c        (B, T, V), E the table of the tokens
        next_sentence  pooled W + b                             (B, 2), 0 for "follows"
        classes        dropout(pooled) W + b                    (B, C)
        tags           dropout(x) W + b                         (B, T, C)
        spans          x W + b                                  (B, T, 2), first and last token

    x and `pooled` are the encoder's outputs `sequence` and `pooled`; each head has its own weights
    W, b and c. All outputs are logits. The heads are BERT's (Devlin et al., 2019). For ModernBERT,
    the first layer of `masked_words` has no bias b, and `tags` and `spans` read
    `config.token_states(layers, x)` in place of x.

    Args:
        config: Settings of an encoder, such as a `BertConfig`.
        heads: Names of heads, from `HEADS`.
        num_classes: Number C of classes, for the heads `"classes"` and `"tags"`.
        at_positions: Whether `masked_words` are computed only at given positions. The model then
            has an input `masked_positions` `(B, M)`, and these logits are `(B, M, V)`.
        dtype: Dtype or policy of the layers.
        name: Name of the model.

    Returns:
        A functional model from the inputs of the encoder to a dict of the logits of each head.

    Raises:
        ValueError: If there are no heads, if a head is unknown, is given twice, or needs a pooler
            that the encoder lacks, or if `num_classes` is missing or not used.

    Example:

    >>> config = BertConfig(50, dim=16, num_layers=1, num_heads=2, intermediate_dim=32)
    >>> model = with_heads(config, ("masked_words", "next_sentence"))
    >>> ids = keras.ops.array([[2, 9, 3, 0]])
    >>> found = model({"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids != 0})
    >>> {name: tuple(x.shape) for name, x in found.items()}
    {'masked_words': (1, 4, 50), 'next_sentence': (1, 2)}
    """
    heads = tuple(heads)
    _check(config, heads, num_classes)
    inputs = config.inputs()
    layers = {layer.name: layer for layer in config.layers(dtype, "masked_words" in heads)}
    layers.update({layer.name: layer for layer in head_layers(config, heads, num_classes, dtype)})
    states = config.encode(layers, inputs)
    if at_positions:
        inputs["masked_positions"] = keras.Input((None,), dtype="int32", name="masked_positions")
    found = {}
    for head in heads:
        x = states["pooled" if head in _POOLED else "sequence"]
        if head == "masked_words":
            if at_positions:
                x = ops.take_along_axis(x, inputs["masked_positions"][..., None], axis=1)
            x = layers["masked_words_norm"](layers["masked_words"](x))
            found[head] = layers["embedding"](x, reverse=True)
        else:
            x = config.token_states(layers, x) if head in ("tags", "spans") else x
            x = layers["head_dropout"](x) if head in ("classes", "tags") else x
            found[head] = layers[head](x)
    return keras.Model(inputs, found, name=name)


def head_layers(
    config: TextEncoderConfig,
    heads: tuple[str, ...],
    num_classes: int | None = None,
    dtype: DType = None,
) -> list[keras.layers.Layer]:
    """Creates the layers of the given heads."""

    def dense(
        units: int,
        name: str,
        function: Callable[[Tensor], Tensor] | None = None,
        use_bias: bool = True,
    ) -> keras.layers.Layer:
        return keras.layers.Dense(
            units,
            activation=function,
            use_bias=use_bias,
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=config.initializer_range),
            dtype=dtype,
            name=name,
        )

    layers = []
    if "masked_words" in heads:
        norm = LayerNormalization(
            epsilon=config.layer_norm_epsilon,
            center=config.head_bias,
            dtype=dtype,
            name="masked_words_norm",
        )
        function = activation(config.head_activation)
        layers += [dense(config.dim, "masked_words", function, config.head_bias), norm]
    if {"classes", "tags"} & set(heads):
        layers.append(Dropout(config.dropout, dtype=dtype, name="head_dropout"))
    sizes = {"next_sentence": 2, "classes": num_classes, "tags": num_classes, "spans": 2}
    layers += [dense(cast(int, sizes[head]), head) for head in heads if head in sizes]
    return layers


def _check(config: TextEncoderConfig, heads: tuple[str, ...], num_classes: int | None) -> None:
    unknown = [head for head in heads if head not in HEADS]
    if unknown or not heads or len(set(heads)) < len(heads):
        raise ValueError(
            f"`heads` must be names from {list(HEADS)}, each at most once. Received: {list(heads)}."
        )
    if config.pooler_activation is None and set(heads) & set(_POOLED):
        raise ValueError(
            f"The heads {list(_POOLED)} require a pooler. Received: heads={list(heads)} for "
            "an encoder with pooler_activation=None."
        )
    needed = {"classes", "tags"} & set(heads)
    if bool(needed) != (num_classes is not None):
        raise ValueError(
            "`num_classes` must be given with the head 'classes' or 'tags', and only then. "
            f"Received: num_classes={num_classes} with heads={list(heads)}."
        )
