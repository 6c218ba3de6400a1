"""Settings of generation as run-time inputs of compiled functions.

A function with a constant temperature is compiled again for each temperature. Therefore numbers are
inputs, one for each row, and only settings that change the code are constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_attn.hints import Tensor
from keras_attn.ops.padding import known_value

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_INTEGERS = ("top_k", "min_length", "seed")


def is_tensor(value: object) -> TypeIs[Tensor]:
    """Returns whether a setting is a tensor or an array, not a Python number."""
    return isinstance(value, np.ndarray) or ops.is_tensor(value)


def of_rows(name: str, value: float | Tensor) -> Any:
    """Converts a setting for use with tensors `(B, n)`: a tensor `(B,)` becomes `(B, 1)`."""
    if not is_tensor(value):
        return value
    given = ops.convert_to_tensor(value)
    whole = name in _INTEGERS
    if len(given.shape) > 1 or (whole and "int" not in ops.dtype(given)):
        raise ValueError(
            f"`{name}` must be a number, or {'integers' if whole else 'numbers'} of shape () or "
            f"(B,), one for each row. Received: shape {tuple(given.shape)}, dtype "
            f"{ops.dtype(given)}."
        )
    given = ops.cast(given, "int32" if whole else "float32")
    return ops.expand_dims(given, 1) if len(given.shape) else given


def values_of(setting: object) -> list[Any]:
    """Returns the known values of a setting as a list, which is empty for a tensor in a graph."""
    if not is_tensor(setting):
        return [setting]
    known = known_value(setting)
    return [] if known is None else known.ravel().tolist()


def rounded_count(count: int) -> int:
    """Rounds `top_k` up to 64, 256, 1024 and so on, so that few functions are compiled."""
    bits = (count - 1).bit_length()
    return max(64, 1 << (bits + bits % 2))


def sampling_inputs(settings: Mapping[str, float | None]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the run-time numbers and the compile-time settings of sampling, as two dicts.

    A filter that is off has no run-time number and costs nothing. For `top_k`, the number of
    greatest logits to sort is a compile-time setting: k rounded up to 64, 256, 1024 and so on.
    """
    off = {"top_k": (None,), "top_p": (None, 1), "min_p": (None, 0), "repetition_penalty": (1,)}
    numbers: dict[str, Any] = {
        name: value
        for name, value in settings.items()
        if name != "no_repeat_ngram_size" and value not in off.get(name, ())
    }
    fixed: dict[str, Any] = {"no_repeat_ngram_size": settings.get("no_repeat_ngram_size", 0)}
    if "top_k" in numbers:
        numbers["top_k"] = min(numbers["top_k"], 2**30)  # int32
        fixed["largest_top_k"] = rounded_count(numbers["top_k"])
    return numbers, fixed


def columns(numbers: Mapping[str, float], rows: int) -> list[np.ndarray]:
    """Returns numbers as inputs of a compiled function: arrays `(rows,)`, in the same order.

    `top_k`, `min_length` and `seed` are int32, all others float32.
    """
    return [
        np.full(rows, value, "int32" if name in _INTEGERS else "float32")
        for name, value in numbers.items()
    ]
