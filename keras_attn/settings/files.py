"""Settings files: TOML with a table for each section."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_attn.files import atomic_write
from keras_attn.input_files import read_input
from keras_attn.line_ends import with_newlines
from keras_attn.settings.declaring import Section, Settings, nearest
from keras_attn.settings.kinds import Kinds


def read_settings(
    path: str | os.PathLike, sections: Mapping[str, type[Settings] | Kinds]
) -> dict[str, dict[str, Any]]:
    """Reads the sections of a settings file. The names of settings are checked, but not the values.

    Args:
        path: A TOML file with tables such as `[model]`.
        sections: The allowed tables: a dict from table names to a `Settings` class or `Kinds`.

    Returns:
        A dict from each table name in `sections` to a dict of the values in the file. If the file
        does not contain a table, its dict is empty.

    Raises:
        FileNotFoundError: If the file does not exist, or is a folder.
        ValueError: If the file is not TOML, or has unknown tables or keys, or keys outside of a
            table.

    Example:

    >>> import tempfile, dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading(Settings):
    ...     speed: int = setting(3, "pages an hour")
    >>> file = Path(tempfile.mkdtemp()) / "settings.toml"
    >>> _ = file.write_text("[reading]\\nspeed = 5")
    >>> read_settings(file, {"reading": Reading})
    {'reading': {'speed': 5}}
    """
    path = Path(path).expanduser()
    raw = read_input(path, "a settings file")
    try:
        tables = tomllib.loads(with_newlines(raw.decode("utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"Expected a TOML file. Received: {path}: {error}") from error
    known = {name: [o.name for o in section.declared()] for name, section in sections.items()}
    for name, table in tables.items():
        if name not in sections:
            every = {option: section for section, options in known.items() for option in options}
            if name in every and not isinstance(table, dict):
                raise ValueError(
                    f"{path}: `{name}` is outside of its section. Put it under [{every[name]}]."
                )
            raise ValueError(f"{path}: unknown section [{name}]. {nearest(name, sections)}")
        if not isinstance(table, dict):
            raise ValueError(f"{path}: expected a section [{name}]. Received: {name} = {table!r}.")
        for key in table:
            if key not in known[name]:
                raise ValueError(
                    f"{path}: unknown setting `{key}` in [{name}]. {nearest(key, known[name])}"
                )
    return {name: dict(tables.get(name, {})) for name in sections}


def write_settings(path: str | os.PathLike, sections: Mapping[str, Section]) -> None:
    """Writes all settings with their help texts to a TOML file.

    A setting that is None is written as a comment, because TOML has no null. Read the file with
    `read_settings`.

    Args:
        path: The file, which is replaced atomically.
        sections: A dict from table names to `Settings` or a `Choice`. Sizes are not written.

    Raises:
        OSError: If the file cannot be written, for example because its folder does not exist.
        ValueError: If a string cannot be encoded as UTF-8.

    Example:

    >>> import tempfile, dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading(Settings):
    ...     speed: int = setting(3, "pages an hour")
    ...     pages: int | None = setting(None, "pages to read", kind=int)
    >>> file = Path(tempfile.mkdtemp()) / "settings.toml"
    >>> write_settings(file, {"reading": Reading()})
    >>> print(file.read_text(), end="")
    [reading]
    speed = 3  # pages an hour
    # pages =  # pages to read
    """
    blocks = []
    for name, section in sections.items():
        lines = [f"[{name}]"]
        for key, value, text in section.entries():
            start = f"# {key} =" if value is None else f"{key} = {_toml(value)}"
            lines.append(f"{start}  # {text}")
        blocks.append("\n".join(lines) + "\n")
    with atomic_write(path) as partial:
        partial.write_text("\n".join(blocks), encoding="utf-8")


def _toml(value: object) -> str:
    """A TOML value. JSON strings are valid in TOML, except that DEL must be escaped."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"Settings must be text that can be encoded as UTF-8. Received: {value!r}. If "
                "it is a path, rename the file."
            ) from error
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
