"""Options of the command line: those of all tasks, and those made of settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from keras_attn.settings import Option
from keras_attn.trained import find

FILE = click.Path(path_type=Path)


def _found(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    return None if path is None else find(path)


config_option = click.option(
    "--config", type=FILE, help="settings file (TOML); options given here go before it"
)
model_option = click.option(
    "--model",
    "model_file",
    type=FILE,
    required=True,
    callback=_found,
    help="the model: a file, such as RUN/best.task, or the name of one in the package",
)
device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="where to compute",
)


def _checked_page(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise click.BadParameter(
            f"Expected a page, a name that ends in .html. Received: {path}.", context, parameter
        )
    return path


page_option = click.option(
    "--to", "output", type=FILE, required=True, callback=_checked_page, help="HTML file (*.html)"
)


class _OrNone(click.ParamType):
    """Numbers, or `none`."""

    def __init__(self, kind: type):
        self.inner = click.types.convert_type(kind)
        self.name = self.inner.name

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return value if value == "none" else self.inner.convert(value, param, ctx)


def make_option(option: Option, in_file: bool = False) -> Callable:
    """Makes an option of a setting.

    The command gets None where the option was not given, so that a settings file can decide.

    Args:
        option: The setting.
        in_file: Whether a settings file may have what is required; then nothing is refused here.

    Returns:
        A decorator of `click`.

    Example:

    >>> command = make_option(Option("dim", int, 8, "width", None, False, ()))(lambda dim: dim)
    """
    name, shown = option.name.replace("_", "-"), option.default
    if isinstance(shown, bool):
        shown = "yes" if shown else "no"
    elif shown in ("", None, ()):
        shown = "none"
    text = option.help if option.required else f"{option.help}  [default: {shown}]"
    if option.kind is bool:
        return click.option(f"--{name}/--no-{name}", option.name, default=None, help=text)
    if option.kind is tuple:
        return click.option(
            f"--{name}", option.name, multiple=True, default=None, help=text,
            callback=lambda context, parameter, given: given or None,
        )  # fmt: skip
    kind: Any = str if option.kind is object else option.kind
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.default is None and kind is not str:
        kind = _OrNone(kind)
    required = option.required and not in_file
    if option.required and in_file:
        text += "  [required]"
    return click.option(f"--{name}", option.name, type=kind, required=required, help=text)
