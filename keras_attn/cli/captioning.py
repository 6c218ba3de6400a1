"""`keras-attn captioning`: fit, evaluate, predict, explain, quantize, export."""

import contextlib
import dataclasses
import json
import math
import os
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
from keras_attn.cli.pictures import (
    as_text,
    exit_if_broken,
    find_pictures,
    pictures_argument,
    tell_broken,
)
from keras_attn.cli.quantizing import quantize_command
from keras_attn.datasets import load_image
from keras_attn.datasets.images import as_problem
from keras_attn.files import check_writable
from keras_attn.tasks import (
    Captioner,
    CaptioningDataSettings,
    CaptioningDecodingSettings,
    CaptioningModelSettings,
    CaptioningTrainingSettings,
    train_captioner,
)
from keras_attn.tasks.attention_views import caption_view
from keras_attn.tasks.captioning_data import read_pictures
from keras_attn.tasks.captioning_settings import SECTIONS
from keras_attn.tasks.captioning_sources import (
    learnt_captions,
    read_captioned,
    training_pictures,
)
from keras_attn.training import compute_on
from keras_attn.visualize import attention_viewer

on_error_option = click.option(
    "--on-error",
    type=click.Choice(["skip", "error"]),
    default="skip",
    show_default=True,
    help="at a broken picture: name it, go on, and end with exit code 1; or stop",
)


@click.group("captioning")
def captioning() -> None:
    """Caption pictures: emoji by their names, or any captioned pictures of your own."""


@captioning.command()
@click.option("--run-dir", type=FILE, required=True, help="folder of the run")
@config_option
@settings_options(CaptioningDataSettings, CaptioningModelSettings, CaptioningTrainingSettings)
def fit(run_dir: Path, config: Path | None, **given: Any) -> None:
    """Train; the same command again goes on with a run that was interrupted.

    The captions are Karpathy's JSON (Flickr8k, Flickr30k, COCO, RSICD), COCO's own, Flickr8k's
    text files, a CSV or TSV table, or the folder of UCM-Captions; emoji with their names (67 MB,
    fetched once by pip) if none are given. A part of the pictures is left for choosing the best
    weights, which are kept in RUN_DIR/best.task. No test side is read. Ctrl-C ends the training
    after the batch at hand.
    """
    sections = {name: SECTIONS[name] for name in ("data", "model", "training")}
    settings = merged(sections, config, given, SECTIONS)
    pictures = training_pictures(settings["data"])
    click.echo(pictures.summary)
    click.echo(
        f"Pictures for training: {len(pictures.train):,}, development: {len(pictures.dev):,}"
    )
    run = train_captioner(
        pictures.train,
        pictures.dev,
        run_dir,
        settings["data"],
        settings["model"],
        settings["training"],
        click.echo,
    )
    exit_if_interrupted(run)
    click.echo(
        f"Best on the development pictures: {settings['training'].score} {run.best_score:.4f}, "
        f"epoch {run.best_epoch}"
    )
    click.echo(str(run.best))


@captioning.command()
@model_option
@click.option("--data", default="", help="as --train of `fit`; needed, but for --format emoji")
@click.option(
    "--split", help="side or sides, with commas, of karpathy, ucm and emoji  [default: test]"
)
@click.option("--names", default="", help="flickr8k: file with the names of one side")
@click.option("--train", help="as in `fit`: what was learnt, to count the captions copied of it")
@click.option(
    "--format", "format_", help="as in `fit`; emoji: these, without --data  [default: auto]"
)
@click.option("--image-dir", help="as in `fit`")
@click.option("--image", help="as in `fit`  [default: image]")
@click.option("--caption", help="as in `fit`  [default: caption]")
@click.option("--delimiter", help="as in `fit`")
@click.option("--emoji-style", help="as in `fit`  [default: twitter]")
@click.option("--on-error", help="as in `fit`  [default: error]")
@click.option(
    "--tokenization",
    type=click.Choice(["auto", "ptb", "plain"]),
    default="auto",
    show_default=True,
    help="words of the metrics: ptb is Java's, auto takes it where there is Java",
)
@click.option("--meteor", is_flag=True, help="METEOR as well, by Java")
@click.option("--cache-dir", type=FILE, help="folder of the encoder's features")
@click.option("--to", "output", type=FILE, help="JSON file of the figures and captions")
@config_option
@device_option
@settings_options(CaptioningDecodingSettings)
def evaluate(
    model_file: Path,
    data: str,
    split: str | None,
    names: str,
    train: str | None,
    format_: str | None,
    tokenization: str,
    meteor: bool,
    cache_dir: Path | None,
    output: Path | None,
    config: Path | None,
    device: str,
    **given: Any,
) -> None:
    """Measure a model on captioned pictures: BLEU, ROUGE-L, CIDEr, and how many are copies."""
    sections = {name: SECTIONS[name] for name in ("data", "decoding")}
    settings = merged(sections, config, {**given, "format": format_}, SECTIONS)
    found, decoding = settings["data"], dataclasses.asdict(settings["decoding"])
    if not data and found.format != "emoji":
        raise click.UsageError("Missing option '--data'. Emoji are taken with --format emoji.")
    check_output(output)
    learnt = None if train is None else learnt_captions(train, found)
    images = read_captioned(data, found, split, found.image_dir, names)
    if found.on_error == "skip":
        images = images.check_images("skip")
    click.echo(images.summary())
    with compute_on(device):
        scores = Captioner.load(model_file).evaluate(
            images,
            train_captions=learnt,
            tokenization=tokenization,
            meteor=meteor,
            cache_dir=cache_dir,
            **decoding,
        )
    click.echo(str(scores))
    if output is not None:
        figures = {k: v for k, v in dataclasses.asdict(scores).items() if k != "per_image"}
        rows = [
            {
                "image": as_text(image.path),
                "references": image.captions,
                **_finite(of_it._asdict()),
            }
            for image, of_it in zip(images, scores.per_image.values(), strict=True)
        ]
        write_json(output, {**_finite(figures), **decoding, "captions": rows})


@captioning.command()
@model_option
@click.option("--to", "output", type=FILE, help="file of JSON lines; standard output if none")
@on_error_option
@config_option
@device_option
@settings_options(CaptioningDecodingSettings)
@pictures_argument
def predict(
    model_file: Path,
    output: Path | None,
    on_error: str,
    config: Path | None,
    device: str,
    pictures: tuple[Path, ...],
    **given: Any,
) -> None:
    """Caption PICTURES, files or folders of them: writes a line of JSON for each.

    It has the picture's path, the caption and its score. Of folders, and the folders within, all
    files are read whose names end as those of pictures do.
    """
    decoding = merged({"decoding": CaptioningDecodingSettings}, config, given, SECTIONS)["decoding"]
    check_output(output)
    paths = find_pictures(pictures)
    with compute_on(device), contextlib.ExitStack() as stack:
        captioner = Captioner.load(model_file)
        file = open_output(output, stack)
        broken = 0
        size = captioner.encoder.image_size
        for numbers, pixels, problems in read_pictures(paths, size, decoding.batch_size, on_error):
            found = captioner.caption(
                pixels, decoding.beams, decoding.alpha, True, decoding.batch_size
            )
            for number, best in zip(numbers, found, strict=True):
                line = {"image": as_text(paths[number]), "caption": best.text, "score": best.score}
                print(json.dumps(line, ensure_ascii=False), file=file)
            file.flush()
            broken += tell_broken(problems)
    exit_if_broken(broken)


@captioning.command()
@model_option
@click.option(
    "--to", "output", type=FILE, required=True,
    help="an HTML page (*.html), a figure (*.png, *.pdf, *.svg) or a folder of figures",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="most pictures"
)
@click.option("--title", default="Where it looked", show_default=True, help="of the page")
@on_error_option
@config_option
@device_option
@settings_options(CaptioningDecodingSettings)
@pictures_argument
def explain(
    model_file: Path,
    output: Path,
    limit: int,
    title: str,
    on_error: str,
    config: Path | None,
    device: str,
    pictures: tuple[Path, ...],
    **given: Any,
) -> None:
    """Show where the model looks in PICTURES, files or folders of them, for each word.

    A page has all layers and heads, to look around in, and needs no network. A figure has the
    picture, and beside it the picture for each word; several pictures give a folder of figures.
    """
    decoding = merged({"decoding": CaptioningDecodingSettings}, config, given, SECTIONS)["decoding"]
    suffix = output.suffix.lower()
    page, one = suffix in (".html", ".htm"), suffix in (".png", ".pdf", ".svg", ".jpg", ".jpeg")
    if suffix and not (page or one or output.is_dir()):
        raise click.UsageError(
            f"--to is a page (*.html), a figure (*.png, *.pdf, *.svg) or a folder, which must be "
            f"there if its name has a dot. Received: {output}."
        )
    if page or one:
        check_output(output)
    else:
        check_writable(output)
    paths = find_pictures(pictures)
    if one and len(paths) > 1:
        raise click.UsageError(f"{output} is for one picture. Give a folder, or a page (*.html).")
    if len(paths) > limit:
        click.echo(f"Shown: {limit:,} of {len(paths):,} pictures. See --limit.", err=True)
    beams, alpha = decoding.beams, decoding.alpha
    with compute_on(device):
        captioner = Captioner.load(model_file)
        views, drawn, broken = [], 0, 0
        for number, path in enumerate(paths[:limit]):
            try:
                pixels = load_image(path)
            except (OSError, ValueError) as error:
                if on_error == "error":
                    raise
                broken += tell_broken([as_problem(os.fspath(path), error)])
                continue
            if page:
                view = caption_view(captioner, pixels, None, beams, alpha)
                views.append(dataclasses.replace(view, title=_named(path, view.title)))
                continue
            place = output if one else output / f"{number + 1:06d}-{path.stem}.png"
            caption = captioner.caption(pixels, beams, alpha, return_attention=True)
            caption.plot(pixels, place, _named(path, caption.text))
            drawn += 1
    if views:
        with contextlib.ExitStack() as stack:
            open_output(output, stack).write(attention_viewer(views, title))
    if views or drawn:
        click.echo(str(output))
    exit_if_broken(broken, "Not shown")


@captioning.command()
@model_option
@click.option("--to", "folder", type=FILE, required=True, help="folder of the SavedModel")
@click.option("--overwrite", is_flag=True, help="replace a SavedModel that is there")
@click.option(
    "--num-return-sequences", type=click.IntRange(1), help="captions of the signature `details`"
)
@config_option
@settings_options(CaptioningDecodingSettings)
def export(
    model_file: Path,
    folder: Path,
    overwrite: bool,
    num_return_sequences: int | None,
    config: Path | None,
    **given: Any,
) -> None:
    """Export a SavedModel from the bytes of pictures to captions, which needs TensorFlow alone."""
    decoding = merged({"decoding": CaptioningDecodingSettings}, config, given, SECTIONS)["decoding"]
    Captioner.load(model_file).export(
        folder, decoding.beams, decoding.alpha, num_return_sequences, overwrite
    )
    click.echo(f"SavedModel: {folder}")


def _named(path: Path, caption: str) -> str:
    """A caption with the name of its picture."""
    return f"{as_text(path.name)}: {caption}"


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN, which CIDEr is of one picture."""
    return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in figures.items()}


captioning.add_command(quantize_command(Captioner))
