"""Output of the command: checks, lines, and exit after interruptions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import click

from keras_attn.cli.options import FILE
from keras_attn.files import check_output, open_output
from keras_attn.tasks import Note, TrainingRun


def check_new_model(path: Path, overwrite: bool) -> None:
    """Raises an error if a model cannot be written to `path`, or exists and is not replaced."""
    check_output(path)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} already exists. Give another file, or pass --overwrite.")


def _check_page(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise click.BadParameter(
            f"Expected the name of a page, which must end in .html. Received: {path}.",
            context,
            parameter,
        )
    return path


def _check_file(path: Path | None, overwrite: bool) -> None:
    check_output(path)


def _check_nothing(path: Path, overwrite: bool) -> None:
    """Checks nothing, because the step checks the path itself."""


class Writer(NamedTuple):
    """A kind of output of a step: the option for its path, and the check of the path."""

    name: str
    help: str
    required: bool = True
    check: Callable[..., None] = _check_file
    replaces: str = ""
    """Description of what `--overwrite` replaces; empty if there is no such option."""
    option: str = "--to"
    callback: Callable[..., Path] | None = None

    def options(self, help: str) -> list[click.Parameter]:
        """Returns the option for the path and, if outputs can be replaced, `--overwrite`."""
        path = click.Option(
            [self.option, self.name],
            type=FILE,
            required=self.required,
            callback=self.callback,
            help=help or self.help,
        )
        if not self.replaces:
            return [path]
        text = f"replace a {self.replaces} that is there"
        return [path, click.Option(["--overwrite"], is_flag=True, help=text)]


WRITERS = {
    "lines": Writer("output", "file to write; standard output if none", required=False),
    "file": Writer("output", "file to write"),
    "report": Writer("output", "JSON file of the figures", required=False),
    "page": Writer("output", "HTML file (*.html)", callback=_check_page),
    "figures": Writer(
        "output",
        "an HTML page (*.html), a figure (*.png, *.pdf, *.svg) or a folder of figures",
        check=_check_nothing,
    ),
    "model": Writer("output", "file of the model", check=check_new_model, replaces="model"),
    "folder": Writer("folder", "folder to write", check=_check_nothing),
    "saved_model": Writer(
        "folder",
        "folder of the export",
        check=_check_nothing,
        replaces="SavedModel",
    ),
    "run": Writer("run_dir", "folder of the run", check=_check_nothing, option="--run-dir"),
}
"""The writers, keyed by the names in `Step.writes`."""


def write_lines(lines: Iterable[Iterable[str] | Note], path: Path | None, printed: bool) -> bool:
    """Writes the lines of a step as they arrive; returns whether a `Note` reported a failure."""
    failed = False
    with contextlib.ExitStack() as stack:
        file = None if printed else stack.enter_context(open_output(path))
        for line in lines:
            if isinstance(line, Note):
                click.echo(line.text, err=True)
                failed = failed or line.failed
                continue
            pieces = [line] if isinstance(line, str) else line
            if file is None:
                click.echo("".join(pieces))
                continue
            for piece in pieces:
                file.write(piece)
                if path is None:
                    file.flush()
            file.write("\n")
            if path is None:
                file.flush()
    return failed


def exit_if_interrupted(run: TrainingRun) -> None:
    """Exits with the exit code of the signal if a signal interrupted the run."""
    if run.complete:
        return
    with contextlib.suppress(OSError):  # who read our output may be gone
        click.echo("Interrupted. Run the same command again to resume.", err=True)
    raise click.exceptions.Exit(128 + (run.interrupted_by or 2))
