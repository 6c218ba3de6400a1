"""Options of the command line: those of all tasks, and those made of settings dataclasses."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_attn.tasks.settings import read_settings

FILE = click.Path(path_type=Path)

config_option = click.option(
    "--config", type=FILE, help="settings file (TOML); options given here go before it"
)
model_option = click.option(
    "--model", "model_file", type=FILE, required=True, help="the model, such as RUN/best.task"
)
device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="where to compute",
)


def settings_options(kind: type, *more: type) -> Callable:
    """Gives a command an option for each field of settings dataclasses.

    The command gets None where an option was not given, so that a settings file can decide.

    Args:
        kind: A dataclass of `setting` fields.
        *more: Further ones.

    Returns:
        A decorator.

    Example:

    >>> from keras_attn.tasks import TranslationDecodingSettings
    >>> command = settings_options(TranslationDecodingSettings)(lambda **values: None)
    """

    def decorate(command: Callable) -> Callable:
        for field in [f for k in (kind, *more) for f in dataclasses.fields(k)][::-1]:
            command = _option(field)(command)
        return command

    return decorate


def _option(field: dataclasses.Field) -> Callable:
    name = field.name.replace("_", "-")
    default = field.default
    shown = default
    if isinstance(default, bool):
        shown = "yes" if default else "no"
    elif default == "":
        shown = "none"
    text = f"{field.metadata['help']}  [default: {shown}]"
    if isinstance(default, bool):
        return click.option(f"--{name}/--no-{name}", field.name, default=None, help=text)
    choices = field.metadata["choices"]
    kind = click.Choice(choices) if choices else type(default)
    return click.option(f"--{name}", field.name, type=kind, default=None, help=text)


def merged(
    sections: dict[str, type], file: Path | None, given: dict[str, Any], every: dict[str, type]
) -> dict[str, Any]:
    """Makes settings: the command line goes before the file, the file before the defaults.

    Args:
        sections: Names and dataclasses of the sections that are wanted.
        file: A settings file, or None.
        given: Values of the command line, None where there is none.
        every: All sections that the file may have.

    Returns:
        An instance for each section.

    Raises:
        ValueError: For unknown names in the file, and values out of range.

    Example:

    >>> from keras_attn.tasks import TranslationDecodingSettings
    >>> merged({"decoding": TranslationDecodingSettings}, None, {"beams": 2, "alpha": None}, {})
    {'decoding': TranslationDecodingSettings(beams=2, alpha=1.0, batch_size=64)}
    """
    read = read_settings(file, every) if file is not None else {}
    made = {}
    for name, kind in sections.items():
        known = {field.name for field in dataclasses.fields(kind)}
        line = {k: v for k, v in given.items() if k in known and v is not None}
        try:
            made[name] = kind(**{**read.get(name, {}), **line})
        except (TypeError, ValueError) as error:
            where = f" ({file}, [{name}], and the command line)" if file is not None else ""
            raise ValueError(f"{error}{where}") from error
    return made
