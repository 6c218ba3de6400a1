"""Local attention, rotary positions and heads in the `config.json` of ModernBERT."""

from __future__ import annotations

from typing import Any

from keras_attn.interop.window_settings import FULL, SLIDING, windowed_layers
from keras_attn.models import ModernBertConfig

KIND = "modernbert"
"""The `model_type` of a ModernBERT."""
_POOLINGS = {"cls": "first", "mean": "average"}
_BASES = {FULL: ("global_rope_theta", 160000.0), SLIDING: ("local_rope_theta", 10000.0)}
_ONLY: dict[str, tuple[Any, ...]] = {
    "norm_bias": (False, None),
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "classifier_bias": (False, None),
    "decoder_bias": (True, None),
    "classifier_activation": ("gelu", None),
    "rope_scaling": (None,),
}


def read_modern_bert_settings(settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Reads the settings that only ModernBERT has, and returns them as arguments of the config."""
    for name, supported in _ONLY.items():
        if name in settings and settings[name] not in supported:
            raise ValueError(
                f"{where}: `{name}` must be {supported[0]!r}. Received: {settings[name]!r}. Such "
                "models cannot be loaded."
            )
    pooling = settings.get("classifier_pooling", "cls")
    if not isinstance(pooling, str) or pooling not in _POOLINGS:
        raise ValueError(
            f"{where}: `classifier_pooling` must be one of {list(_POOLINGS)}. Received: "
            f"{pooling!r}."
        )
    pad_id, size = settings.get("pad_token_id", 50283), settings.get("vocab_size", 50368)
    if type(pad_id) is not int or type(size) is not int or not 0 <= pad_id < size:
        raise ValueError(
            f"{where}: `pad_token_id` must be a number from 0 to `vocab_size` - 1. Received: "
            f"{pad_id!r} and {size!r}."
        )
    full, local = (_rotary_base(kind, settings, where) for kind in (FULL, SLIDING))
    found = {"pooling": _POOLINGS[pooling], "pad_id": pad_id, "rotary_base": full}
    windowed = _windowed(settings, where)
    if not any(windowed):
        return {**found, "sliding_window": None, "window_rotary_base": None}
    width = settings.get("local_attention", 128)
    if type(width) is not int or width < 1:
        raise ValueError(
            f"{where}: `local_attention` must be a number of tokens, at least 1. Received: "
            f"{width!r}."
        )
    return {
        **found,
        "sliding_window": width // 2 + 1,  # half of it to each side
        "window_blocks": windowed,
        "window_rotary_base": local,
    }


def their_settings(config: ModernBertConfig) -> dict[str, Any]:
    """Returns the settings that only ModernBERT has, in the form of its `config.json`."""
    block, window = config.block(), config.sliding_window
    windowed = block["window_blocks"] or [False] * config.num_layers
    bases = {FULL: config.rotary_base, SLIDING: config.window_rotary_base or config.rotary_base}
    return {
        "mlp_dropout": config.dropout,
        "classifier_dropout": config.dropout,
        "layer_types": [SLIDING if own else FULL for own in windowed],
        **({} if window is None else {"local_attention": 2 * (window - 1)}),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
        },
        **{name: values[0] for name, values in _ONLY.items() if name != "rope_scaling"},
        "classifier_pooling": {ours: theirs for theirs, ours in _POOLINGS.items()}[config.pooling],
    }


def _windowed(settings: dict[str, Any], where: str) -> list[bool]:
    """Which layers have local attention: by a list, or all but every n-th."""
    every = settings.get("global_attn_every_n_layers", 3)
    if type(every) is not int or every < 1:
        raise ValueError(
            f"{where}: `global_attn_every_n_layers` must be a number of at least 1. Received: "
            f"{every!r}."
        )
    settings = {"num_hidden_layers": 22, **settings}
    return windowed_layers(settings, lambda layer: layer % every > 0, where)


def _rotary_base(kind: str, settings: dict[str, Any], where: str) -> float:
    """The rotary base of one type of layers, which newer files have under `rope_parameters`."""
    older, usual = _BASES[kind]
    every = settings.get("rope_parameters") or {}
    given = (every.get(kind) or {}) if isinstance(every, dict) else None
    if not isinstance(given, dict) or set(every) - set(_BASES):
        raise ValueError(
            f"{where}: `rope_parameters` must be an object with the keys {list(_BASES)}. Received: "
            f"{str(every)[:80]}. Such models cannot be loaded."
        )
    given = dict(given)
    base = given.pop("rope_theta", settings.get(older, usual))
    if given not in ({}, {"rope_type": "default"}):
        raise ValueError(
            f"{where}: `rope_type` of {kind!r} must be 'default'. Received: {given}. Such models "
            "cannot be loaded."
        )
    if type(base) not in (int, float) or not base > 1:
        raise ValueError(f"{where}: `{older}` must be a number above 1. Received: {base!r}.")
    return float(base)
