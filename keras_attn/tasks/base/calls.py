"""Signatures and docstrings of methods whose keyword arguments are settings."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_attn.settings import Option, RunDefault, Settings
from keras_attn.settings.declaring import nearest

Call = Callable[..., Any]


def options_for(kind: type[Settings], step: str) -> list[Option]:
    """Returns the options of the settings of a class that a step has."""
    of_class = kind.for_steps
    return [x for x in kind.declared() if step in (x.steps or of_class or (step,))]


def further_parameters(hook: Call) -> list[inspect.Parameter]:
    """Returns the keyword-only parameters of a hook, which are arguments of the call."""
    every = inspect.signature(hook).parameters.values()
    return [x for x in every if x.kind is inspect.Parameter.KEYWORD_ONLY]


def parted(
    options: Sequence[Option], more: Sequence[str], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits keyword arguments into settings and others; NumPy numbers become Python numbers."""
    known = [option.name for option in options]
    for name in given:
        if name not in known and name not in more:
            raise TypeError(f"Unknown setting `{name}`. {nearest(name, [*known, *more])}")
    plain = {n: x.item() if isinstance(x, np.generic) else x for n, x in given.items()}
    return (
        {name: value for name, value in plain.items() if name in known},
        {name: value for name, value in plain.items() if name not in known},
    )


def declared_call(
    call: Call,
    hook: Call,
    options: Sequence[Option],
    further: Mapping[str, Option],
    own: Mapping[str, str] | None = None,
) -> Call:
    """Returns the method `call(self, inputs, **settings)` with a signature and a docstring.

    The signature and the docstring list the first argument of the `hook` that the method calls, the
    keyword-only arguments of the hook (with missing defaults and texts from `further`), the
    settings `options`, and the arguments `own`.
    """

    itself, first, *_ = inspect.signature(hook).parameters.values()
    more = further_parameters(hook)
    names = [*(x.name for x in options), *(x.name for x in more)]
    texts = {name: text for name, text in (own or {}).items() if name not in names}
    named = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=inspect.Parameter.empty if name == "labels" else "str | None",
        )
        for name in texts
    ]
    for i, parameter in enumerate(more):
        if parameter.default is inspect.Parameter.empty:
            option = further[parameter.name]
            more[i] = parameter.replace(default=option.default)
            texts[option.name] = option.help
    given_by_hook = {x.name: x.default for x in more}
    taken = [x for x in options if x.name not in given_by_hook]
    settings = [
        inspect.Parameter(
            x.name, inspect.Parameter.KEYWORD_ONLY, default=x.default, annotation=x.kind.__name__
        )
        for x in taken
    ]
    first = inspect.Parameter(first.name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = inspect.Signature([first, *named, *more, *settings])
    signature = inspect.Signature([itself, *shown.parameters.values()])

    @functools.wraps(call)
    def method(self: Any, *inputs: Any, **given: Any) -> Any:
        if first.name in given and not inputs:
            inputs = (given.pop(first.name),)
        if len(inputs) != 1:
            raise TypeError(
                f"Expected {call.__name__}{shown}, with settings passed by keyword. "
                f"Received: {len(inputs)} arguments by position."
            )
        return call(self, inputs[0], **(given_by_hook | given))

    method.__dict__["__signature__"] = signature
    text = inspect.getdoc(hook) or inspect.getdoc(call) or ""
    method.__doc__ = _with_arguments(text, {**texts, **{x.name: x.help for x in taken}})
    return method


def with_settings(call: Call, kind: type[Settings]) -> Call:
    """Returns a method that takes `**settings`, with a signature and a docstring that list them."""
    *named, _ = inspect.signature(call).parameters.values()
    options = kind.declared()
    settings = [
        inspect.Parameter(
            x.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if isinstance(x.default, RunDefault) else x.default,
            annotation=x.kind.__name__,
        )
        for x in options
    ]

    @functools.wraps(call)
    def method(*arguments: Any, **given: Any) -> Any:
        return call(*arguments, **given)

    more = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
    method.__dict__["__signature__"] = inspect.Signature([*named, *settings, more])
    method.__doc__ = _with_arguments(inspect.getdoc(call) or "", {x.name: x.help for x in options})
    return method


def _with_arguments(text: str, helps: Mapping[str, str]) -> str:
    """Adds settings to the arguments in a docstring, and removes `use`."""
    before, _, behind = text.partition("Args:\n")
    arguments, _, rest = behind.partition("\n\n")
    lines = [
        f"    {name}: {text[:1].upper()}{text[1:]}."
        for name, text in helps.items()
        if f"    {name}: " not in arguments
    ]
    dropped = ("    use:", "    results:")
    kept = [x for x in arguments.split("\n") if x and not x.startswith(dropped)]
    text = "\n".join([f"{before.rstrip()}\n\nArgs:", *kept, *lines])
    return f"{text}\n\n{rest}" if rest else text
