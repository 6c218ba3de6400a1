"""The step of pretraining that other tasks have not: texts prepared once."""

from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import FILE
from keras_attn.cli.task_command import step_command, task_command
from keras_attn.tasks import Pretrainer
from keras_attn.tasks.pretraining.data import prepare as prepare_texts


def _prepare(folder: Path, settings: dict[str, Any]) -> None:
    prepare_texts(settings["data"], folder, click.echo)
    click.echo(f"Prepared data: {folder}")


prepare = step_command(
    Pretrainer,
    "prepare",
    _prepare,
    """Read texts, make a vocabulary, and write ids for `fit --prepared`.

    The texts may be larger than memory. `fit` maps the ids into memory and reads them in large
    pieces.
    """,
    click.option("--to", "folder", type=FILE, required=True, help="new folder of prepared ids"),
)

pretraining = task_command(Pretrainer)
pretraining.add_command(prepare)
