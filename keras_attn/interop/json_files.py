"""JSON files that other libraries wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn.input_files import read_input


def parse_object(text: bytes, where: str) -> dict[str, Any]:
    """Parses a JSON object; raises a ValueError that names the file if it is none."""
    found = _parsed(text, where)
    if not isinstance(found, dict):
        raise ValueError(f"{where}: expected a JSON object. Received: a {type(found).__name__}.")
    return found


def parse_list(text: bytes, where: str) -> list[Any]:
    """Parses a JSON list; raises a ValueError that names the file if it is none."""
    found = _parsed(text, where)
    if not isinstance(found, list):
        raise ValueError(f"{where}: expected a JSON list. Received: a {type(found).__name__}.")
    return found


def _parsed(text: bytes, where: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"the key {twice!r} occurs twice")
        return found

    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: expected JSON. Received: {error}.") from error


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object from a file."""
    return parse_object(read_input(path, "a JSON file"), str(path))


def to_json(value: Mapping[str, Any]) -> bytes:
    """Encodes a JSON object with one key per line."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode("utf-8")
