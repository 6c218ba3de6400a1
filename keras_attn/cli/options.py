"""Command line options, common ones and options made from settings."""

from __future__ import annotations

from pathlib import Path

import click

from keras_attn.records.encodings import check_encoding
from keras_attn.settings import Option
from keras_attn.trained import find

FILE = click.Path(path_type=Path)


def _found(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    return None if path is None else find(path)


def config_option() -> click.Option:
    """Returns the option `--config`."""
    text = "settings file (TOML); options given here override it"
    return click.Option(["--config"], type=FILE, help=text)


def model_option(help: str) -> click.Option:
    """Returns the option `--model`."""
    names = ["--model", "model_file"]
    return click.Option(names, type=FILE, required=True, callback=_found, help=help)


def device_option() -> click.Option:
    """Returns the option `--device`."""
    kind = click.Choice(["auto", "cpu", "gpu"])
    return click.Option(
        ["--device"], type=kind, default="auto", show_default=True, help="where to compute"
    )


def encoding_option() -> click.Option:
    """Returns the option `--encoding`."""
    text = "encoding of the files with texts, such as cp1252; UTF-8 if none, or UTF-16 with a mark"
    return click.Option(["--encoding"], default="", help=text, callback=_checked)


def _checked(context: click.Context, parameter: click.Parameter, encoding: str) -> str:
    try:
        check_encoding(encoding)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    return encoding


class _OrNone(click.ParamType):
    """Numbers, or `none`."""

    def __init__(self, kind: type):
        self.inner = click.types.convert_type(kind)
        self.name = self.inner.name

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        return value if value == "none" else self.inner.convert(value, param, ctx)


def _or_none(
    context: click.Context, parameter: click.Parameter, given: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    return given or None


def setting_option(option: Option) -> click.Option:
    """Makes an option from a setting. The option is None if it is not given on the command line."""
    name, shown = option.name.replace("_", "-"), option.default
    if isinstance(shown, bool):
        shown = "yes" if shown else "no"
    elif shown in ("", None, ()):
        shown = "none"
    more = "[required]" if option.required else f"[default: {shown}]"
    text = f"{option.help}  {more}"
    if option.kind is bool:
        return click.Option([f"--{name}/--no-{name}", option.name], default=None, help=text)
    if option.kind is tuple:
        return click.Option(
            [f"--{name}", option.name], multiple=True, default=None, help=text, callback=_or_none
        )
    kind: click.ParamType = click.types.convert_type(str if option.kind is object else option.kind)
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.default is None and option.kind not in (str, object):
        kind = _OrNone(option.kind)
    return click.Option([f"--{name}", option.name], type=kind, help=text)
