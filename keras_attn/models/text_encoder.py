"""Base class of the settings of text encoders."""

from __future__ import annotations

from typing import ClassVar

import keras

from keras_attn.hints import DType, Tensor
from keras_attn.models.roles import ENCODERS
from keras_attn.settings import Settings

Layers = dict[str, keras.layers.Layer]


class TextEncoderConfig(Settings):
    """Base class of the settings of text encoders, to which tasks add heads.

    A subclass is a dataclass with the settings `vocabulary_size`, `dim`, `num_layers`, `dropout`,
    `layer_norm_epsilon`, `sequence_length`, `num_segments` and `pooler_activation`. It implements
    `layers`, which returns the layers, including `embedding` and `encoder`; `encode`, which calls
    them; and `initializer_range` and `head_activation`, which heads use.

    Example:

    >>> from keras_attn.models import BertConfig
    >>> sorted(BertConfig(50, num_segments=None).inputs())
    ['padding_mask', 'token_ids']
    """

    vocabulary_size: int
    dim: int
    dropout: float
    layer_norm_epsilon: float
    num_segments: int | None
    pooler_activation: str | None

    # What some encoders have otherwise.
    first_position: int | None = None
    """Position of the first unmasked token; None counts from the left."""
    ends_between = 1
    """Number of end tokens between two texts."""
    head_bias = True
    """Whether the hidden layer and the norm of the head for masked words have biases."""
    reads_words: ClassVar[bool] = False
    """Whether the embedding can be initialized with word vectors."""

    @property
    def head_activation(self) -> str:
        """Activation of the head for masked words."""
        raise NotImplementedError

    @property
    def initializer_range(self) -> float:
        """Standard deviation of new weights."""
        raise NotImplementedError

    @property
    def reads_segments(self) -> bool:
        """Whether there is an input for segments."""
        return self.num_segments is not None and self.num_segments > 1

    def layers(self, dtype: DType = None, output_bias: bool = False) -> list[keras.layers.Layer]:
        """Creates the layers of the encoder; a subclass implements it.

        `build`, `with_heads` and `sentence_encoder` call this method.

        Args:
            dtype: Dtype or policy of the layers.
            output_bias: Whether the embedding has a bias for logits.

        Returns:
            A list of the layers, including `embedding` and `encoder`.
        """
        raise NotImplementedError

    @staticmethod
    def encode(layers: Layers, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Calls the layers on the inputs of the encoder; a subclass implements it.

        `build`, `with_heads` and `sentence_encoder` call this method.

        Args:
            layers: The layers, keyed by name.
            inputs: `token_ids`, `segment_ids` (if there are several segments) and `padding_mask`,
                `(B, T)`.

        Returns:
            A dict with `sequence` `(B, T, D)` and, if there is a pooler, `pooled` `(B, D)`.
        """
        raise NotImplementedError

    @staticmethod
    def token_states(layers: Layers, sequence: Tensor) -> Tensor:
        """Returns the states that heads for tags and spans read; called by `with_heads`.

        Args:
            layers: The layers, keyed by name.
            sequence: The states of the encoder, `(B, T, D)`.

        Returns:
            States `(B, T, D)`: `sequence` itself, unless a subclass transforms it.
        """
        return sequence

    def inputs(self) -> dict[str, Tensor]:
        """Creates the symbolic inputs of the encoder.

        Returns:
            A dict of `token_ids` (int32), `padding_mask` (bool) and, if there are several segments,
            `segment_ids` (int32), each `(B, T)`.
        """
        kinds = {"token_ids": "int32", "segment_ids": "int32", "padding_mask": "bool"}
        if not self.reads_segments:
            del kinds["segment_ids"]
        return {n: keras.Input((None,), dtype=kind, name=n) for n, kind in kinds.items()}

    def build(self, dtype: DType = None, name: str | None = None) -> keras.Model:
        """Builds the Keras model of the encoder that these settings describe, with random weights.

        Args:
            dtype: Dtype or policy of the layers, such as `"mixed_bfloat16"`.
            name: Name of the model; the name of its kind if None, such as `"bert"`.

        Returns:
            A functional model from `{"token_ids", "segment_ids", "padding_mask"}`, each `(B, T)`,
            to `{"sequence": (B, T, D), "pooled": (B, D)}`. Models without segments or pooler lack
            these entries.
        """
        inputs = self.inputs()
        layers = {layer.name: layer for layer in self.layers(dtype)}
        name = name or ENCODERS.name_of(self)
        return keras.Model(inputs, self.encode(layers, inputs), name=name)
