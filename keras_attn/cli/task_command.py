"""The command of a task, derived from its class."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import READERS, check_files, files_argument
from keras_attn.cli.options import (
    FILE,
    config_option,
    device_option,
    make_option,
    model_option,
    page_option,
)
from keras_attn.cli.output import check_output, exit_if_interrupted, open_output, write_json
from keras_attn.cli.quantizing import quantize_command
from keras_attn.progress import progress_lines
from keras_attn.settings import Option, read_settings
from keras_attn.tasks.task import Task
from keras_attn.training import compute_on

_EXPLAINED = ("pairs", "only_pairs", "picture_pairs")
"""What `explain` reads as `predict` does; of other tasks it reads lines."""


def task_command(task: type[Task]) -> click.Group:
    """Makes the command of a task: a group with a command for each of its steps.

    Each setting of the task is an option of the steps that it belongs to. The values come from the
    command line, else from the file given by `--config`, else from the defaults.

    Args:
        task: The class.

    Returns:
        The group, `keras-attn TASK`.

    Raises:
        ValueError: If two sections of settings have an option of the same name in one step.

    Example:

    >>> from keras_attn.tasks import TextClassifier
    >>> sorted(task_command(TextClassifier).commands)
    ['evaluate', 'explain', 'export', 'fit', 'predict', 'quantize']
    """
    group = click.Group(task.name, help=task.summary)
    for step in task.steps:
        group.add_command(_MAKERS[step](task))
    return group


def options_of(task: type[Task], step: str) -> list[tuple[str, Option]]:
    """Returns the options of a step.

    Args:
        task: The class of the task.
        step: Name of the step, such as `"fit"`.

    Returns:
        Pairs of the name of a section and an option.

    Raises:
        ValueError: If two sections have an option of the same name.

    Example:

    >>> from keras_attn.tasks import TextClassifier
    >>> [option.name for section, option in options_of(TextClassifier, "export")]
    ['batch_size', 'method']
    """
    found = [
        (name, option)
        for name, section in task.sections().items()
        for option in section.declared()
        if step in (option.steps or task.section_steps[name])
    ]
    names = [option.name for _, option in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Two sections of {task.__name__} have options of `{step}` named {twice}.")
    return found


def merged(
    task: type[Task], step: str, file: Path | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Makes the settings of a step: the command line goes before the file, that before defaults.

    Args:
        task: The class of the task.
        step: Name of the step.
        file: A settings file, or None.
        given: Values of the command line, None where there is none.

    Returns:
        Settings by the names of their sections.

    Raises:
        TypeError: If a value in the file has the wrong type.
        ValueError: If a name in the file is unknown, or a value is out of range.
    """
    sections = task.sections()
    read = read_settings(file, sections) if file is not None else {}
    options = options_of(task, step)
    made = {}
    for name in dict.fromkeys(name for name, _ in options):
        line = {
            option.name: None if given[option.name] == "none" and option.kind is not str
            else given[option.name]
            for section, option in options
            if section == name and given.get(option.name) is not None
        }  # fmt: skip
        both = {**read.get(name, {}), **line}
        for section, option in options:
            if section == name and option.required and option.name not in both:
                raise click.UsageError(f"Missing option '{_named(option.name)}'.")
        try:
            made[name] = sections[name].made(both)
        except (TypeError, ValueError) as error:
            wrong = re.match(r"`(\w+)`", str(error))
            if wrong and wrong[1] in line:
                own = "|".join(option.name for _, option in options)
                raise click.UsageError(re.sub(rf"`({own})`", _as_option, str(error))) from error
            where = f" ({file}, [{name}], and the command line)" if file is not None else ""
            raise type(error)(f"{error}{where}") from error
    return made


def _as_option(name: re.Match) -> str:
    return _named(name[1])


def _named(name: str) -> str:
    return "--" + name.replace("_", "-")


def values_of(task: type[Task], step: str, settings: Mapping[str, Any], method: Callable) -> dict:
    """Returns the settings of a step that a method takes, by name.

    Args:
        task: The class of the task.
        step: Name of the step.
        settings: Settings by sections.
        method: A method of the task.
    """
    taken = [*inspect.signature(method).parameters][2:]  # without `self` and the inputs
    return {
        option.name: getattr(settings[section], option.name)
        for section, option in options_of(task, step)
        if section in ("use", "test") and option.name in taken
    }


def step_command(
    task: type[Task], step: str, body: Callable, help: str, *more: Callable
) -> click.Command:
    """Makes the command of a step, with the options of its settings.

    Args:
        task: The class of the task.
        step: Name of the step.
        body: Called with the settings by sections, as `settings`, and the further options.
        help: What the command does.
        *more: Decorators of `click` for further options.

    Returns:
        The command.
    """

    def run(config: Path | None = None, **given: Any) -> None:
        names = [option.name for _, option in options_of(task, step)]
        settings = merged(task, step, config, {name: given.pop(name) for name in names})
        body(settings=settings, **given)

    for _, option in options_of(task, step)[::-1]:
        run = make_option(option, in_file=True)(run)
    run = config_option(run)
    for decorate in more[::-1]:
        run = decorate(run)
    return click.command(step, help=help)(run)


def _about(method: Callable) -> str:
    """The paragraphs of a docstring before its arguments."""
    text = inspect.getdoc(method) or ""
    return text.split("\nArgs:")[0].strip()


def _say(line: str) -> None:
    """Writes a progress line where it cannot get into the results."""
    click.echo(line, err=True)


def _fit(task: type[Task]) -> click.Command:
    def fit(run_dir: Path, settings: dict[str, Any]) -> None:
        examples = task.read(settings["data"])
        if examples.data is not None:
            settings["data"] = examples.data
        click.echo(examples.summary)
        what = task.examples_are
        click.echo(
            f"{what.capitalize()} for training: {len(examples.train):,}, "
            f"development: {len(examples.dev or ()):,}"
        )
        run = task.train(examples.train, examples.dev, run_dir, **settings, log=click.echo)
        exit_if_interrupted(run)
        if run.best_score is not None:
            score = run.score_name
            note = f"; {run.note}" if run.note else ""
            undefined = math.isnan(run.best_score)
            value = "undefined" if undefined else f"{run.best_score:.4f}"
            click.echo(
                f"Best on the development {what}: {score} {value}, epoch {run.best_epoch}{note}"
            )
        elif run.note:
            click.echo(run.note)
        click.echo(str(run.best))

    about = (
        "Train; the same command again goes on with a run that was interrupted.\n\n"
        f"{_about(task.read)}\n\n"
        "The weights with the best score are kept in RUN_DIR/best.task. Ctrl-C ends the training "
        "after the batch at hand."
    )
    run_dir = click.option("--run-dir", type=FILE, required=True, help="folder of the run")
    return step_command(task, "fit", fit, about, run_dir)


def _evaluate(task: type[Task]) -> click.Command:
    def evaluate(
        model_file: Path, output: Path | None, device: str, settings: dict[str, Any]
    ) -> None:
        check_output(output)
        settings["test"].check(settings.get("data"))
        with compute_on(device), progress_lines(_say):
            loaded = task.load(model_file)
            examples = loaded.read_test(settings["test"], settings.get("data"))
            click.echo(examples.summary())
            values = values_of(task, "evaluate", settings, task.evaluate)
            report = loaded.evaluate(examples, **values)
        click.echo(str(report))
        if output is not None:
            write_json(output, {**values, **report.to_dict()})

    to = click.option("--to", "output", type=FILE, help="JSON file of the figures")
    about = f"Measure a model on {task.examples_are} of yours."
    return step_command(task, "evaluate", evaluate, about, model_option, to, device_option)


def _predict(task: type[Task]) -> click.Command:
    def predict(
        model_file: Path,
        output: Path | None,
        device: str,
        settings: dict[str, Any],
        **given: Any,
    ) -> None:
        values = values_of(task, "predict", settings, task.predict)
        skip = values.get("on_error") == "skip"
        reader.check(skip=skip, **given)
        check_output(output)
        with compute_on(device), contextlib.ExitStack() as stack:
            loaded = task.load(model_file)
            own = READERS[loaded.reads]  # a model may want pairs where its class does not
            if own is not reader:
                own.check(skip=skip, **given)
            file = open_output(output, stack)
            between = ""
            for inputs in own.chunks(**given):
                stream = given.get("stream")
                if stream is None and "stream" in given:
                    alone = len(inputs) == 1 and values.get("beams") is None
                    stream = alone and output is None and os.isatty(1)
                if stream:
                    found = loaded.streamed(inputs, **values)
                else:
                    results = loaded.predict(inputs, **values)
                    found = ([task.line(*x)] for x in zip(inputs, results, strict=True))
                for pieces in found:
                    file.write(between)
                    for piece in pieces:
                        file.write(piece)
                        if stream:
                            file.flush()
                    between = task.separator
                file.flush()
            file.write("\n" if between else "")

    reader = READERS[task.reads]
    about = f"{_about(task.predict)}\n\n{reader.help}"
    to = click.option("--to", "output", type=FILE, help="file to write; standard output if none")
    options = (model_option, to, device_option, *reader.options)
    return step_command(task, "predict", predict, about, *options)


def _explain(task: type[Task]) -> click.Command:
    def explain(
        model_file: Path,
        output: Path,
        limit: int,
        title: str,
        device: str,
        files: tuple[Path, ...],
        settings: dict[str, Any],
    ) -> None:
        check_files(files)
        check_output(output)
        with compute_on(device):
            values = values_of(task, "explain", settings, task.explain)
            loaded = task.load(model_file)
            reads = loaded.reads if loaded.reads in _EXPLAINED else "lines"
            read = itertools.chain.from_iterable(READERS[reads].chunks(files))
            lines = list(itertools.islice(read, limit))
            more = next(read, None) is not None
            found = loaded.explain(lines, **values)
        with contextlib.ExitStack() as stack:
            open_output(output, stack).write(task.page(found, title))
        if more:
            click.echo(
                f"There are more texts: the page has the first {limit}. See --limit.", err=True
            )
        click.echo(str(output))

    reader = READERS[task.reads if task.reads in _EXPLAINED else "lines"]
    about = (
        f"Write a page that shows what decided.\n\n{reader.help}\n\n"
        "No more than --limit texts are read."
    )
    return step_command(
        task,
        "explain",
        explain,
        about,
        model_option,
        page_option,
        click.option(
            "--limit", type=click.IntRange(1), default=50, show_default=True,
            help="largest number of texts",
        ),
        click.option("--title", default="Explained texts", show_default=True, help="of the page"),
        device_option,
        files_argument,
    )  # fmt: skip


def _export(task: type[Task]) -> click.Command:
    def export(model_file: Path, folder: Path, overwrite: bool, settings: dict[str, Any]) -> None:
        values = {
            option.name: getattr(settings[section], option.name)
            for section, option in options_of(task, "export")
        }
        with progress_lines(_say):
            task.load(model_file).export(folder, overwrite=overwrite, **values)
        click.echo(f"SavedModel: {folder}")

    about = "Export a SavedModel, which needs TensorFlow alone."
    return step_command(
        task,
        "export",
        export,
        about,
        model_option,
        click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel"),
        click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there"),
    )


_MAKERS: dict[str, Callable[[type[Task]], click.Command]] = {
    "fit": _fit,
    "evaluate": _evaluate,
    "predict": _predict,
    "explain": _explain,
    "quantize": quantize_command,
    "export": _export,
}
