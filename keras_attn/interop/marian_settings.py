"""Settings of Marian translators: their `config.json`, read and written."""

from __future__ import annotations

import dataclasses
from typing import Any

from keras_attn.interop.activations import checked_activation, theirs_of
from keras_attn.models import TransformerEncoderDecoderConfig

KINDS = ("marian",)
"""The kinds of models that are read here."""
# Our settings, theirs and what theirs are if they are not in the file.
_SETTINGS: dict[str, tuple[str, Any]] = {
    "source_vocabulary_size": ("vocab_size", 58101),
    "dim": ("d_model", 1024),
    "num_layers": ("encoder_layers", 12),
    "num_decoder_layers": ("decoder_layers", 12),
    "num_heads": ("encoder_attention_heads", 16),
    "intermediate_dim": ("encoder_ffn_dim", 4096),
    "activation": ("activation_function", "gelu"),
    "dropout": ("dropout", 0.1),
    "attention_dropout": ("attention_dropout", 0.0),
    "scale_embeddings": ("scale_embedding", False),
    "pad_id": ("pad_token_id", 58100),
    "tied_output": ("tie_word_embeddings", True),
}
_EQUAL = {
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
}
"""Settings of the decoder that must be those of the encoder."""
_FIXED: dict[str, Any] = {
    "positions": "sinusoidal_halves", "normalize_first": False, "normalization": "layer_norm",
    "gated": False, "use_bias": True, "layer_norm_epsilon": 1e-5,
}  # fmt: skip
# Settings that change what a model computes, with the values that are computed here.
_ONLY: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True, None),
    "is_decoder": (False, None),
    "normalize_before": (False, None),
    "normalize_embedding": (False, None),
    "add_final_layer_norm": (False, None),
    "static_position_embeddings": (True, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}


def read_marian_config(settings: dict[str, Any], where: str) -> TransformerEncoderDecoderConfig:
    """Reads the settings of a Marian model from its parsed `config.json`."""
    for name, supported in _ONLY.items():
        if name in settings and settings[name] not in supported:
            raise ValueError(
                f"{where}: `{name}` must be {supported[0]!r}. Received: {settings[name]!r}. Such "
                "models cannot be loaded."
            )
    given = {theirs: settings.get(theirs, default) for theirs, default in _SETTINGS.values()}
    for name, other in _EQUAL.items():
        if settings.get(name, given[other]) != given[other]:
            raise ValueError(
                f"{where}: `{name}` must equal `{other}`. Received: {settings[name]!r} and "
                f"{given[other]!r}. Such models cannot be loaded."
            )
    found = {ours: given[theirs] for ours, (theirs, _) in _SETTINGS.items()}
    found["activation"] = checked_activation(found["activation"], f"{where}: `activation_function`")
    for name in ("dropout", "attention_dropout"):
        if type(found[name]) is int:
            found[name] = float(found[name])
    start = settings.get("decoder_start_token_id", found["pad_id"])
    if settings.get("share_encoder_decoder_embeddings", True) is not True:
        size = settings.get("decoder_vocab_size") or given["vocab_size"]
        found["target_vocabulary_size"] = size
    found |= {"starts_with_padding": start == found["pad_id"], "output_bias": True, **_FIXED}
    try:
        config = TransformerEncoderDecoderConfig(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error
    most = min(config.source_vocabulary_size, target_size(config))
    ids = {"pad_token_id": config.pad_id, "decoder_start_token_id": start}
    for name, value in {**ids, "eos_token_id": settings.get("eos_token_id", 0)}.items():
        if type(value) is not int or not 0 <= value < most:
            raise ValueError(
                f"{where}: `{name}` must be an id of the vocabulary, 0 to {most - 1}. Received: "
                f"{value!r}."
            )
    if config.num_decoder_layers == config.num_layers:
        config = dataclasses.replace(config, num_decoder_layers=None)
    return config


def marian_config_file(
    config: TransformerEncoderDecoderConfig, start_id: int | None = None, end_id: int = 0
) -> dict[str, Any]:
    """Returns the contents of the `config.json` of a Marian model."""
    wrong = [
        f"{name}={getattr(config, name)!r}, not {value!r}"
        for name, value in _FIXED.items()
        if getattr(config, name) != value
    ]
    if wrong:
        raise ValueError(
            "transformers has no class for this encoder-decoder. Received: a model that "
            f"differs from Marian, with {'; '.join(wrong)}."
        )
    values = {theirs: getattr(config, ours) for ours, (theirs, _) in _SETTINGS.items()}
    if start_id is None and not config.starts_with_padding:
        raise ValueError(
            "A model whose start token differs from padding needs its tokenizer, for the id of "
            "the start token. Received: no tokenizer."
        )
    values["decoder_layers"] = config.num_decoder_layers or config.num_layers
    values |= {name: values[other] for name, other in _EQUAL.items()}
    start = config.pad_id if start_id is None else start_id
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        **values,
        "activation_function": theirs_of(config.activation),
        "share_encoder_decoder_embeddings": config.target_vocabulary_size is None,
        "decoder_vocab_size": target_size(config),
        "max_position_embeddings": 512,
        "is_encoder_decoder": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "bos_token_id": None,
        "eos_token_id": end_id,
        "forced_eos_token_id": end_id,
        "decoder_start_token_id": start,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def target_size(config: TransformerEncoderDecoderConfig) -> int:
    """Returns the size of the vocabulary of the targets."""
    return config.target_vocabulary_size or config.source_vocabulary_size
