"""The command `quantize`, the same for all tasks."""

from pathlib import Path
from typing import Any

import click

from keras_attn.adapt.quantization import MODES
from keras_attn.cli.options import FILE, model_option
from keras_attn.cli.output import check_new_model


def quantize_command(task: Any) -> click.Command:
    """Makes the command of a task.

    Args:
        task: Its class, with `load` and the methods of `Quantizable`.

    Returns:
        The command.

    Example:

    >>> quantize_command(TextGenerator).name
    'quantize'
    """

    @click.command()
    @model_option
    @click.option("--to", "output", type=FILE, required=True, help="file of the smaller model")
    @click.option(
        "--mode",
        type=click.Choice(MODES),
        default="int8",
        show_default=True,
        help="what kernels and embeddings become",
    )
    @click.option("--overwrite", is_flag=True, help="replace a model that is there")
    def quantize(model_file: Path, output: Path, mode: str, overwrite: bool) -> None:
        """Write a smaller model: kernels and embeddings of 8 bits instead of 32.

        It takes the place of the model in `evaluate`, `predict` and `export`; evaluate it, as its
        outputs differ a little. docs/speed.md says where it is faster, and where slower.
        """
        check_new_model(output, overwrite)
        made = task.load(model_file).quantize(mode)
        made.save(output)
        sizes = [path.stat().st_size for path in (model_file, output)]
        click.echo(f"{mode} model: {output}, {sizes[1]:,} bytes instead of {sizes[0]:,}")

    return quantize
