"""JSON files of pictures and what is said about them."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from typing import Any

from keras_attn.input_files import read_input
from keras_attn.records.reading import Location


def load_json(path: Location) -> Any:
    """Returns the JSON value of a file, plain or gzipped."""
    raw = read_input(path, "a JSON file")
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{os.fspath(path)}: expected one whole JSON value in UTF-8. Received: {error}."
        ) from error


def lists_of(path: Location, data: object, *keys: str) -> list[list[Any]]:
    """Returns the lists under keys of a JSON object."""
    if not isinstance(data, dict) or not all(isinstance(data.get(key), list) for key in keys):
        what = f"a {type(data).__name__}"
        if isinstance(data, dict):
            what = f"one with the keys {', '.join(map(repr, data))[:200] or 'none'}"
        raise ValueError(
            f"{os.fspath(path)}: expected a JSON object with "
            f"{' and '.join(f'a list {key!r}' for key in keys)}. Received: {what}."
        )
    return [data[key] for key in keys]
