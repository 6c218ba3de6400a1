"""Checks that a model matches its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import keras
import numpy as np

from keras_attn.models import BertClassifierConfig, BertConfig, GptConfig, ModernBertConfig
from keras_attn.models.tensors import model_tensors


class _Layered(Protocol):
    """Settings that create the layers of a model."""

    def layers(self) -> list[keras.layers.Layer]:
        """Creates the layers."""


Layered = TypeVar("Layered", bound=_Layered)

# What changes neither the function of a layer nor its training; the axis of a norm is a list
# once it is built.
_FREE = {"axis", "dtype", "trainable", "seed", "output_bias", "rematerialize", "attention_kernel"}


def decoder_tensors(model: keras.Model, config: GptConfig) -> dict[str, np.ndarray]:
    """Returns the weights of a decoder as float32, keyed by the names of `model_tensors`."""
    return checked_tensors(model, config, GptConfig)


def checked_tensors(
    model: keras.Model, config: object, kind: type[Layered]
) -> dict[str, np.ndarray]:
    """Returns the weights of a model as float32, after checking that its layers match `config`."""
    if not isinstance(model, keras.Model) or not isinstance(config, kind):
        raise TypeError(
            f"Expected a Keras model and a `{kind.__name__}`. Received: "
            f"{type(model).__name__} and {type(config).__name__}."
        )
    _check_layers(model, kind.layers(config))
    return {name: np.asarray(a, np.float32) for name, a in model_tensors(model).items()}


def encoder_tensors(model: keras.Model, config: BertConfig) -> dict[str, np.ndarray]:
    """Returns the weights of an encoder as float32, keyed by the names of `with_heads`."""
    if not isinstance(model, keras.Model) or not isinstance(config, BertConfig):
        raise TypeError(
            "Expected a Keras model and a `BertConfig`. Received: "
            f"{type(model).__name__} and {type(config).__name__}."
        )
    kind = ModernBertConfig if isinstance(config, ModernBertConfig) else BertConfig
    _check_layers(model, kind.layers(config), optional=("pooling", "pooler", "pooler_norm"))
    own = {layer.name for layer in model.layers}
    if "pooler" in own and config.pooler_activation is None:
        raise ValueError(
            "`config` has pooler_activation=None, but the model has a pooler. Pass the "
            "settings that the model was built with: `dataclasses.replace(config, "
            "pooler_activation=...)`."
        )
    tensors = {name: np.asarray(a, np.float32) for name, a in model_tensors(model).items()}
    if not isinstance(config, BertClassifierConfig):
        return tensors
    if config.pooling != "first" and kind is BertConfig:
        raise ValueError(
            "BERT's classifier pools the first token. Received: a classifier with "
            f"pooling={config.pooling!r}, which only keras_attn can express."
        )
    return {name.replace("head/", "classes/"): array for name, array in tensors.items()}


def _check_layers(
    model: keras.Model, layers: Sequence[keras.layers.Layer], optional: tuple[str, ...] = ()
) -> None:
    """Refuses a model whose layers have other settings than these."""
    own = {layer.name: layer for layer in model.layers}
    for layer in layers:
        if layer.name not in own and layer.name in optional:
            continue
        theirs = own[layer.name].get_config() if layer.name in own else {}
        if layer.name in own and type(own[layer.name]) is not type(layer):
            raise ValueError(
                f"According to `config`, the layer `{layer.name}` of the model must be a "
                f"{type(layer).__name__}. Received: a {type(own[layer.name]).__name__}."
            )
        for name, value in layer.get_config().items():
            free = name in _FREE or name.endswith("initializer")
            if not free and theirs.get(name) != value:
                raise ValueError(
                    f"According to `config`, the layer `{layer.name}` of the model must have "
                    f"{name}={value!r}. Received: {theirs.get(name)!r}."
                )
