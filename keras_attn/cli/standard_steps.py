"""The standard steps: fit, evaluate, predict, explain, quantize and export."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from keras_attn.adapt.quantization import MODES
from keras_attn.cli.lines import READERS
from keras_attn.cli.output import exit_if_interrupted
from keras_attn.cli.step_settings import options_of, values_of
from keras_attn.files import open_output
from keras_attn.interop.runtimes import FORMATS
from keras_attn.progress import progress_lines
from keras_attn.settings import Settings, setting
from keras_attn.tasks import Note, Step, Task
from keras_attn.training.processes import is_first_process, join_processes

_EXPLAINED = ("pairs", "only_pairs", "picture_pairs", "pictures", "turns")
"""The readers that `explain` shares with `predict`; otherwise it reads lines."""
_QUANTIZE = """\
Write a smaller model: kernels and embeddings of 8 bits instead of 32.

It takes the place of the model in `evaluate`, `predict` and `export`; evaluate it, as its
outputs differ a little. docs/speed.md says where it is faster, and where slower."""


@dataclass(frozen=True)
class ExplainPage(Settings):
    """Settings of the page that `explain` writes."""

    limit: int = setting(50, "maximum number of texts", at_least=1)
    title: str = setting("Explained texts", "title of the page")


@dataclass(frozen=True)
class Quantization(Settings):
    """Settings of `quantize`."""

    mode: str = setting("int8", "data type of kernels and embeddings", choices=tuple(MODES))


@dataclass(frozen=True)
class Export(Settings):
    """Settings of `export`: the format of the files."""

    format: str = setting(
        "saved_model",
        "saved_model takes and gives strings and needs TensorFlow; onnx, onnx-int8 (8 bits) and "
        "litert take ids, for tasks with an encoder",
        choices=("saved_model", *FORMATS),
    )


def standard_steps(task: type[Task]) -> dict[str, Step]:
    """Returns the standard steps, keyed by name."""
    read = (
        task.read
        if inspect.getattr_static(task, "read") is not vars(Task)["read"]
        else task.read_file
    )
    reader = READERS[task.reads]
    shown = READERS[_read_by_explain(task)]
    steps = [
        Step(
            "fit",
            "Train; the same command again resumes a run that was interrupted.\n\n"
            f"{_about(read)}\n\n"
            "The weights with the best score are kept in RUN_DIR/best.task. Ctrl-C ends the "
            "training after the batch at hand.",
            _fit,
            takes=("data", *task.parts, "model", "training"),
            writes="run",
            model="",
        ),
        Step(
            "evaluate",
            f"Measure a model on {task.examples_are} of yours.",
            _evaluate,
            takes=("use", "test"),
            writes="report",
            device=True,
            check=_check_test,
        ),
        Step(
            "predict",
            f"{_imperative(_about(task.predict))}\n\n{reader.help}",
            _predict,
            takes=("use",),
            reads=task.reads,
            writes="lines",
            device=True,
        ),
        Step(
            "explain",
            "Write an HTML page that shows which parts of an input decided its result.\n\n"
            f"{shown.help}\n\n"
            "No more than --limit texts are read.",
            _explain,
            takes=("use",),
            settings=ExplainPage,
            reads=_read_by_explain(task),
            writes="page",
            device=True,
        ),
        Step(
            "quantize",
            _QUANTIZE,
            _quantize,
            settings=Quantization,
            writes="model",
            to="file of the smaller model",
        ),
        Step(
            "export",
            "Export a SavedModel, which only needs TensorFlow, or an ONNX or LiteRT file.",
            _export,
            takes=("use",),
            settings=Export,
            writes="saved_model",
        ),
    ]
    return {step.name: step for step in steps}


def _about(method: Callable[..., object]) -> str:
    """The paragraphs of a docstring before its arguments."""
    text = inspect.getdoc(method) or ""
    return text.split("\nArgs:")[0].strip()


def _imperative(text: str) -> str:
    """Help begins like a command: "Classify texts", where a docstring says "Classifies texts"."""
    verb, _, rest = text.partition(" ")
    verb = re.sub(r"(?<=[sc]h|ss)es$|(?<!s)s$", "", re.sub("ies$", "y", verb))
    return f"{verb} {rest}"


def _say(line: str) -> None:
    """Writes a progress line to standard error."""
    click.echo(line, err=True)


def _read_by_explain(task: type[Task] | Task) -> str:
    return task.reads if task.reads in _EXPLAINED else "lines"


def _fit(task: type[Task], to: Path, settings: dict[str, Any]) -> None:
    join_processes()
    if not is_first_process():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    examples = task.read(settings["data"])
    if examples.data is not None:
        settings["data"] = examples.data
    click.echo(examples.summary)
    what = "characters" if isinstance(examples.train, str) else task.examples_are
    click.echo(
        f"{what.capitalize()} for training: {len(examples.train):,}, "
        f"development: {len(examples.dev or ()):,}"
    )
    run = task.train(examples.train, examples.dev, to, **settings, log=click.echo)
    exit_if_interrupted(run)
    if run.best_score is not None:
        note = f"; {run.note}" if run.note else ""
        value = "undefined" if math.isnan(run.best_score) else f"{run.best_score:.4f}"
        click.echo(
            f"Best on the development {what}: {run.score_name} {value}, epoch "
            f"{run.best_epoch}{note}"
        )
    elif run.note:
        click.echo(run.note)
    click.echo(str(run.best))


def _check_test(settings: dict[str, Any]) -> None:
    settings["test"].check(settings.get("data"))


def _evaluate(task: Task, to: Path | None, settings: dict[str, Any], step: Step) -> None:
    with progress_lines(_say):
        examples = task.read_test(settings["test"], settings.get("data"))
        click.echo(examples.summary())
        values = values_of(type(task), step, settings, task.evaluate)
        report = task.evaluate(examples, **values)
    click.echo(str(report))
    if to is not None:
        text = json.dumps({**values, **report.to_dict()}, ensure_ascii=False, indent=1)
        with open_output(to) as file:
            file.write(text + "\n")


def _predict(
    task: Task, files: tuple[Path, ...], skip: bool, settings: dict[str, Any], step: Step
) -> Iterator[str]:
    values = values_of(type(task), step, settings, task.predict)
    reader = READERS[task.reads]  # a model may want pairs where its class does not
    reader.check(files, skip)
    for inputs in reader.chunks(files):
        results = task.predict(inputs, **values)
        yield from itertools.starmap(task.line, zip(inputs, results, strict=True))


def _explain(
    task: Task,
    files: tuple[Path, ...],
    to: Path,
    settings: dict[str, Any],
    step: Step,
    explain: ExplainPage,
) -> Iterator[str | Note]:
    values = values_of(type(task), step, settings, task.explain)
    read = itertools.chain.from_iterable(READERS[_read_by_explain(task)].chunks(files))
    lines = list(itertools.islice(read, explain.limit))
    more = next(read, None) is not None
    page = task.page(task.explain(lines, **values), explain.title)
    with open_output(to) as file:
        file.write(page)
    if more:
        yield Note(f"There are more texts: the page has the first {explain.limit}. See --limit.")
    yield str(to)


def _quantize(task: Task, to: Path, model_file: Path, quantize: Quantization) -> str:
    task.quantize(quantize.mode)
    task.save(to)
    sizes = [path.stat().st_size for path in (model_file, to)]
    return f"{quantize.mode} model: {to}, {sizes[1]:,} bytes instead of {sizes[0]:,}"


def _export(task: Task, to: Path, overwrite: bool, settings: dict[str, Any], step: Step) -> str:
    values = {
        option.name: getattr(settings[section], option.name)
        for section, option in options_of(type(task), step)
    }
    with progress_lines(_say):
        task.export(to, overwrite=overwrite, **values)
    kind = "SavedModel" if values["format"] == "saved_model" else values["format"]
    return f"{kind}: {to}"
