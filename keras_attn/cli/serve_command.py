"""The command `serve`: a page and REST for saved tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from keras_attn.cli.options import device_option
from keras_attn.tasks import Task
from keras_attn.tasks.base.task_file import task_of
from keras_attn.trained import find
from keras_attn.training import compute_on

_HELP = """\
Serve models with a page to try them and a REST server.

The server answers requests in TensorFlow Serving's form (POST /v1/models/NAME:predict and
:explain) and, for models that write texts or converse, in OpenAI's form (POST
/v1/chat/completions). Ctrl-C ends it after the current requests are finished. See
docs/rest_server.md.

--model is a file of any task, or NAME=FILE, and may be repeated. Without NAME, a model has the
name of its task."""


def serve_command(tasks: Sequence[type[Task]], own: Callable[[str], type[Task]]) -> click.Command:
    """Creates the command `serve`.

    Args:
        tasks: The tasks of the package.
        own: Function that returns a task of the user, given its name FILE.py:CLASS or MODULE:CLASS.
    """

    def run(
        models: tuple[str, ...], classes: tuple[str, ...], host: str, port: int, queue: int,
        batch_size: int, seconds: float, megabytes: float, device: str,
    ) -> None:  # fmt: skip
        from keras_attn.serve import Limits, serve

        known = {kind.__name__: kind for kind in (*tasks, *map(own, classes))}
        limits = Limits(queue, batch_size, seconds, int(megabytes * 1e6))
        places: dict[str, tuple[type[Task], Path]] = {}
        for model in models:
            name, kind, path = _found(model, known)
            if name in places:
                raise click.UsageError(f"Two models are called {name}. Give NAME=FILE.")
            places[name] = kind, path
        with compute_on(device):
            served = {name: kind.load(path) for name, (kind, path) in places.items()}
            serve(served, host, port, limits, device)

    number = click.IntRange(min=1)
    return click.Command(
        "serve",
        callback=run,
        help=_HELP,
        params=[
            click.Option(
                ["--model", "models"], required=True, multiple=True,
                help="file of a task, name of a model in the package, or NAME=FILE",
            ),
            click.Option(
                ["--task", "classes"], multiple=True,
                help="class of your own task, FILE.py:CLASS or MODULE:CLASS",
            ),
            click.Option(
                ["--host"], default="127.0.0.1", show_default=True,
                help="address; 0.0.0.0 serves the whole network without a password",
            ),
            click.Option(["--port"], type=click.IntRange(0, 65535), default=8080,
                         show_default=True, help="port"),
            click.Option(["--queue"], type=number, default=256, show_default=True,
                         help="rows that may wait for a model; requests beyond get status 429"),
            click.Option(["--batch-size"], type=number, default=64, show_default=True,
                         help="most rows that are computed at once"),
            click.Option(["--seconds"], type=click.FloatRange(min=0, min_open=True), default=30.0,
                         show_default=True,
                         help="time limit of a request; slower requests get status 504"),
            click.Option(["--megabytes"], type=click.FloatRange(min=0, min_open=True), default=8.0,
                         show_default=True,
                         help="size limit of a request; larger requests get status 413"),
            device_option(),
        ],
    )  # fmt: skip


def _found(model: str, known: dict[str, type[Task]]) -> tuple[str, type[Task], Path]:
    """The name of a model, its class and its file."""
    name, equals, place = model.rpartition("=")
    if not equals or Path(model).exists():
        name, place = "", model
    path = find(place)
    kind = task_of(path)
    if kind not in known:
        raise click.UsageError(
            f"{path} holds a {kind}, which is not a task of the package. Give its class: "
            f"--task FILE.py:{kind}."
        )
    name = name or known[kind].name
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise click.UsageError(
            f"Expected a name of letters, digits, '_', '.' and '-'. Received: {name!r}."
        )
    return name, known[kind], path
