"""Settings: dataclasses that know their help texts, read from and written to TOML files."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_attn.files import atomic_write
from keras_attn.training.devices import check_devices


def setting(
    default: Any,
    help: str,
    *,
    choices: Sequence[Any] | None = None,
    at_least: float | None = None,
    below: float | None = None,
    above: float | None = None,
    shapes_result: bool = True,
    check: Callable[[Any], None] | None = None,
) -> Any:
    """A field of a settings dataclass.

    Args:
        default: Its default; its type is the type that is expected.
        help: What it does.
        choices: The values that are allowed.
        at_least: Smallest value.
        below: Values are smaller than this.
        above: Values are greater than this.
        shapes_result: Whether it changes what comes out; False: a run may go on with another one.
        check: Raises a ValueError for a wrong value, after all others have checked it.

    Returns:
        A dataclass field.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading:
    ...     speed: int = setting(3, "pages an hour", at_least=1)
    >>> Reading().speed
    3
    """
    metadata = {
        "help": help,
        "choices": choices,
        "at_least": at_least,
        "below": below,
        "above": above,
        "shapes_result": shapes_result,
        "check": check,
    }
    return dataclasses.field(default=default, metadata=metadata)


def devices_setting() -> Any:
    """The field `devices` of all training settings: on how many of its devices a run trains.

    Returns:
        A dataclass field.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Training:
    ...     devices: str = devices_setting()
    ...     __post_init__ = check_settings
    >>> Training(devices="0")
    Traceback (most recent call last):
        ...
    ValueError: `devices` must be 'all' or a number of at least 1, as a string. Received: '0'.
    """
    return setting(
        "1",
        "how many devices train together, each with its rows of a batch: a number, or all",
        shapes_result=False,
        check=check_devices,
    )


def check_settings(settings: Any) -> None:
    """Checks the values of a settings dataclass, for its `__post_init__`.

    Raises:
        TypeError: For a value of another type.
        ValueError: For a value out of range, or a number that is not finite.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading:
    ...     speed: int = setting(3, "pages an hour", at_least=1)
    ...     __post_init__ = check_settings
    >>> Reading(speed=0)
    Traceback (most recent call last):
        ...
    ValueError: `speed` must be at least 1. Received: 0.
    """
    for field in dataclasses.fields(settings):
        value, kind = getattr(settings, field.name), type(field.default)
        if kind is float and type(value) is int:
            value = float(value)
            object.__setattr__(settings, field.name, value)
        if type(value) is not kind:
            raise TypeError(
                f"`{field.name}` must be of type {kind.__name__}. "
                f"Received: {value!r}, of type {type(value).__name__}."
            )
        limits = field.metadata
        if kind is float and not math.isfinite(value):
            raise ValueError(f"`{field.name}` must be a finite number. Received: {value}.")
        if limits["choices"] is not None and value not in limits["choices"]:
            near = difflib.get_close_matches(str(value), map(str, limits["choices"]), 1)
            raise ValueError(
                f"`{field.name}` must be one of {', '.join(map(repr, limits['choices']))}. "
                f"Received: {value!r}." + (f" Did you mean {near[0]!r}?" if near else "")
            )
        if limits["at_least"] is not None and value < limits["at_least"]:
            raise ValueError(
                f"`{field.name}` must be at least {limits['at_least']}. Received: {value}."
            )
        if limits["above"] is not None and value <= limits["above"]:
            raise ValueError(f"`{field.name}` must be above {limits['above']}. Received: {value}.")
        if limits["below"] is not None and value >= limits["below"]:
            raise ValueError(f"`{field.name}` must be below {limits['below']}. Received: {value}.")
        if limits["check"] is not None:
            limits["check"](value)


def read_settings(
    path: str | os.PathLike, sections: Mapping[str, type]
) -> dict[str, dict[str, Any]]:
    """Reads the sections of a settings file.

    Args:
        path: A TOML file with tables such as `[model]`.
        sections: Names of the tables that may be there, with their dataclasses.

    Returns:
        For each section the values that the file gives.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: For what is no TOML, and for unknown tables and keys; the nearest known one
            is named.

    Example:

    >>> import tempfile
    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading:
    ...     speed: int = setting(3, "pages an hour")
    >>> file = Path(tempfile.mkdtemp()) / "settings.toml"
    >>> _ = file.write_text("[reading]\\nspeed = 5")
    >>> read_settings(file, {"reading": Reading})
    {'reading': {'speed': 5}}
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"Expected a settings file. Received: {path}, which is none.")
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"Expected a TOML file. Received: {path}: {error}") from error
    for name, table in tables.items():
        if name not in sections:
            every = {f.name: s for s, kind in sections.items() for f in dataclasses.fields(kind)}
            if name in every and not isinstance(table, dict):
                raise ValueError(
                    f"{path}: `{name}` stands outside of its section. Put it under [{every[name]}]."
                )
            raise ValueError(f"{path}: unknown section [{name}]. {_nearest(name, sections)}")
        if not isinstance(table, dict):
            raise ValueError(f"{path}: expected a section [{name}]. Received: {name} = {table!r}.")
        known = [field.name for field in dataclasses.fields(sections[name])]
        for key in table:
            if key not in known:
                raise ValueError(
                    f"{path}: unknown setting `{key}` in [{name}]. {_nearest(key, known)}"
                )
    return {name: dict(tables.get(name, {})) for name in sections}


def write_settings(path: str | os.PathLike, sections: Mapping[str, Any]) -> None:
    """Writes settings, all of them, with their help texts, as a file that `read_settings` reads.

    Args:
        path: The file; it is replaced as a whole.
        sections: Names of the tables, with instances of their dataclasses.

    Example:

    >>> import tempfile
    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading:
    ...     speed: int = setting(3, "pages an hour")
    >>> file = Path(tempfile.mkdtemp()) / "settings.toml"
    >>> write_settings(file, {"reading": Reading()})
    >>> print(file.read_text(), end="")
    [reading]
    speed = 3  # pages an hour
    """
    blocks = []
    for name, instance in sections.items():
        lines = [f"[{name}]"]
        for field in dataclasses.fields(instance):
            value = _toml(getattr(instance, field.name))
            lines.append(f"{field.name} = {value}  # {field.metadata['help']}")
        blocks.append("\n".join(lines) + "\n")
    with atomic_write(path) as partial:
        partial.write_text("\n".join(blocks), encoding="utf-8")


def shaping(settings: Any) -> dict[str, Any]:
    """Returns the settings that shape the result.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading:
    ...     speed: int = setting(3, "pages an hour")
    ...     aloud: bool = setting(False, "for the others", shapes_result=False)
    >>> shaping(Reading())
    {'speed': 3}
    """
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.metadata["shapes_result"]
    }


def differences(former: Any, present: Any) -> list[str]:
    """Names what differs between two instances, of the settings that shape the result.

    Returns:
        Texts such as `"speed is 3 there, 5 here"`.

    Example:

    >>> @dataclasses.dataclass(frozen=True)
    ... class Reading:
    ...     speed: int = setting(3, "pages an hour")
    >>> differences(Reading(), Reading(5))
    ['speed is 3 there, 5 here']
    """
    there, here = shaping(former), shaping(present)
    return [
        f"{name} is {there[name]!r} there, {here[name]!r} here"
        for name in here
        if there[name] != here[name]
    ]


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, 1, cutoff=0.5)
    return f"Did you mean `{near[0]}`?" if near else f"Known: {', '.join(known)}."


def _toml(value: Any) -> str:
    """Strings of JSON are strings of TOML, but for DEL, which JSON leaves as it is."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return json.dumps(value)
