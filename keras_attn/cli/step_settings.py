"""Settings of a step as options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from keras_attn.settings import Option, Settings
from keras_attn.tasks import Step, Task


def options_of(task: type[Task], step: Step) -> list[tuple[str, Option]]:
    """Returns the options of a step, each with the name of its section."""
    found = [
        (name, option._replace(required=option.required or option.name in step.required))
        for name, section in task.sections().items()
        for option in section.declared()
        if _has(step, name, option, section)
    ]
    if step.settings is not None:
        if step.name in task.sections():
            raise ValueError(
                f"{task.__name__} already has settings named {step.name!r}. Rename the step."
            )
        found += [(step.name, option) for option in step.settings.declared()]
    names = [option.name for _, option in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Two sections of {task.__name__} have the same options {twice} of the step "
            f"`{step.name}`. Rename one of them."
        )
    return found


def _has(step: Step, name: str, option: Option, section: Any) -> bool:
    """Whether a step has an option of a section."""
    if isinstance(step.takes, Mapping) and name in step.takes:
        return option.name in step.takes[name]
    steps = option.steps or getattr(section, "for_steps", ())
    return step.name in steps if steps else name in step.takes


def values_of(
    task: type[Task], step: Step, settings: Mapping[str, Settings], method: Callable[..., object]
) -> dict[str, Any]:
    """Returns the settings of a step that a task method accepts, keyed by name.

    Settings for reading the test file are left out, because it has already been read.
    """
    taken = [*inspect.signature(method).parameters][1:]
    of_tables = task.table_settings()
    return {
        option.name: getattr(settings[section], option.name)
        for section, option in options_of(task, step)
        if option.name in taken
        and (section == "use" or (section == "test" and option.name not in of_tables))
    }
