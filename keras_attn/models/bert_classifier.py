"""Text classifier with BERT as its encoder."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.layers import InputEmbedding, TokenSegments, TransformerEncoder
from keras_attn.models.bert import BertConfig, pooler_output
from keras_attn.models.classifier_parts import (
    TextClassifierConfig,
    classify,
    make_head,
    make_pooling,
)
from keras_attn.models.roles import TEXT_CLASSIFIERS
from keras_attn.settings import setting, size

Layers = dict[str, keras.layers.Layer]

_SEQUENCE_LENGTH = 512


@TEXT_CLASSIFIERS.register("bert")
@dataclass(frozen=True)
class BertClassifierConfig(BertConfig, TextClassifierConfig):
    """Settings of a text classifier with BERT as its encoder (Devlin et al., 2019).

        sequence = encoder([CLS] text [SEP])                       (B, T, D)
        sequence = encoder([CLS] text [SEP] second [SEP])          of pairs
        logits   = dropout(pool(sequence)) W + b                   (B, C)

    W and b are the weights of the output layer, and `pool` is the setting `pooling`. The layers
    have the same names as in `BertConfig`, so that the weights of an encoder can be loaded. Padding
    is id 0.

    Args:
        vocabulary_size: Number V of tokens; id 0 is padding.
        num_classes: Number C of classes.
        pooling: How the states are pooled: `"first"` applies a dense layer to the state of the
            first token, `[CLS]` (no dense layer with `pooler_activation=None`); `"average"`,
            `"max"` and `"attention"` pool the states of all tokens, without a dense layer.
        pooled_layers: Number of last blocks whose pooled states are concatenated (the feature-based
            approach of Devlin et al.); not with `pooling="first"`.
        unit_length: Whether the pooled vectors are scaled to length 1, as in many sentence
            encoders.
        sequence_length: Maximum number of tokens of a text; 512 if None.
        separator_id: Id of the separator between the two texts of a pair; tokens after the first
            separator have segment 1. If None, all tokens have segment 0, as in single texts.
        **kwargs: All other arguments of `BertConfig`.

    Raises:
        TypeError: If a setting is unknown or has the wrong type.
        ValueError: If a setting is out of range or not one of its choices, the heads do not
            divide the width, `separator_id` is given with fewer than two segments, or
            `pooled_layers` is above 1 with `pooling="first"` or above `num_layers`.

    Example:

    >>> config = BertClassifierConfig(50, num_classes=3, dim=16, num_heads=2, intermediate_dim=32)
    >>> tuple(config.build()(keras.ops.array([[2, 9, 3, 0]])).shape)
    (1, 3)
    """

    _: KW_ONLY
    # None gets a number of its own in `layers`.
    sequence_length: int | None = size(  # type: ignore[assignment]  # see above
        "largest number of tokens of a text", default=None
    )
    separator_id: int | None = size("id of the token between two texts", default=None)
    pooling: str = setting(
        "first", "how the states are pooled", choices=("first", "average", "max", "attention")
    )
    pooled_layers: int = setting(
        1, "number of the last blocks whose states are pooled, side by side", at_least=1
    )
    unit_length: bool = setting(False, "divide the pooled vectors by their lengths")

    build = TextClassifierConfig.build
    encoder = TransformerEncoder
    first_layer = InputEmbedding
    special_tokens = True
    has_positions = True
    reads_words = False

    def __post_init__(self):
        super().__post_init__()
        if self.separator_id is not None and not self.reads_segments:
            raise ValueError(
                "`separator_id` requires a model with at least two segments. Received: "
                f"separator_id={self.separator_id} with num_segments={self.num_segments}."
            )
        if self.pooled_layers > (1 if self.pooling == "first" else self.num_layers):
            raise ValueError(
                "`pooled_layers` must be at most the number of blocks, and 1 with pooling='first'. "
                f"Received: pooled_layers={self.pooled_layers} with {self.num_layers} blocks and "
                f"pooling={self.pooling!r}."
            )

    def layers(  # type: ignore[override]  # a classifier has no logits of tokens
        self, dtype: DType
    ) -> list[keras.layers.Layer]:
        """Creates the layers of the model.

        Args:
            dtype: Dtype or policy of the layers.

        Returns:
            A list of the layers: `embedding`, `encoder`, `pooler` (with `pooling="first"`, unless
            `pooler_activation` is None), `segments` (with a `separator_id`), `pooling`,
            `unit_length` (if the setting is True), `head_dropout` and `head`.
        """
        if self.sequence_length is None:
            return replace(self, sequence_length=_SEQUENCE_LENGTH).layers(dtype)
        layers = BertConfig.layers(self, dtype)
        if self.pooling != "first":
            layers = [layer for layer in layers if layer.name != "pooler"]
        if self.separator_id is not None:
            layers.append(TokenSegments(self.separator_id, dtype=dtype, name="segments"))
        layers.append(make_pooling(self.pooling, None, dtype))
        if self.unit_length:
            layers.append(keras.layers.UnitNormalization(dtype=dtype, name="unit_length"))
        return [*layers, *make_head(self.num_classes, self.dropout, dtype)]

    @staticmethod
    def embed(layers: Layers, ids: Tensor) -> list[Tensor]:
        """Computes the input of the encoder: the embeddings of ids, summed and normalized.

        Args:
            layers: The layers of the model, keyed by name.
            ids: Ids `(B, S)`.

        Returns:
            A list with one tensor `(B, S, D)`.
        """
        segments = layers["segments"](ids) if "segments" in layers else None
        mask = None if layers["embedding"].first_position is None else _mask(layers, ids)
        return [layers["embedding"](ids, segments, mask=mask)]

    @staticmethod
    def rest(layers: Layers, embedded: list[Tensor], ids: Tensor) -> Tensor:
        """Computes the logits from the embeddings of ids.

        Args:
            layers: The layers of the model, keyed by name.
            embedded: The result of `embed` for the ids.
            ids: Ids `(B, S)`, from which the padding mask is computed.

        Returns:
            The logits `(B, C)`.
        """
        mask = _mask(layers, ids)
        x = layers["encoder"](embedded[0], padding_mask=mask)
        x = layers["pooling"](x, mask=mask)
        x = pooler_output(layers, x)
        return classify(layers, layers["unit_length"](x) if "unit_length" in layers else x)


def _mask(layers: Layers, ids: Tensor) -> Tensor:
    """The padding mask; RoBERTa's padding id is one less than its first position."""
    first, pad_id = layers["embedding"].first_position, layers["embedding"].pad_id
    return keras.ops.not_equal(ids, pad_id if first is None else first - 1)
