"""Encoder-decoder models by name."""

from typing import Any

import keras

from keras_attn.models.recurrent import RecurrentConfig, recurrent_encoder_decoder
from keras_attn.models.transformer import TransformerConfig, encoder_decoder_transformer

Config = TransformerConfig | RecurrentConfig

ENCODER_DECODERS = {
    "transformer": (TransformerConfig, encoder_decoder_transformer),
    "rnn": (RecurrentConfig, recurrent_encoder_decoder),
}


def encoder_decoder(config: Config, dtype: Any = None) -> keras.Model:
    """Builds the model that a config is of.

    Args:
        config: `TransformerConfig` or `RecurrentConfig`.
        dtype: Dtype or policy of the layers.

    Returns:
        The functional model.

    Raises:
        TypeError: For anything else.

    Example:

    >>> encoder_decoder(RecurrentConfig(50, dim=8, units=16)).name
    'rnn'
    """
    for kind, build in ENCODER_DECODERS.values():
        if isinstance(config, kind):
            return build(config, dtype=dtype)
    kinds = [kind.__name__ for kind, _ in ENCODER_DECODERS.values()]
    raise TypeError(f"`config` must be one of {kinds}. Received: {type(config).__name__}.")


def model_kind(config: Config) -> str:
    """Returns the name of the kind of model that a config is of.

    Args:
        config: The settings.

    Returns:
        `"transformer"` or `"rnn"`.

    Example:

    >>> model_kind(TransformerConfig(50))
    'transformer'
    """
    return next(name for name, (kind, _) in ENCODER_DECODERS.items() if isinstance(config, kind))
