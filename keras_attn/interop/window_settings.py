"""Windows of some layers and their rotary positions, in a `config.json`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_attn.models import GptConfig

FULL, SLIDING = "full_attention", "sliding_attention"
MOST_LAYERS = 4096
"""Maximum number of layers whose windows are computed from a pattern."""


def read_windows(kind: str, settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Reads which layers have a sliding window, and returns the window settings of `GptConfig`."""
    windowed = windowed_layers(settings, lambda layer: _slides(kind, layer, settings), where)
    window = settings.get("sliding_window", 4096)
    off = kind == "qwen3" and not settings.get("use_sliding_window", False)
    if not any(windowed):
        return {}
    if off or type(window) is not int or window < 1:
        raise ValueError(
            f"{where}: layers of the type {SLIDING!r} require a `sliding_window`. Received: "
            f"{window!r}" + (" with use_sliding_window=False." if off else ".")
        )
    return {"sliding_window": window, "window_blocks": None if all(windowed) else windowed}


def windowed_layers(
    settings: dict[str, Any], slides: Callable[[int], bool], where: str
) -> list[bool]:
    """Returns whether each layer has a window, by `layer_types` if given, otherwise by `slides`."""
    number, types = settings.get("num_hidden_layers"), settings.get("layer_types")
    if type(number) is not int or not 0 < number <= MOST_LAYERS:
        raise ValueError(
            f"{where}: `num_hidden_layers` must be a number from 1 to {MOST_LAYERS}. Received: "
            f"{number!r}."
        )
    if types is None:
        types = [SLIDING if slides(i) else FULL for i in range(number)]
    known = isinstance(types, list) and set(map(str, types)) <= {FULL, SLIDING}
    if not known or len(types) != number:
        raise ValueError(
            f"{where}: `layer_types` must be a list of {number} strings, each {FULL!r} or "
            f"{SLIDING!r}. Received: {str(types)[:80]}. Such models cannot be loaded."
        )
    return [name == SLIDING for name in types]


def _slides(kind: str, layer: int, settings: dict[str, Any]) -> bool:
    """Whether a layer has a window if `layer_types` are not in the file."""
    if kind == "qwen3":
        used = settings.get("use_sliding_window", False)
        return bool(used) and layer >= settings.get("max_window_layers", 28)
    if kind == "gemma2":
        return layer % 2 == 0
    names = ("sliding_window_pattern", "_sliding_window_pattern")
    pattern = next((settings[name] for name in names if name in settings), 6)
    return bool((layer + 1) % pattern) if type(pattern) is int and pattern > 0 else True


def rope_of_types(settings: dict[str, Any], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the rotary settings of Gemma 3's layers with full attention and with a window."""
    given = _object(settings, "rope_parameters", where)
    full, local = (_object(given, name, f"{where}: `rope_parameters`") for name in (FULL, SLIDING))
    if not full:
        full = _object(settings, "rope_scaling", where)
    full.setdefault("rope_theta", settings.get("rope_theta", 1e6))
    local.setdefault("rope_theta", settings.get("rope_local_base_freq", 1e4))
    return full, local


def _object(settings: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """A copy of an object in settings; empty if there is none."""
    found = settings.get(name) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{where}: `{name}` must be an object. Received: {str(found)[:80]}.")
    return dict(found)


def their_windows(kind: str, config: GptConfig) -> dict[str, Any]:
    """Returns the window settings of a decoder in the form of its `config.json`."""
    if kind not in ("qwen3", "gemma2", "gemma3_text"):
        return {}
    window = config.sliding_window
    windowed = config.window_blocks or [window is not None] * config.num_layers
    types = [SLIDING if windowed[i] else FULL for i in range(config.num_layers)]
    own = {"use_sliding_window": window is not None} if kind == "qwen3" else {}
    return {**own, "sliding_window": window, "layer_types": types}
