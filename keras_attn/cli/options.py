"""Options of the command line: those of all tasks, and those made of settings dataclasses."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_attn.settings import Option, read_settings

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


class _OrNone(click.ParamType):
    """Numbers, or `none`."""

    def __init__(self, kind: type):
        self.inner = click.types.convert_type(kind)
        self.name = self.inner.name

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return value if value == "none" else self.inner.convert(value, param, ctx)


def make_option(option: Option) -> Callable:
    """Makes an option of a setting.

    The command gets None where the option was not given, so that a settings file can decide.

    Args:
        option: The setting.

    Returns:
        A decorator of `click`.

    Example:

    >>> command = make_option(Option("dim", int, 8, "width", None, False, ()))(lambda dim: dim)
    """
    name, shown = option.name.replace("_", "-"), option.default
    if isinstance(shown, bool):
        shown = "yes" if shown else "no"
    elif shown in ("", None):
        shown = "none"
    text = option.help if option.required else f"{option.help}  [default: {shown}]"
    if option.kind is bool:
        return click.option(f"--{name}/--no-{name}", option.name, default=None, help=text)
    kind: Any = str if option.kind is object else option.kind
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.default is None and kind is not str:
        kind = _OrNone(kind)
    return click.option(f"--{name}", option.name, type=kind, required=option.required, help=text)


def settings_options(kind: type, *more: type) -> Callable:
    """Gives a command an option for each field of settings dataclasses.

    The command gets None where an option was not given, so that a settings file can decide.

    Args:
        kind: A dataclass of `setting` fields.
        *more: Further ones.

    Returns:
        A decorator.

    Example:

    >>> from keras_attn.tasks import CaptioningDecodingSettings
    >>> command = settings_options(CaptioningDecodingSettings)(lambda **values: None)
    """

    def decorate(command: Callable) -> Callable:
        for option in [o for k in (kind, *more) for o in k.declared()][::-1]:
            command = make_option(option)(command)
        return command

    return decorate


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

    >>> from keras_attn.tasks import CaptioningDecodingSettings
    >>> merged({"decoding": CaptioningDecodingSettings}, None, {"beams": 2, "alpha": None}, {})
    {'decoding': CaptioningDecodingSettings(beams=2, alpha=1.0, batch_size=32)}
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
