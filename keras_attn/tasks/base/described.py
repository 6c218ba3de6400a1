"""Unique descriptions of examples, for the digests of runs."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np


def described(value: Any) -> str:
    """Describes a value completely, so that different values have different descriptions.

    The order of dicts and sets does not matter. Objects whose `repr` contains a memory address are
    refused.
    """
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(sorted(f"{described(k)}: {described(value[k])}" for k in value)) + "}"
        )
    if isinstance(value, Set):
        return f"{type(value).__name__}({', '.join(sorted(map(described, value)))})"
    if isinstance(value, np.ndarray) and value.dtype != object:
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array({value.dtype}, {value.shape}, {content})"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    fields: list[str] = []
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = list(value._fields)
    if fields:
        parts = (f"{name}={described(getattr(value, name))}" for name in fields)
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, tuple | list | np.ndarray):
        inner = ", ".join(map(described, value))
        if isinstance(value, tuple):
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"[{inner}]"
    if type(value).__repr__ is object.__repr__:
        if isinstance(value, Iterable) and not isinstance(value, Iterator):
            return described(tuple(value))
        raise TypeError(
            "Expected examples of strings, numbers, arrays, dataclasses, and tuples, lists and "
            f"dicts of these. Received: {type(value).__name__}. Give its class a `__repr__` that "
            "tells examples apart, or override `digest` in the task."
        )
    return repr(value)
