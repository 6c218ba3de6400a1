"""The `config.json` of GPT-2, Llama, Qwen 3 and Gemma, read and written."""

from __future__ import annotations

from typing import Any

from keras_attn.interop.activations import checked_activation, theirs_of
from keras_attn.interop.window_settings import (
    FULL,
    SLIDING,
    read_windows,
    rope_of_types,
    their_windows,
)
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
_SETTINGS["qwen3"] = {
    **_SETTINGS["llama"],
    "vocabulary_size": ("vocab_size", 151936),
    "key_dim": ("head_dim", 128),
    "num_kv_heads": ("num_key_value_heads", 32),
    "intermediate_dim": ("intermediate_size", 22016),
    "sequence_length": ("max_position_embeddings", 32768),
}
_SETTINGS["gemma2"] = {
    **_SETTINGS["llama"],
    "vocabulary_size": ("vocab_size", 256000),
    "dim": ("hidden_size", 2304),
    "num_layers": ("num_hidden_layers", 26),
    "num_heads": ("num_attention_heads", 8),
    "num_kv_heads": ("num_key_value_heads", 4),
    "key_dim": ("head_dim", 256),
    "intermediate_dim": ("intermediate_size", 9216),
    "activation": ("hidden_activation", "gelu_pytorch_tanh"),
    "sequence_length": ("max_position_embeddings", 8192),
    "tie_embeddings": ("tie_word_embeddings", True),
    "softcap": ("attn_logit_softcapping", 50.0),
    "logit_softcap": ("final_logit_softcapping", 30.0),
}
_SETTINGS["gemma3_text"] = {
    **_SETTINGS["gemma2"],
    "vocabulary_size": ("vocab_size", 262208),
    "sequence_length": ("max_position_embeddings", 131072),
    "logit_softcap": ("final_logit_softcapping", None),
}
del _SETTINGS["gemma3_text"]["softcap"]
KINDS = tuple(_SETTINGS)
"""The kinds of decoders that can be read."""
_PLAIN = {
    "qk_norm": None, "softcap": None, "logit_softcap": None, "scale": None, "sandwich_norm": False,
    "embedding_scale": False, "sliding_window": None,
}  # fmt: skip
"""What is plain in GPT-2 and Llama."""
# What each kind has always.
_FIXED: dict[str, dict[str, Any]] = {
    "gpt2": {
        **_PLAIN,
        "positions": "learned", "normalization": "layer_norm", "gated": False, "use_bias": True,
        "num_kv_heads": None, "key_dim": None,
    },
    "llama": {
        **_PLAIN,
        "positions": "rotary", "normalization": "rms_norm", "gated": True, "dropout": 0.0,
    },
}  # fmt: skip
_ROTARY = {name: value for name, value in _FIXED["llama"].items() if name != "sliding_window"}
_FIXED["qwen3"] = {**_ROTARY, "qk_norm": "rms_norm", "use_bias": False}
_GEMMA = {"sandwich_norm": True, "embedding_scale": True, "use_bias": False}
_OWN = ("softcap", "logit_softcap", "scale")
_FIXED["gemma2"] = {n: v for n, v in _ROTARY.items() if n not in _OWN} | _GEMMA
_FIXED["gemma3_text"] = {**_FIXED["gemma2"], "qk_norm": "rms_norm", "softcap": None}
# Settings that change what a model computes, with the values that are computed here.
_ONLY: dict[str, dict[str, tuple[Any, ...]]] = {
    "gpt2": {
        "scale_attn_weights": (True, None),
        "scale_attn_by_inverse_layer_idx": (False, None),
        "add_cross_attention": (False, None),
    },
    "llama": {"sliding_window": (None,), "partial_rotary_factor": (1.0, None)},
    "qwen3": {"attention_bias": (False, None)},
}
for _kind in ("gemma2", "gemma3_text"):
    _ONLY[_kind] = {**_ONLY["qwen3"], "use_bidirectional_attention": (False, None)}
_ONLY["gemma3_text"]["attn_logit_softcapping"] = (None,)  # transformers reads and ignores it
_ALWAYS: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
_ARCHITECTURES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}
_LLAMA3 = {  # their names of what scales rotary positions, and ours
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_position_embeddings": "original_length",
}


def read_gpt_config(settings: dict[str, Any], where: str) -> tuple[str, GptConfig]:
    """Reads the kind and the settings of a decoder from its parsed `config.json`."""
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
    for ours in (*_OWN[:2], "dropout", "attention_dropout", "layer_norm_epsilon"):
        if type(found.get(ours)) is int:
            found[ours] = float(found[ours])
    found |= _FIXED[kind]
    if kind == "gpt2":
        if found["intermediate_dim"] is None and type(found["dim"]) is int:
            found["intermediate_dim"] = 4 * found["dim"]
    else:
        found |= _rotary_of_kind(kind, settings, where)
        if kind != "llama":
            found |= read_windows(
                kind, {**settings, "num_hidden_layers": found["num_layers"]}, where
            )
            found |= _scaled(kind, settings, found, where)
        elif settings.get("mlp_bias", False) != found["use_bias"]:
            raise ValueError(
                f"{where}: `mlp_bias` must equal `attention_bias`. Received: "
                f"{settings.get('mlp_bias', False)!r} and {found['use_bias']!r}. Models with "
                "biases in only some of their layers cannot be loaded."
            )
        if _equal_heads(found):
            found["key_dim"] = None
        if found["num_kv_heads"] == found["num_heads"]:
            found["num_kv_heads"] = None
    try:
        return kind, GptConfig(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _rotary_of_kind(kind: str, settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Our settings of rotary positions, which Gemma 3 has by the type of a layer."""
    if kind != "gemma3_text":
        return _rotary(settings, where)
    full, local = (_rotary({"rope_parameters": x}, where) for x in rope_of_types(settings, where))
    if "rotary_scaling" in local:
        raise ValueError(
            f"{where}: rotary positions of layers with a window must not be scaled. Received: "
            f"{local['rotary_scaling']}. Such models cannot be loaded."
        )
    return {**full, "window_rotary_base": local["rotary_base"]}


def _scaled(
    kind: str, settings: dict[str, Any], found: dict[str, Any], where: str
) -> dict[str, Any]:
    """The factor of Gemma's scores, and the rotary base of the layers that there are."""
    result: dict[str, Any] = {}
    if kind != "qwen3":
        scalar = settings.get("query_pre_attn_scalar", 256)
        if type(scalar) is not int or scalar < 1:
            raise ValueError(
                f"{where}: `query_pre_attn_scalar` must be an integer of at least 1. Received: "
                f"{scalar!r}."
            )
        result["scale"] = scalar**-0.5
    local = found.get("window_rotary_base")
    if local is not None and found.get("window_blocks") is None:  # all have a window, or none has
        result["window_rotary_base"] = None
        if found.get("sliding_window") is not None:
            result |= {"rotary_base": local, "rotary_scaling": None}
    return result


def gpt_kind(config: GptConfig) -> str:
    """Returns the kind of model, such as `"gpt2"`, that transformers calls a decoder."""
    kind = "llama" if config.positions == "rotary" else "gpt2"
    if kind == "llama" and config.sandwich_norm:
        kind = "gemma2" if config.qk_norm is None else "gemma3_text"
    elif kind == "llama" and config.qk_norm is not None:
        kind = "qwen3"
    wrong = [
        f"{name}={getattr(config, name)!r}, not {value!r}"
        for name, value in _FIXED[kind].items()
        if name != "dropout" and getattr(config, name) != value
    ]
    if kind not in ("gpt2", "qwen3") and config.dim % config.num_heads:
        wrong.append(f"dim={config.dim}, which is not divisible by num_heads={config.num_heads}")
    if kind in ("gemma2", "gemma3_text") and config.scale is None:
        wrong.append("scale=None")
    if kind != "gemma3_text" and config.window_rotary_base is not None:
        wrong.append(f"window_rotary_base={config.window_rotary_base}")
    if wrong:
        raise ValueError(
            "transformers has no class for this decoder. Received: "
            f"positions={config.positions!r}, like {kind}, but with {'; '.join(wrong)}."
        )
    return kind


def gpt_config_file(
    config: GptConfig, start_id: int | None = None, end_id: int | list[int] | None = None
) -> dict[str, Any]:
    """Returns the contents of the `config.json` of a decoder."""
    kind = gpt_kind(config)
    values = {theirs: getattr(config, ours) for ours, (theirs, _) in _SETTINGS[kind].items()}
    values[_SETTINGS[kind]["activation"][0]] = theirs_of(config.activation)
    if kind == "gpt2":
        values["embd_pdrop"] = config.dropout
    else:
        values["head_dim"] = config.head_width
        values["num_key_value_heads"] = config.num_kv_heads or config.num_heads
        values |= _their_rotary(kind, config) | their_windows(kind, config)
        if kind == "llama":
            values["mlp_bias"] = config.use_bias
        elif config.scale is not None:
            values["query_pre_attn_scalar"] = round(config.scale**-2)
    return {
        "architectures": [_ARCHITECTURES[kind]],
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
    kinds = [given.pop(name) for name in ("rope_type", "type") if name in given] or ["default"]
    if given.pop("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(f"{where}: `partial_rotary_factor` must be 1.0. Received: another value.")
    base = float(base) if type(base) is int else base
    kind = kinds[0] if kinds[0] == kinds[-1] else sorted(map(str, kinds))
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


def _their_rotary(kind: str, config: GptConfig) -> dict[str, Any]:
    """Their settings of rotary positions."""
    if kind != "gemma3_text":
        return {"rope_theta": config.rotary_base, "rope_scaling": _their_scaling(config)}
    full = {
        "rope_theta": config.rotary_base,
        **(_their_scaling(config) or {"rope_type": "default"}),
    }
    local = {
        "rope_theta": config.window_rotary_base or config.rotary_base,
        "rope_type": "default",
    }
    return {"rope_parameters": {FULL: full, SLIDING: local}}


def _their_scaling(config: GptConfig) -> dict[str, Any] | None:
    if config.rotary_scaling is None:
        return None
    given = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192}
    given = {**given, **config.rotary_scaling}
    scaling = {"rope_type": given["type"], "factor": float(given["factor"])}
    if given["type"] == "llama3":
        scaling |= {theirs: given[ours] for theirs, ours in _LLAMA3.items()}
    return scaling
