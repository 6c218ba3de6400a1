"""The command of a task, derived from its class and its steps."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import READERS, check_files
from keras_attn.cli.options import (
    FILE,
    config_option,
    device_option,
    encoding_option,
    model_option,
    setting_option,
)
from keras_attn.cli.output import WRITERS, write_lines
from keras_attn.cli.predicted_tables import asks_for_table, predict_table, with_tables
from keras_attn.cli.processes import processes_option, run_processes, starts_processes
from keras_attn.cli.standard_steps import standard_steps
from keras_attn.cli.step_settings import options_of
from keras_attn.records.encodings import files_in
from keras_attn.records.written_tables import written_format
from keras_attn.settings import Option, WrongUse, read_settings
from keras_attn.tasks import Step, Task, steps_of
from keras_attn.training import compute_on

_FILES = (
    "model_file", "files", "pictures", "output", "folder", "run_dir", "overwrite", "encoding",
    "config",
)  # fmt: skip
_LAST = ("quantize", "export")
_GIVEN = (
    "inputs", "files", "to", "overwrite", "log", "skip", "terminal", "model_file", "step",
    "settings",
)  # fmt: skip
"""Arguments of a step's function other than sections of settings."""


def task_command(task: type[Task]) -> click.Group:
    """Creates the command of a task: a group with a command for each step.

    Each setting of the task is an option of the steps that it belongs to. The command line
    overrides the file given by `--config`, which overrides the defaults.
    """
    group = TaskGroup(task.name, help=task.about)
    for step in all_steps(task).values():
        group.add_command(_command(task, step))
    return group


def all_steps(task: type[Task]) -> dict[str, Step]:
    """Returns the steps of a task, keyed by name, in the order of their use."""
    known = standard_steps(task)
    found = {name: known[name] for name in task.steps}
    own = steps_of(task)
    found |= {name: step for name, step in own.items() if name in found}
    more = {name: step for name, step in own.items() if name not in found}
    order = [name for name in found if name not in _LAST]
    order += [name for name in more if not more[name].before]
    order += [name for name in found if name in _LAST]
    for name, step in more.items():
        if step.before:
            order.insert(order.index(step.before), name)
    return {name: with_tables(task, {**found, **more}[name]) for name in order}


class TaskGroup(click.Group):
    """The command of a task, which lists its steps in their order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the steps in the order of their use; called by click."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a line of the help for each step; called by click."""
        with formatter.section("Steps"):
            formatter.write_dl([
                (name, getattr(self.commands[name], "line", "")) for name in self.list_commands(ctx)
            ])  # fmt: skip


class StepCommand(click.Command):
    """The command of a step, whose help shows the options in groups."""

    def __init__(
        self, step: Step, titles: Mapping[str, str], paths: Sequence[str] = (), **more: Any
    ):
        super().__init__(step.name, help=step.help, **more)
        self.line = step.line
        self.paths = paths
        """Inputs that must exist: `SECTION.OPTION:KIND` (for the kinds, see `path` of
        `keras_attn.settings.setting`), `model:model` and `FILES:KIND`; and names of all flags."""
        self._titles = titles

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help of the options in groups, required options first; called by click."""
        groups: dict[str, list[tuple[str, str]]] = {
            title: [] for title in dict.fromkeys(self._titles.values())
        }
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups.setdefault(self._titles.get(parameter.name or "", "Options"), []).append(
                    record
                )
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def merged(
    task: type[Task] | Task, step: Step | str, file: Path | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings of a step, keyed by section: the command line overrides the file.

    If `task` is a task instead of a class, its `own_use` overrides the defaults of its class.
    """
    owner, task = (None, task) if isinstance(task, type) else (task, type(task))
    steps = all_steps(task)
    step = steps[step] if isinstance(step, str) else step
    sections = task.sections()
    for other in steps.values():
        if other.settings is not None:
            sections[other.name] = other.settings
    read = read_settings(file, sections) if file is not None else {}
    options = options_of(task, step)
    made = {}
    for name in dict.fromkeys(name for name, _ in options):
        own = [option for section, option in options if section == name]
        line = {
            option.name: None if given[option.name] == "none" and option.kind is not str
            else given[option.name]
            for option in own
            if given.get(option.name) is not None
        }  # fmt: skip
        both = {**read.get(name, {}), **line}
        for option in own:
            if option.required and option.name not in both:
                raise click.UsageError(f"Missing option '{_named(option.name)}'.")
        try:
            make = owner.used if owner and name == "use" else sections[name].made
            made[name] = make(both)
        except (TypeError, ValueError) as error:
            wrong = re.match(r"`(\w+)`", str(error))
            if wrong and wrong[1] in line:
                names = "|".join(option.name for _, option in options)
                raise click.UsageError(re.sub(rf"`({names})`", _as_option, str(error))) from error
            where = f" ({file}, [{name}], and the command line)" if file is not None else ""
            raise type(error)(f"{error}{where}") from error
    return made


def _as_option(name: re.Match) -> str:
    return _named(name[1])


def _named(name: str) -> str:
    return "--" + name.replace("_", "-")


def _command(task: type[Task], step: Step) -> StepCommand:
    """Creates the command of a step."""
    options = options_of(task, step)
    known = [*_GIVEN, *dict.fromkeys(section for section, _ in options)]
    unknown = [name for name in step.names() if name not in known]
    if unknown:
        raise TypeError(
            f"Expected parameters of the step `{step.name}` of {task.__name__} to be among {known}."
            f" Received: {unknown}."
        )
    reader, writer = READERS.get(step.reads), WRITERS.get(step.writes)

    def run(config: Path | None = None, encoding: str = "", **given: Any) -> None:
        with files_in(encoding):
            _run(config, **given)

    def _run(config: Path | None, **given: Any) -> None:
        names = [option.name for _, option in options]
        asked = {name: given.pop(name) for name in names}
        settings = merged(task, step, config, asked)
        skip = any(getattr(section, "on_error", "") == "skip" for section in settings.values())
        files: tuple[Path, ...] = given.get(reader.argument, ()) if reader is not None else ()
        to = given.get(writer.name) if writer is not None else None
        values = {
            **settings,
            "settings": settings,
            "files": files,
            "to": to,
            "overwrite": given.get("overwrite", False),
            "log": click.echo,
            "skip": skip,
            "terminal": to is None and os.isatty(1),
            "step": step,
            "model_file": given.get("model_file"),
        }
        own = settings.get(step.name)
        table = step.name == "predict" and asks_for_table(task, own, files)
        if table:
            check_files(files)
            written_format(to, "")
        elif reader is not None:
            reader.check(files, skip)
            values["inputs"] = reader.chunks(files)
        else:
            values["inputs"] = [x for name in _arguments(step.reads) for x in _listed(given[name])]
        if writer is not None:
            writer.check(to, values["overwrite"])
        if starts_processes(given.get("processes")):
            raise click.exceptions.Exit(run_processes(given["processes"]))
        try:
            step.check_before(values)
        except WrongUse as error:
            raise click.UsageError(str(error)) from error
        with compute_on(given["device"]) if step.device else contextlib.nullcontext():
            owner = task.opened(given["model_file"]) if step.model else task
            if isinstance(owner, Task) and owner.own_use:
                settings.update(merged(owner, step, config, asked))
                values.update(settings)
            if table and isinstance(owner, Task):
                predict_table(owner, files[0], to, settings, step)
                return
            lines = step.run(owner, values)
            lines = [lines] if isinstance(lines, str) else lines
            failed = write_lines(lines or (), to, printed="to" in step.names())
        if failed:
            raise click.exceptions.Exit(1)

    parameters = [
        *([model_option(step.model)] if step.model else []),
        *(writer.options(step.to) if writer is not None else []),
        *([device_option()] if step.device else []),
        *([processes_option()] if step.name == "fit" else []),
        *_inputs(step.reads),
        *([encoding_option()] if _reads_texts(step, options) else []),
        config_option(),
        *(setting_option(option) for _, option in options),
    ]
    titles = _titles(step, parameters, options)
    paths = [f"{section}.{x.name}:{x.path}" for section, x in options if x.path]
    paths += ["model:model"] if step.model else []
    if reader is not None and reader.argument:  # flags say whether a file follows them
        flags = [x for x in parameters if isinstance(x, click.Option) and x.is_flag]
        paths += [name for x in flags for name in (*x.opts, *x.secondary_opts)]
        paths.append("FILES:pictures" if reader.argument == "pictures" else "FILES:lines")
    return StepCommand(step, titles, paths, params=parameters, callback=run)


def _reads_texts(step: Step, options: Sequence[tuple[str, Option]]) -> bool:
    """Whether a step reads files with a selectable encoding."""
    reader = READERS.get(step.reads)
    lines = reader is not None and reader.argument == "files"
    tables = step.name == "predict" and any(name == "delimiter" for _, (name, *_) in options)
    return lines or tables or any(option.path == "examples" for _, option in options)


def _arguments(reads: str) -> list[str]:
    """Names of the arguments that a step reads: `"A WORDS..."`."""
    return [] if reads in READERS else [word.rstrip(".").lower() for word in reads.split()]


def _listed(value: str | Sequence[str]) -> Iterable[str]:
    return [value] if isinstance(value, str) else value


def _inputs(reads: str) -> list[click.Parameter]:
    """The arguments of a step."""
    if reads in READERS:
        name = READERS[reads].argument
        pictures = name == "pictures"
        path = FILE if pictures else click.Path(path_type=Path, allow_dash=True)
        return [click.Argument([name], nargs=-1, type=path, required=pictures)] if name else []
    return [
        click.Argument([word.rstrip(".").lower()], nargs=-1 if word.endswith("...") else 1,
                       required=True)
        for word in reads.split()
    ]  # fmt: skip


def _titles(
    step: Step, parameters: Sequence[click.Parameter], options: Sequence[tuple[str, Option]]
) -> dict[str, str]:
    """The group of each option in the help, keyed by option, in the order of the groups."""
    required = [p.name for p in parameters if p.required]
    required += [option.name for _, option in options if option.required]
    titles = dict.fromkeys(required, "Required")
    titles |= {name: "Files" for name in _FILES if name not in titles}
    sections = sorted(options, key=lambda pair: pair[0] != step.name)  # its own first
    titles |= {o.name: section.capitalize() for section, o in sections if o.name not in titles}
    return titles
