"""The `config.json` of BERT, DistilBERT, RoBERTa and ModernBERT, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_attn.interop.activations import checked_activation, theirs_of
from keras_attn.interop.modern_bert_settings import KIND as MODERN_BERT
from keras_attn.interop.modern_bert_settings import (
    read_modern_bert_settings,
    their_settings,
)
from keras_attn.models import BertConfig, ModernBertConfig, RobertaConfig

DISTILBERT_EPSILON = 1e-12
"""Epsilon of the norms of DistilBERT, which is not a setting there."""
ROBERTA_PAD = 1
"""Id of padding of a RoBERTa whose settings do not say it."""
# Our settings, theirs and what theirs are if they are not in the file.
_SETTINGS = {
    "bert": {
        "vocabulary_size": ("vocab_size", 30522),
        "dim": ("hidden_size", 768),
        "num_layers": ("num_hidden_layers", 12),
        "num_heads": ("num_attention_heads", 12),
        "intermediate_dim": ("intermediate_size", 3072),
        "activation": ("hidden_act", "gelu"),
        "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
        "layer_norm_epsilon": ("layer_norm_eps", 1e-12),
        "sequence_length": ("max_position_embeddings", 512),
        "num_segments": ("type_vocab_size", 2),
    },
    "distilbert": {
        "vocabulary_size": ("vocab_size", 30522),
        "dim": ("dim", 768),
        "num_layers": ("n_layers", 6),
        "num_heads": ("n_heads", 12),
        "intermediate_dim": ("hidden_dim", 3072),
        "activation": ("activation", "gelu"),
        "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.1),
        "sequence_length": ("max_position_embeddings", 512),
    },
}
_SETTINGS["roberta"] = {**_SETTINGS["bert"], "vocabulary_size": ("vocab_size", 50265)}
_SETTINGS[MODERN_BERT] = {
    "vocabulary_size": ("vocab_size", 50368),
    "dim": ("hidden_size", 768),
    "num_layers": ("num_hidden_layers", 22),
    "num_heads": ("num_attention_heads", 12),
    "intermediate_dim": ("intermediate_size", 1152),
    "activation": ("hidden_activation", "gelu"),
    "dropout": ("embedding_dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "layer_norm_epsilon": ("norm_eps", 1e-5),
    "sequence_length": ("max_position_embeddings", 8192),
}
KINDS = tuple(_SETTINGS)
"""The kinds of encoders that can be read."""
# Settings that change what a model computes, with the values that are computed here.
_ONLY = {
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}


def read_bert_config(settings: dict[str, Any], where: str) -> tuple[str, BertConfig]:
    """Reads the kind and the settings of an encoder from its parsed `config.json`."""
    kind = settings.get("model_type", "bert")
    if not isinstance(kind, str) or kind not in _SETTINGS:
        raise ValueError(
            f"{where}: `model_type` must be one of {list(_SETTINGS)}. Received: {kind!r}. Other "
            "models cannot be loaded."
        )
    for name, supported in _ONLY.items():
        if name in settings and settings[name] not in supported:
            raise ValueError(
                f"{where}: `{name}` must be {supported[0]!r}. Received: {settings[name]!r}. Such "
                "models cannot be loaded."
            )
    found = {
        ours: settings.get(theirs, default) for ours, (theirs, default) in _SETTINGS[kind].items()
    }
    name = _SETTINGS[kind]["activation"][0]
    found["activation"] = checked_activation(found["activation"], f"{where}: `{name}`")
    for ours in ("dropout", "attention_dropout", "layer_norm_epsilon"):
        if type(found.get(ours)) is int:
            found[ours] = float(found[ours])
    if kind == "distilbert":
        found |= {"num_segments": None, "layer_norm_epsilon": DISTILBERT_EPSILON}
    elif kind == MODERN_BERT:
        found |= read_modern_bert_settings(settings, where)
    elif found["num_segments"] is None:
        raise ValueError(f"{where}: `type_vocab_size` must be a number. Received: None.")
    made = ModernBertConfig if kind == MODERN_BERT else BertConfig
    if kind == "roberta":
        made, pad = RobertaConfig, settings.get("pad_token_id", ROBERTA_PAD)
        rows = found["sequence_length"]
        if type(pad) is not int or type(rows) is not int or not 0 <= pad < rows - 1:
            raise ValueError(
                f"{where}: `pad_token_id` must be a number from 0 to "
                "`max_position_embeddings` - 2, as positions begin after it. Received: "
                f"{pad!r} and {rows!r}."
            )
        found |= {"first_position": pad + 1, "sequence_length": rows - pad - 1}
    try:
        return kind, made(**found, pooler_activation=None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def encoder_kind(config: BertConfig) -> str:
    """Returns the kind of encoder, such as `"bert"`, to which a config belongs."""
    if isinstance(config, ModernBertConfig):
        return MODERN_BERT
    if isinstance(config, RobertaConfig):
        return "roberta"
    return "distilbert" if config.num_segments is None else "bert"


def bert_config_file(
    config: BertConfig, kind: str, architecture: str, labels: Sequence[str] | None
) -> dict[str, Any]:
    """Returns the contents of the `config.json` of an encoder."""
    values = {theirs: getattr(config, ours) for ours, (theirs, _) in _SETTINGS[kind].items()}
    values[_SETTINGS[kind]["activation"][0]] = theirs_of(config.activation)
    if kind == "distilbert":  # the dropout of its heads
        values |= {"seq_classif_dropout": config.dropout, "qa_dropout": 0.0}
    pad = 0
    if isinstance(config, ModernBertConfig):
        values |= their_settings(config)
        pad = config.pad_id
    if kind == "roberta" and config.first_position is not None:
        pad = config.first_position - 1
        values["max_position_embeddings"] = config.first_position + config.sequence_length
    if labels is not None:
        values["id2label"] = {str(number): label for number, label in enumerate(labels)}
        values["label2id"] = {label: number for number, label in enumerate(labels)}
    return {
        "architectures": [architecture],
        "model_type": kind,
        **values,
        "pad_token_id": pad,
        "tie_word_embeddings": True,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def read_labels(settings: dict[str, Any], where: str) -> list[str] | None:
    """Reads the names of the classes from a parsed `config.json`; None if there are none."""
    labels = settings.get("id2label")
    if labels is None:
        return None
    numbers = [str(number) for number in range(len(labels))] if isinstance(labels, dict) else []
    if not numbers or set(labels) != set(numbers):
        raise ValueError(
            f"{where}: `id2label` must have the names of the classes under 0, 1, 2 and so on. "
            f"Received: {str(labels)[:80]}."
        )
    return [str(labels[number]) for number in numbers]
