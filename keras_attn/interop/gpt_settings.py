"""The `config.json` of GPT-2 and Llama, read and written."""

from __future__ import annotations

from typing import Any

from keras_attn.interop.activations import checked_activation, theirs_of
from keras_attn.models import GptConfig

# Our settings, theirs and what theirs are if they are not in the file.
_SETTINGS = {
    "gpt2": {
        "vocabulary_size": ("vocab_size", 50257),
        "dim": ("n_embd", 768),
        "num_layers": ("n_layer", 12),
        "num_heads": ("n_head", 12),
        "intermediate_dim": ("n_inner", None),
        "activation": ("activation_function", "gelu_new"),
        "dropout": ("resid_pdrop", 0.1),
        "attention_dropout": ("attn_pdrop", 0.1),
        "layer_norm_epsilon": ("layer_norm_epsilon", 1e-5),
        "sequence_length": ("n_positions", 1024),
        "tie_embeddings": ("tie_word_embeddings", True),
    },
    "llama": {
        "vocabulary_size": ("vocab_size", 32000),
        "dim": ("hidden_size", 4096),
        "num_layers": ("num_hidden_layers", 32),
        "num_heads": ("num_attention_heads", 32),
        "num_kv_heads": ("num_key_value_heads", None),
        "key_dim": ("head_dim", None),
        "intermediate_dim": ("intermediate_size", 11008),
        "activation": ("hidden_act", "silu"),
        "attention_dropout": ("attention_dropout", 0.0),
        "layer_norm_epsilon": ("rms_norm_eps", 1e-6),
        "use_bias": ("attention_bias", False),
        "sequence_length": ("max_position_embeddings", 2048),
        "tie_embeddings": ("tie_word_embeddings", False),
    },
}
KINDS = tuple(_SETTINGS)
"""The kinds of decoders that can be read."""
# What each kind has always.
_FIXED = {
    "gpt2": {
        "positions": "learned", "normalization": "layer_norm", "gated": False, "use_bias": True,
        "num_kv_heads": None, "key_dim": None,
    },
    "llama": {
        "positions": "rotary", "normalization": "rms_norm", "gated": True, "dropout": 0.0,
    },
}  # fmt: skip
# Settings that change what a model computes, with the values that are computed here.
_ONLY: dict[str, dict[str, tuple[Any, ...]]] = {
    "gpt2": {
        "scale_attn_weights": (True, None),
        "scale_attn_by_inverse_layer_idx": (False, None),
        "add_cross_attention": (False, None),
    },
    "llama": {"sliding_window": (None,), "partial_rotary_factor": (1.0, None)},
}
_ALWAYS: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
_LLAMA3 = {  # their names of what scales rotary positions, and ours
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_position_embeddings": "original_length",
}


def read_gpt_config(settings: dict[str, Any], where: str) -> tuple[str, GptConfig]:
    """Reads the settings of a model from its `config.json`."""
    kind = settings.get("model_type")
    if not isinstance(kind, str) or kind not in _SETTINGS:
        raise ValueError(
            f"{where}: `model_type` must be one of {list(_SETTINGS)}. Received: {kind!r}."
        )
    for name, supported in {**_ALWAYS, **_ONLY[kind]}.items():
        if name in settings and settings[name] not in supported:
            raise ValueError(
                f"{where}: `{name}` must be {supported[0]!r}. Received: {settings[name]!r}. Such "
                "models cannot be loaded."
            )
    found: dict[str, Any] = {
        ours: settings.get(theirs, default) for ours, (theirs, default) in _SETTINGS[kind].items()
    }
    name = _SETTINGS[kind]["activation"][0]
    found["activation"] = checked_activation(found["activation"], f"{where}: `{name}`")
    for ours in ("dropout", "attention_dropout", "layer_norm_epsilon"):
        if type(found.get(ours)) is int:
            found[ours] = float(found[ours])
    found |= _FIXED[kind]
    if kind == "gpt2":
        if found["intermediate_dim"] is None and type(found["dim"]) is int:
            found["intermediate_dim"] = 4 * found["dim"]
    else:
        found |= _rotary(settings, where)
        if settings.get("mlp_bias", False) != found["use_bias"]:
            raise ValueError(
                f"{where}: `mlp_bias` must be as `attention_bias`. Received: "
                f"{settings.get('mlp_bias', False)!r} and {found['use_bias']!r}. Models with biases"
                " in a part of their layers cannot be loaded."
            )
        if _equal_heads(found):
            found["key_dim"] = None
        if found["num_kv_heads"] == found["num_heads"]:
            found["num_kv_heads"] = None
    try:
        return kind, GptConfig(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def gpt_kind(config: GptConfig) -> str:
    """Returns the kind of model that a decoder is in `transformers`."""
    kind = "llama" if config.positions == "rotary" else "gpt2"
    wrong = [
        f"{name}={getattr(config, name)!r}, not {value!r}"
        for name, value in _FIXED[kind].items()
        if name != "dropout" and getattr(config, name) != value
    ]
    if kind == "llama" and config.dim % config.num_heads:
        wrong.append(f"dim={config.dim} that num_heads={config.num_heads} does not divide")
    if wrong:
        raise ValueError(
            f"transformers has no class for this decoder. Received: positions={config.positions!r}"
            f", as {kind} has them, with {'; '.join(wrong)}."
        )
    return kind


def gpt_config_file(
    config: GptConfig, start_id: int | None = None, end_id: int | list[int] | None = None
) -> dict[str, Any]:
    """Returns the `config.json` of a model.

    Example:

    >>> gpt_config_file(GptConfig(50))["activation_function"]
    'gelu_new'
    """
    kind = gpt_kind(config)
    values = {theirs: getattr(config, ours) for ours, (theirs, _) in _SETTINGS[kind].items()}
    values[_SETTINGS[kind]["activation"][0]] = theirs_of(config.activation)
    if kind == "gpt2":
        values["embd_pdrop"] = config.dropout
    else:
        values["mlp_bias"] = config.use_bias
        values["head_dim"] = config.head_width
        values["num_key_value_heads"] = config.num_kv_heads or config.num_heads
        values["rope_theta"] = config.rotary_base
        values["rope_scaling"] = _their_scaling(config)
    return {
        "architectures": ["GPT2LMHeadModel" if kind == "gpt2" else "LlamaForCausalLM"],
        "model_type": kind,
        **values,
        "bos_token_id": start_id,
        "eos_token_id": end_id,
        "pad_token_id": None,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def _equal_heads(found: dict[str, Any]) -> bool:
    sizes = [found[name] for name in ("dim", "num_heads", "key_dim")]
    return all(type(n) is int for n in sizes) and sizes[1] * sizes[2] == sizes[0]


def _rotary(settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Our settings of rotary positions."""
    newer, older = (settings.get(name) or {} for name in ("rope_parameters", "rope_scaling"))
    for name, value in (("rope_parameters", newer), ("rope_scaling", older)):
        if not isinstance(value, dict):
            raise ValueError(f"{where}: `{name}` must be an object. Received: {value!r}.")
    given = {**older, **newer}
    base = given.pop("rope_theta", settings.get("rope_theta", 10000.0))
    kinds = {given.pop(name) for name in ("rope_type", "type") if name in given} or {"default"}
    if given.pop("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(f"{where}: `partial_rotary_factor` must be 1.0. Received another.")
    base = float(base) if type(base) is int else base
    (kind,) = kinds if len(kinds) == 1 else (sorted(map(str, kinds)),)
    if kind == "default":
        return {"rotary_base": base}
    names = {"factor": "factor", **(_LLAMA3 if kind == "llama3" else {})}
    if kind not in ("linear", "llama3") or "factor" not in given or set(given) - set(names):
        raise ValueError(
            f"{where}: `rope_type` must be 'default', 'linear' with a factor, or 'llama3' with a "
            f"factor and {', '.join(_LLAMA3)}. Received: {kind!r} with {given}. Such models cannot "
            "be loaded."
        )
    scaling = {"type": kind, **{names[name]: value for name, value in given.items()}}
    return {"rotary_base": base, "rotary_scaling": scaling}


def _their_scaling(config: GptConfig) -> dict[str, Any] | None:
    if config.rotary_scaling is None:
        return None
    given = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192}
    given = {**given, **config.rotary_scaling}
    scaling = {"rope_type": given["type"], "factor": float(given["factor"])}
    if given["type"] == "llama3":
        scaling |= {theirs: given[ours] for theirs, ours in _LLAMA3.items()}
    return scaling
