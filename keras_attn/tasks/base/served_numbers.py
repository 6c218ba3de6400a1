"""Numbers that a SavedModel accepts in its signature `with_settings`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from keras_attn.generation.numbers import columns
from keras_attn.generation.sampling import GREATEST, LEAST
from keras_attn.settings import Settings

WITH_SETTINGS = "with_settings"
"""Name of the signature."""
SAMPLED = {
    "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.2,
}  # fmt: skip
"""Sampling settings for checking an export, in addition to its own."""
_OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
_IN_RANGE = f"at least {LEAST:g} and at most {GREATEST:g}"
_RANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "temperature": (_IN_RANGE, lambda x: (x >= LEAST) & (x <= GREATEST)),
    "top_k": ("at least 0, which keeps all", lambda x: x >= 0),
    "top_p": ("above 0 and at most 1, which keeps all", lambda x: (x > 0) & (x <= 1)),
    "min_p": ("at least 0, which keeps all, and below 1", lambda x: (x >= 0) & (x < 1)),
    "min_length": ("at least 0", lambda x: x >= 0),
    "repetition_penalty": (f"{_IN_RANGE}; 1 means none", lambda x: (x >= LEAST) & (x <= GREATEST)),
    "mutual_information": ("at least 0", lambda x: x >= 0),
}


def own_numbers(use: Settings, tried: Mapping[str, float]) -> dict[str, tuple[Any, Any]]:
    """Returns, for each number in `tried`, its value in `use` and the value to check it with."""
    own = {name: getattr(use, name) for name in tried}
    return {n: (_OFF[n] if own[n] is None else own[n], value) for n, value in tried.items()}


def number_columns(numbers: Mapping[str, tuple[float, float]], rows: int) -> dict[str, np.ndarray]:
    """Returns an array of each number for example rows, which alternate between its two values."""
    both = [columns({n: pair[i] for n, pair in numbers.items()}, rows) for i in (0, 1)]
    odd = np.arange(rows) % 2 == 1
    return {name: np.where(odd, b, a) for name, a, b in zip(numbers, *both, strict=True)}


def expected_with_settings(
    expected: Callable[[Mapping[str, Any], Any], dict[str, dict[str, Any]]],
    own: Mapping[str, Any],
    examples: Mapping[str, Any],
    use: Settings,
    numbers: Mapping[str, tuple[float, float]],
) -> dict[str, list[Any]]:
    """Returns the expected outputs of the signature for the numbers of `number_columns`."""
    values = {
        name: tried or None if name == "top_k" else tried for name, (_, tried) in numbers.items()
    }
    odd = {name: x[1::2] if np.ndim(x) else x for name, x in examples.items()}
    found = expected(odd, dataclasses.replace(use, **values))["serving_default"]
    outputs = {name: list(rows) for name, rows in own.items()}
    for name, rows in outputs.items():
        rows[1::2] = found[name]
    return outputs


def checked_numbers(tf: ModuleType, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers of a signature, with checks of their ranges in the graph."""
    checks = []
    for name, x in numbers.items():
        what, inside = _RANGES.get(name, ("finite", tf.ones_like))
        right = tf.reduce_all(tf.cast(inside(x), tf.bool))
        if x.dtype.is_floating:
            right &= tf.reduce_all(tf.math.is_finite(x))
        checks.append(tf.debugging.Assert(right, [f"Expected `{name}` to be {what}. Received:", x]))
    with tf.control_dependencies(checks):
        return {name: tf.identity(x) for name, x in numbers.items()}
